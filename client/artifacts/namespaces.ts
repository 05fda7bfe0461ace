/**
 * Reads which namespaces use an artifact store, as its workers have recorded it there (`activities/artifacts/root.ts`).
 * The histories of all of them must be read before any artifact is removed.
 */
import { readdir, readFile } from 'node:fs/promises';
import { join } from 'node:path';
import type { Client } from '@temporalio/client';
import { CountersignError, nodeCodeOf } from '../../contracts/errors.ts';
import { STORE_NAMESPACES, StoreNamespace } from '../../contracts/schemas/stores.ts';
import { jsonOf } from '../ledger/files.ts';
import { isNotFound } from './references.ts';

/** @throws CountersignError `SWEEP_REFUSED` if no namespace is recorded, or a record cannot be read */
export async function namespacesOf(directory: string): Promise<readonly StoreNamespace[]> {
  const folder = join(directory, STORE_NAMESPACES);
  const names = await readdir(folder).catch((error: unknown) => {
    if (nodeCodeOf(error) === 'ENOENT') return [];
    throw error;
  });
  // Names with a leading dot are unfinished files of a worker that died.
  const files = names.filter((name) => !name.startsWith('.')).toSorted();
  if (files.length === 0)
    throw refusal(
      `no worker has recorded its namespace in ${folder}. Start workers of this release on it, in each namespace that uses it, and try again`,
    );
  return await Promise.all(
    files.map(async (name) => {
      const found = StoreNamespace.safeParse(jsonOf(await readFile(join(folder, name), 'utf8')));
      if (found.success && name === `${found.data.id}.json`) return found.data;
      throw refusal(`${join(folder, name)} names no namespace. Remove it, and start a worker of each namespace again`);
    }),
  );
}

/**
 * Asserts that the recorded namespaces belong to this Temporal service.
 *
 * @param deadlineMs deadline for each namespace
 * @throws CountersignError `SWEEP_REFUSED`
 */
export async function assertHere(
  { connection, workflowService }: Pick<Client, 'connection' | 'workflowService'>,
  directory: string,
  recorded: readonly StoreNamespace[],
  deadlineMs: number,
): Promise<void> {
  for (const { name, id } of recorded) {
    const found = await connection.withDeadline(Date.now() + deadlineMs, async () => {
      return await workflowService.describeNamespace({ namespace: name }).catch((error: unknown) => {
        if (isNotFound(error)) return undefined;
        throw error;
      });
    });
    if (found?.namespaceInfo?.id === id) continue;
    const what = found === undefined ? 'is not there' : 'is another one of that name';
    throw refusal(
      `runs of namespace ${name} (${id}) keep artifacts in it, and that ${what} at this Temporal service. Name the service of the workers (--address, --profile, TEMPORAL_ADDRESS); where that namespace is gone for good, remove ${join(directory, STORE_NAMESPACES, `${id}.json`)}`,
    );
  }
}

export function refusal(reason: string): CountersignError {
  return new CountersignError('SWEEP_REFUSED', `The artifact store is not swept: ${reason}. Nothing was removed.`);
}
