/**
 * Makes a ledger as a deployment keeps it: cut into records, each under a head that a worker's key has
 * signed.
 */
import { mkdtemp, writeFile } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { createDelivery, createHeadSigner, type SignHead } from '../../../activities/ledger/port.ts';
import type { LedgerEntry, LedgerHead, LedgerLine } from '../../../contracts/schemas/ledger.ts';
import { STREAM } from '../builders/ledger-record.ts';
import { type HeadKey, writeHeadKey } from '../signing/keys.ts';

export async function signerOf(key: HeadKey): Promise<SignHead> {
  const folder = await mkdtemp(join(tmpdir(), 'countersign-key-'));
  return await createHeadSigner(await writeHeadKey(folder, key), folder);
}

/** @param cuts numbers of the entries at which a new record begins */
export async function linesOf(
  sign: SignHead,
  entries: readonly LedgerEntry[],
  cuts: readonly number[] = [],
  over: Partial<LedgerHead> = {},
): Promise<LedgerLine[]> {
  const lines: LedgerLine[] = [];
  const place = { namespace: STREAM.namespace, workflowId: STREAM.workflowId, firstRunId: STREAM.firstRunId };
  const keep = {
    deliver: async (record: { readonly entries: readonly LedgerEntry[]; readonly signedHead: string }) => {
      lines.push(...record.entries.map((entry) => ({ ...place, entry })), { ...place, signedHead: record.signedHead });
    },
  };
  const deliver = createDelivery(sign, [keep]);
  const [first, last] = [entries[0]?.seq ?? 0, (entries.at(-1)?.seq ?? -1) + 1];
  const stops = [first, ...cuts, last];
  for (const [index, to] of stops.entries()) {
    const from = stops[index - 1];
    if (from !== undefined && to > from)
      await deliver(
        { ...STREAM, ...over },
        entries.filter(({ seq }) => seq >= from && seq < to),
      );
  }
  return lines;
}

export function textOf(lines: readonly LedgerLine[]): string {
  return lines.map((line) => `${JSON.stringify(line)}\n`).join('');
}

export async function fileOf(text: string, name = 'ledger.jsonl'): Promise<string> {
  const file = join(await mkdtemp(join(tmpdir(), 'countersign-copy-')), name);
  await writeFile(file, text);
  return file;
}
