/**
 * Removes the artifacts of a directory that nobody needs any more: none of the retained histories names them.
 *
 * 1. An artifact is kept if it is young, if a history names it, or if a kept artifact names it, at any depth. Too many
 *    are found rather than too few: references and other digests look alike, since both are 64 hexadecimal digits.
 * 2. An artifact that is put again during its removal stays. The put makes it young, or finds it gone and writes it
 *    anew (`activities/artifacts/directory.ts`).
 * 3. Nothing is removed if anything cannot be read, or if the histories do not belong to this store. The store records
 *    which namespaces its workers serve, and histories of a store in use name something in it.
 * 4. What a killed sweep has set aside is restored as young, since somebody may have put it again.
 */
import { access, open, readdir, readFile, rename, rm, stat, utimes } from 'node:fs/promises';
import { join } from 'node:path';
import type { Client } from '@temporalio/client';
import type { Payload } from '@temporalio/common';
import { decode } from '@temporalio/common/lib/internal-non-workflow/index.js';
import { CountersignError, nodeCodeOf } from '../../contracts/errors.ts';
import { CATALOG_WORKFLOW, RUN_WORKFLOW } from '../../contracts/names.ts';
import { STORE_NAMESPACES, StoreNamespace } from '../../contracts/schemas/stores.ts';
import { ifThere, listExecutions } from '../engine/executions.ts';
import { jsonOf } from '../ledger/files.ts';
import { missingBy } from './readers.ts';

const MARKER = '.countersign-store';
const ASIDE = '.swept';
const OPENING = new Set(['{', '[']);

interface SweepOptions {
  /** Absolute path. */
  readonly directory: string;
  /** Epoch ms; an artifact that was put later is young. */
  readonly before: number;
  readonly dryRun: boolean;
  /** Returns the hashes that histories name, by namespace; asked only if something is old. */
  readonly referenced: (recorded: readonly StoreNamespace[]) => Promise<ReadonlyMap<string, ReadonlySet<string>>>;
}

interface Artifact {
  readonly sha256: string;
  readonly path: string;
  readonly bytes: number;
  readonly isYoung: boolean;
}

export async function sweepArtifacts({ directory, before, dryRun, referenced }: SweepOptions) {
  await access(join(directory, MARKER)).catch((error: unknown) => {
    const absent = `There is no artifact store at ${directory}: its file ${MARKER} is not there. Name the workers' configuration.`;
    throw missingBy(error, `The artifact store at ${directory}`, absent);
  });
  const artifacts = new Map<string, Artifact>();
  for await (const artifact of artifactsIn(directory, before, dryRun)) artifacts.set(artifact.sha256, artifact);
  const young = [...artifacts.values()].filter(({ isYoung }) => isYoung);
  const isAllYoung = young.length === artifacts.size;
  const named = isAllYoung ? [] : await namedOf(directory, artifacts, referenced);
  const roots = [...young.map(({ sha256 }) => sha256), ...named];
  const needed = isAllYoung ? new Set(artifacts.keys()) : await reachable(artifacts, roots);
  const removed: Artifact[] = [];
  for (const artifact of artifacts.values()) {
    if (needed.has(artifact.sha256)) continue;
    if (dryRun || (await unlessGone(remove(artifact.path, before))) === true) removed.push(artifact);
  }
  return {
    artifacts: artifacts.size,
    young: young.length,
    needed: needed.size - young.length,
    removed: removed.map(({ sha256, bytes }) => ({ sha256, bytes })),
  };
}

/**
 * Refuses if the histories of any one namespace name nothing in the store: they belong to another store, or Temporal
 * does not list them now.
 */
