/**
 * What of a run stands in its folder, as far as it matters to a record that is to be added.
 *
 * 1. Reads the files from the record's first entry on, and before it no more than the one it follows: adding to a long run
 *    costs no more than adding to a short one.
 * 2. A last line without its end is not there: after a crash of a file system that lost bytes, what comes again is written
 *    again. Anything else that is no sound line is refused.
 */
import { readdir, readFile } from 'node:fs/promises';
import { join } from 'node:path';
import { nodeCodeOf } from '../../contracts/node-code.ts';
import { LedgerLine, type LedgerRecord } from '../../contracts/schemas/ledger-record.ts';
import { hashOf } from '../../domain/canonical.ts';
import { conflict } from './refusal.ts';

export interface Recorded {
  readonly byHash: ReadonlySet<string>;
  /** Hash → hash of an entry that follows it. */
  readonly after: ReadonlyMap<string, string>;
}

const NAME = /^(\d{12})-[0-9a-f]{16}(?:-[0-9A-Za-z-]+)?\.jsonl$/;

export async function readRecorded(folder: string, record: LedgerRecord): Promise<Recorded> {
  const { from, previousHead } = record.head;
  const byHash = new Set<string>();
  const after = new Map<string, string>();
  const newestFirst = (await namesIn(folder)).toSorted().toReversed();
  for (const name of newestFirst) {
    const first = Number(NAME.exec(name)?.[1]);
    // The entry before the record's first may stand in any branch; each is found by its hash.
    if (first < from && byHash.has(previousHead)) break;
    for (const [index, line] of linesOf(await readFile(join(folder, name), 'utf8')).entries()) {
      const entry = entryOf(line);
      if (entry === 'damaged') throw conflict(record, first, `stands in ${name}, whose line ${index + 1} is damaged`);
      if (entry === undefined) continue;
      byHash.add(entry.hash);
      after.set(entry.prev, entry.hash);
    }
  }
  return { byHash, after };
}

async function namesIn(folder: string): Promise<string[]> {
  try {
    return (await readdir(folder)).filter((name) => NAME.test(name));
  } catch (error) {
    if (nodeCodeOf(error) === 'ENOENT') return [];
    throw error;
  }
}

function linesOf(text: string): readonly string[] {
  return text.split('\n').slice(0, -1);
}

function entryOf(line: string): { readonly prev: string; readonly hash: string } | 'damaged' | undefined {
  let value: unknown;
  try {
    value = JSON.parse(line);
  } catch {
    return 'damaged';
  }
  const parsed = LedgerLine.safeParse(value);
  if (!parsed.success) return 'damaged';
  if (!('entry' in parsed.data)) return undefined;
  const { hash, ...body } = parsed.data.entry;
  return hashOf(body) === hash ? { prev: body.prev, hash } : 'damaged';
}
