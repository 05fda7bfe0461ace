/**
 * Removes from an artifact directory what nobody needs any more.
 *
 * Owns what is needed by an artifact that is needed, and removing without a race. Does not own what runs need
 * (`references.ts`).
 *
 * 1. Kept is what is young, what a history names, and what either of them names in turn, however deep: segments name those before
 *    them, results name their parts.
 * 2. An artifact that is put again while it is being removed stays: a put makes it young, or finds it gone and writes it anew
 *    (`activities/artifacts/directory.ts`).
 * 3. Where anything cannot be read, nothing is removed. Nor where the histories that were read are not those of this store: its
 *    workers say in it which namespaces they serve, and of a store in use histories name something.
 * 4. What a sweep that was killed had put aside is given back by the next one, and is young: somebody may have put it again.
 */
import { access, open, readdir, readFile, rename, rm, stat, utimes } from 'node:fs/promises';
import { join } from 'node:path';
import { CountersignError } from '../../contracts/errors.ts';
import { STORE_NAMESPACES, type StoreNamespace } from '../../contracts/schemas/stores.ts';
import { namespacesOf, refusal } from './namespaces.ts';
import { hashesIn } from './references.ts';

const MARKER = '.countersign-store';
const ASIDE = '.swept';
const OPENING = new Set(['{', '[']);

export interface SweepOptions {
  /** Absolute. */
  readonly directory: string;
  /** Epoch ms; what was put later is young. */
  readonly before: number;
  readonly dryRun: boolean;
  /** What histories name, by name of their namespace: of these at least. Asked only where something is old. */
  readonly referenced: (recorded: readonly StoreNamespace[]) => Promise<ReadonlyMap<string, ReadonlySet<string>>>;
}

export interface SweepReport {
  readonly artifacts: number;
  readonly young: number;
  /** Old, and needed. */
  readonly needed: number;
  readonly removed: readonly { readonly sha256: string; readonly bytes: number }[];
}

interface Artifact {
  readonly sha256: string;
  readonly path: string;
  readonly bytes: number;
  readonly isYoung: boolean;
}

export async function sweepArtifacts({ directory, before, dryRun, referenced }: SweepOptions): Promise<SweepReport> {
  await access(join(directory, MARKER)).catch((error: unknown) => {
    throw new CountersignError(
      'ARTIFACT_MISSING',
      `There is no artifact store at ${directory}: its file ${MARKER} is not there. Name the workers' configuration.`,
      {},
      { cause: error },
    );
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
    if (dryRun || (await remove(artifact.path, before))) removed.push(artifact);
  }
  return {
    artifacts: artifacts.size,
    young: young.length,
    needed: needed.size - young.length,
    removed: removed.map(({ sha256, bytes }) => ({ sha256, bytes })),
  };
}

/** Histories that name nothing of the store are those of others, or not all there: visibility that is being rebuilt lists none. Asked of each namespace: one that is whole says nothing of another. */
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
          // It has been put again since.
          if (!dryRun) await rm(path + aside, { force: true });
          continue;
        }
        if (aside !== undefined && !dryRun) await giveBack(path);
        const at = dryRun ? join(folder, name) : path;
        const { size, mtimeMs } = await stat(at);
        yield { sha256, path: at, bytes: size, isYoung: aside !== undefined || mtimeMs >= before };
      }
    }
  }
}

async function foldersIn(path: string): Promise<readonly string[]> {
  const entries = await readdir(path, { withFileTypes: true });
  return entries.filter((entry) => entry.isDirectory() && /^[0-9a-f]{2}$/.test(entry.name)).map(({ name }) => name);
}

/** From the roots on, through whatever they hold. */
async function reachable(artifacts: ReadonlyMap<string, Artifact>, roots: readonly string[]): Promise<Set<string>> {
  const found = new Set<string>();
  const left = [...roots];
  for (let sha256 = left.pop(); sha256 !== undefined; sha256 = left.pop()) {
    const artifact = artifacts.get(sha256);
    if (artifact === undefined || found.has(sha256)) continue;
    found.add(sha256);
    if (await isJson(artifact.path)) left.push(...hashesIn(await readFile(artifact.path)));
  }
  return found;
}

/** All of ours that names others is; an image need not be read to its end. */
async function isJson(path: string): Promise<boolean> {
  const file = await open(path, 'r');
  try {
    const { buffer, bytesRead } = await file.read(Buffer.alloc(1), 0, 1, 0);
    return bytesRead === 1 && OPENING.has(buffer.toString('latin1'));
  } finally {
    await file.close();
  }
}

/** Put aside first: whoever puts it now either has made it young before that, or finds it gone. @returns is it removed? */
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

/** Young before it has its name: nobody takes it for one that is old. */
async function giveBack(path: string): Promise<void> {
  const now = new Date();
  await utimes(path + ASIDE, now, now);
  await rename(path + ASIDE, path);
}