async function namedOf(
  directory: string,
  artifacts: ReadonlyMap<string, Artifact>,
  referenced: SweepOptions['referenced'],
): Promise<readonly string[]> {
  const recorded = await namespacesOf(directory);
  const named = await referenced(recorded);
  for (const { name, id } of recorded) {
    if ([...(named.get(name) ?? [])].some((sha256) => artifacts.has(sha256))) continue;
    throw refusal(
      `no history of namespace ${name} names anything in it, as if there were no runs. Look whether Temporal lists its runs and catalogs (temporal workflow list). Where there are none any more, start one, or, where nobody uses it with this store any more, remove ${join(directory, STORE_NAMESPACES, `${id}.json`)}`,
    );
  }
  return [...named.values()].flatMap((hashes) => [...hashes]);
}

async function* artifactsIn(directory: string, before: number, dryRun: boolean): AsyncGenerator<Artifact> {
  for (const first of await foldersIn(directory)) {
    for (const second of await foldersIn(join(directory, first))) {
      const folder = join(directory, first, second);
      const names = new Set(await readdir(folder));
      for (const name of names) {
        const [, sha256, aside] = /^([0-9a-f]{64})(\.swept)?$/.exec(name) ?? [];
        if (sha256 === undefined || !sha256.startsWith(first + second)) continue;
        const path = join(folder, sha256);
        if (aside !== undefined && names.has(sha256)) {
          // The artifact has been put again since.
          if (!dryRun) await rm(path + aside, { force: true });
          continue;
        }
        if (aside !== undefined && !dryRun) await unlessGone(giveBack(path));
        const at = dryRun ? join(folder, name) : path;
        const found = await unlessGone(stat(at));
        if (found === undefined) throw goneMeanwhile(sha256);
        const { size, mtimeMs } = found;
        yield { sha256, path: at, bytes: size, isYoung: aside !== undefined || mtimeMs >= before };
      }
    }
  }
}

async function foldersIn(path: string): Promise<readonly string[]> {
  const entries = await readdir(path, { withFileTypes: true });
  return entries.filter((entry) => entry.isDirectory() && /^[0-9a-f]{2}$/.test(entry.name)).map(({ name }) => name);
}

async function reachable(artifacts: ReadonlyMap<string, Artifact>, roots: readonly string[]): Promise<Set<string>> {
  const found = new Set<string>();
  const left = [...roots];
  for (let sha256 = left.pop(); sha256 !== undefined; sha256 = left.pop()) {
    const artifact = artifacts.get(sha256);
    if (artifact === undefined || found.has(sha256)) continue;
    found.add(sha256);
    const bytes = await unlessGone(bytesOfJson(artifact.path));
    if (bytes === undefined) throw goneMeanwhile(sha256);
    left.push(...hashesIn(bytes));
  }
  return found;
}

/** Two sweeps at once meet each other's removals. */
async function unlessGone<T>(done: Promise<T>): Promise<T | undefined> {
  try {
    return await done;
  } catch (error) {
    if (nodeCodeOf(error) === 'ENOENT') return undefined;
    throw error;
  }
}

/** Every artifact of ours that names others is JSON; an image need not be read to its end. */
async function bytesOfJson(path: string): Promise<Buffer> {
  const file = await open(path, 'r');
  try {
    const { buffer, bytesRead } = await file.read(Buffer.alloc(1), 0, 1, 0);
    const isJson = bytesRead === 1 && OPENING.has(buffer.toString('latin1'));
    return isJson ? await file.readFile() : Buffer.alloc(0);
  } finally {
    await file.close();
  }
}

/** Sets the artifact aside first: a put has made it young by then, or finds it gone. @returns true if it is removed */
async function remove(path: string, before: number): Promise<boolean> {
  const aside = path + ASIDE;
  await rename(path, aside);
  if ((await stat(aside)).mtimeMs >= before) {
    await rename(aside, path);
    return false;
  }
  await rm(aside);
  return true;
}

/** Makes the artifact young before it gets its name back, so that nobody takes it for an old one. */
async function giveBack(path: string): Promise<void> {
  const now = new Date();
  await utimes(path + ASIDE, now, now);
  await rename(path + ASIDE, path);
}

