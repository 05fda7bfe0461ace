/** Reads what the directory sink holds of one run. */
import { readdir, readFile } from 'node:fs/promises';
import { join } from 'node:path';
import { type AnyEntry, LedgerLine } from '../../../contracts/schemas/ledger.ts';

export interface KeptFolder {
  readonly entries: readonly AnyEntry[];
  readonly signedHeads: readonly string[];
  readonly files: readonly string[];
}

/** @param of part of the folder's name: a workflow id, or the first Temporal run id */
export async function keptIn(root: string, of: string): Promise<KeptFolder> {
  const all = await readdir(root, { recursive: true }).catch(() => []);
  const files = all.filter((path) => path.includes(of) && path.endsWith('.jsonl')).toSorted();
  const texts = await Promise.all(files.map(async (file) => await readFile(join(root, file), 'utf8')));
  const lines = texts
    .flatMap((text) => text.split('\n').filter((line) => line !== ''))
    .map((line) => LedgerLine.parse(JSON.parse(line)));
  return {
    files,
    entries: lines.flatMap((line) => ('entry' in line ? [line.entry] : [])),
    signedHeads: lines.flatMap((line) => ('signedHead' in line ? [line.signedHead] : [])),
  };
}
