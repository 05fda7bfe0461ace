/**
 * The namespaces whose workers keep artifacts in a directory, beside its marker.
 *
 * Whoever removes artifacts must have read their histories, and cannot know of them otherwise (`client/artifact-sweep.ts`). Written
 * before a worker stores anything, and never removed by one: runs outlast workers.
 */
import { readFile } from 'node:fs/promises';
import { join } from 'node:path';
import { STORE_NAMESPACES, type StoreNamespace } from '../../contracts/schemas/artifact-store.ts';
import { replace } from '../durable-file.ts';

/** A second call changes nothing. @param root with its marker */
export async function recordNamespace(root: string, { name, id }: StoreNamespace): Promise<void> {
  const path = join(root, STORE_NAMESPACES, `${id}.json`);
  const text = `${JSON.stringify({ name, id } satisfies StoreNamespace)}\n`;
  if ((await readFile(path, 'utf8').catch(() => undefined)) === text) return;
  await replace(root, path, text);
}