async function namespacesOf(directory: string): Promise<readonly StoreNamespace[]> {
  const folder = join(directory, STORE_NAMESPACES);
  const names = (await unlessGone(readdir(folder))) ?? [];
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

/** @param deadlineMs for each namespace @throws CountersignError `SWEEP_REFUSED` if one is not at this service */
export async function assertHere(
  { connection, workflowService }: Pick<Client, 'connection' | 'workflowService'>,
  directory: string,
  recorded: readonly StoreNamespace[],
  deadlineMs: number,
): Promise<void> {
  for (const { name, id } of recorded) {
    const found = await connection.withDeadline(Date.now() + deadlineMs, async () =>
      ifThere(async () => await workflowService.describeNamespace({ namespace: name })),
    );
    if (found?.namespaceInfo?.id === id) continue;
    const what = found === undefined ? 'is not there' : 'is another one of that name';
    throw refusal(
      `runs of namespace ${name} (${id}) keep artifacts in it, and that ${what} at this Temporal service. Name the service of the workers (--address, --profile, TEMPORAL_ADDRESS); where that namespace is gone for good, remove ${join(directory, STORE_NAMESPACES, `${id}.json`)}`,
    );
  }
}

/** Artifacts that it names must not be taken for unneeded: the other sweep may give it back. */
function goneMeanwhile(sha256: string): CountersignError {
  return refusal(
    `artifact ${sha256} went away while the store was read, as where another sweep is under way. Let that end, then sweep again`,
  );
}

function refusal(reason: string): CountersignError {
  return new CountersignError('SWEEP_REFUSED', `The artifact store is not swept: ${reason}. Nothing was removed.`);
}

const HASH = /(?<![0-9a-f])[0-9a-f]{64}(?![0-9a-f])/g;
/** Encodings that a data converter writes in clear; any other encoding is still encrypted. */
const CLEAR = new Set(['json/plain', 'json/protobuf', 'binary/plain', 'binary/protobuf', 'binary/null']);

export function hashesIn(bytes: Uint8Array): readonly string[] {
  // A hash is ASCII, so the bytes are read one by one, whatever stands around it.
  return Buffer.from(bytes.buffer, bytes.byteOffset, bytes.byteLength).toString('latin1').match(HASH) ?? [];
}

export async function referencedArtifacts(client: Client): Promise<ReadonlySet<string>> {
  const found = new Set<string>();
  const query = `WorkflowType IN ('${RUN_WORKFLOW}', '${CATALOG_WORKFLOW}')`;
  for await (const { workflowId, runId } of listExecutions(client, query))
    for (const hash of await hashesOf(client, workflowId, runId)) found.add(hash);
  return found;
}

async function hashesOf(client: Client, workflowId: string, runId: string): Promise<readonly string[]> {
  // There is none if the retention of this execution has ended since it was listed.
  const history = await ifThere(async () => await client.workflow.getHandle(workflowId, runId).fetchHistory());
  const payloads = [...payloadsIn(history)];
  const decoded = await decode([...client.options.loadedDataConverter.payloadCodecs], payloads);
  return decoded.flatMap((payload) => {
    const encoding = new TextDecoder().decode(payload.metadata?.['encoding'] ?? undefined);
    if (!CLEAR.has(encoding)) {
      const message = `The history of ${workflowId} cannot be read: it is encrypted, and encryption.keys does not have its key. Nothing was removed.`;
      throw new CountersignError('CONFIG_INVALID', message, { path: 'encryption.keys', runId: workflowId });
    }
    const { data } = payload;
    // No `instanceof`: bytes may be of another kind, and an artifact whose reference is overlooked is removed. An empty
    // payload holds an empty list instead of bytes.
    return data === undefined || data === null || data.length === 0 ? [] : hashesIn(data);
  });
}

function* payloadsIn(value: unknown): Generator<Payload> {
  if (value === null || typeof value !== 'object' || ArrayBuffer.isView(value)) return;
  // Sound: of all messages of a history, payloads alone have both.
  if ('metadata' in value && 'data' in value) yield value as Payload;
  else for (const inner of Object.values(value)) yield* payloadsIn(inner);
}
