/** Whatever is done to a kept ledger is found, with the entry and how (J, F39). */
import { join } from 'node:path';
import { inspect } from 'node:util';
import { beforeAll, describe, expect, test } from '@jest/globals';
import fc from 'fast-check';
import { setUpRoot } from '../../../../activities/artifacts/root.ts';
import { createLedgerDirectory, LEDGER_ROOT } from '../../../../activities/ledger/directory.ts';
import { createDelivery, type SignHead } from '../../../../activities/ledger/port.ts';
import { exportText } from '../../../../cli/views/ledger.ts';
import {
  checkLedger,
  conversationFaults,
  copyFaults,
  type FaultKind,
  type LedgerReport,
} from '../../../../client/ledger/check.ts';
import { readLines, readRecords } from '../../../../client/ledger/files.ts';
import { checkHead, type HeadKeys, readHeadKeys } from '../../../../client/ledger/heads.ts';
import type { LedgerEntry, LedgerLine } from '../../../../contracts/schemas/ledger.ts';
import type { Message } from '../../../../contracts/schemas/transcript.ts';
import { EMPTY_JOURNAL, Journal, marked, sealEntry } from '../../../../domain/run/journal.ts';
import { chainOf, STREAM } from '../../../support/builders/ledger-record.ts';
import { useConfigFolders } from '../../../support/config-folder.ts';
import { headKey } from '../../../support/signing/keys.ts';
import { linesOf, signerOf, textOf } from '../../../support/stories/signed-ledger.ts';

const { folder } = useConfigFolders();
const KEY = headKey();
let sign: SignHead;
let keys: HeadKeys;
let lines: readonly LedgerLine[];
const CHAIN = chainOf(9);
beforeAll(async () => {
  sign = await signerOf(KEY);
  keys = await readHeadKeys(JSON.stringify({ keys: [KEY.publicJwk] }));
  lines = await linesOf(sign, CHAIN, [4, 7]);
});

/** @param checks without keys only what heads say is compared */
async function reportOf(text: string, checks: 'with keys' | 'without' = 'with keys'): Promise<LedgerReport> {
  const copy = readLines(text, STREAM.workflowId, 'a file');
  const known = checks === 'without' ? undefined : keys;
  const checked = await Promise.all(copy.signedHeads.map(async (signed) => checkHead(signed, copy.place, known)));
  const heads = checked.flatMap((check) => (check.kind === 'head' ? [check.head] : []));
  const foreign = checked.flatMap((check) => (check.kind === 'foreign' ? [check.fault] : []));
  const report = checkLedger(copy.entries, heads, known !== undefined);
  return { ...report, faults: [...copy.faults, ...foreign, ...report.faults] };
}

/** What is wrong, as `kind seq`. */
const faultsOf = async (changed: readonly LedgerLine[]): Promise<string[]> =>
  (await reportOf(textOf(changed))).faults.map(({ kind, seq }) => `${kind} ${seq}`);

const PLACE = { namespace: STREAM.namespace, workflowId: STREAM.workflowId, firstRunId: STREAM.firstRunId };
const isEntry = (line: LedgerLine): line is Extract<LedgerLine, { entry: unknown }> => 'entry' in line;
const without = (seq: number): LedgerLine[] => lines.filter((line) => !isEntry(line) || line.entry.seq !== seq);
/** As an insider writes it who has no key: entry 2 says something else, and all after it are hashed anew. */
const rehashed = (): LedgerEntry[] => {
  const entries = CHAIN.slice(0, 2);
  for (const { seq, at, fact } of CHAIN.slice(2)) {
    const said = seq === 2 ? { ...fact, from: 'mallory' } : fact;
    entries.push(sealEntry(seq, entries.at(-1)?.hash ?? '', Date.parse(at), said));
  }
  return entries;
};
const withEntries = (entries: readonly LedgerEntry[]): LedgerLine[] =>
  lines.map((line) => (isEntry(line) ? { ...line, entry: entries[line.entry.seq] ?? line.entry } : line));

describe('a kept ledger', () => {
  test('that nobody touched is whole, and all of it stands under signed heads', async () => {
    expect(await reportOf(textOf(lines))).toEqual({
      faults: [],
      length: 9,
      head: CHAIN.at(-1)?.hash,
      branches: 1,
      signedTo: 9,
      ended: false,
    });
    // The same lines delivered twice add nothing.
    expect(await faultsOf([...lines, ...lines])).toEqual([]);
  });

  test('altered: an entry that says something else than its hash', async () => {
    const changed = lines.map((line) =>
      isEntry(line) && line.entry.seq === 5
        ? { ...line, entry: { ...line.entry, at: '2020-01-01T00:00:00.000Z' } }
        : line,
    );
    expect(await faultsOf(changed)).toEqual(['altered 5']);
  });

  test('an insider who rewrites an entry and hashes the chain anew is caught by the signed heads, and by nothing else', async () => {
    const changed = withEntries(rehashed());
    expect(await faultsOf(changed)).toEqual(['unsigned 0', 'rewritten 3', 'rewritten 6', 'rewritten 8']);
    const unsigned = changed.filter(isEntry);
    expect(checkLedger(unsigned.map(({ entry }) => entry)).faults).toEqual([]);
  });

  test('an insider who signs with a key of their own is caught', async () => {
    const forged = await linesOf(await signerOf(headKey('worker-1')), rehashed(), [4, 7]);
    expect(await faultsOf(forged)).toEqual(['foreign-head 3', 'foreign-head 6', 'foreign-head 8', 'unsigned 0']);
    const another = await linesOf(await signerOf(headKey('worker-2')), rehashed());
    expect((await reportOf(textOf(another))).faults[0]).toMatchObject({ reason: expect.stringContaining('worker-2') });
  });

  test('missing: an entry in the middle, and a stretch', async () => {
    expect(await faultsOf(without(5))).toContain('missing 5');
    const stretch = lines.filter((line) => !isEntry(line) || ![4, 5, 6].includes(line.entry.seq));
    expect((await reportOf(textOf(stretch))).faults).toContainEqual(
      expect.objectContaining({ kind: 'missing', seq: 4, reason: 'to 6 are missing' }),
    );
  });

  test('truncated: what was signed to be there is cut off, also in the middle of a line', async () => {
    const cut = lines.filter((line) => !isEntry(line) || line.entry.seq < 7);
    expect(await faultsOf(cut)).toEqual(['truncated 8']);
    const text = textOf(lines.filter(isEntry));
    expect((await reportOf(text.slice(0, -20), 'without')).faults).toEqual([
      expect.objectContaining({ kind: 'truncated', seq: 8, reason: expect.stringContaining('line 9 is cut off') }),
    ]);
  });

  test('reordered: two entries that changed places', async () => {
    const swapped = [...lines];
    [swapped[1], swapped[2]] = [lines[2] as LedgerLine, lines[1] as LedgerLine];
    expect(await faultsOf(swapped)).toEqual(['reordered 2']);
  });

  test('unsigned: what was added after the last signed head', async () => {
    const more = chainOf(11, 'added', CHAIN).slice(9);
    const added = more.map((entry): LedgerLine => ({ ...PLACE, entry }));
    expect(await faultsOf([...lines, ...added])).toEqual(['unsigned 9']);
  });

  test('foreign-head: one of another run, another namespace, another kind of signature', async () => {
    const place = { workflowId: 'run-1', namespace: 'default', firstRunId: STREAM.firstRunId };
    const signed = (lines.at(-1) as { signedHead: string }).signedHead;
    for (const other of [{ workflowId: 'run-2' }, { namespace: 'prod' }, { firstRunId: 'later' }])
      expect(await checkHead(signed, { ...place, ...other }, keys)).toMatchObject({ kind: 'foreign' });
    for (const text of ['e30.e30.AAAA', 'nothing', `${signed.split('.').slice(0, 2).join('.')}.AAAA`])
      expect(await checkHead(text, place, keys)).toMatchObject({ kind: 'foreign' });
  });

  test('foreign-head: the same signature in another spelling', async () => {
    const place = { workflowId: STREAM.workflowId };
    const signed = (lines.at(-1) as { signedHead: string }).signedHead;
    // 64 bytes are 86 characters, and the last four bits of the last one stand for nothing.
    const others = [...'ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789-_']
      .map((last) => `${signed.slice(0, -1)}${last}`)
      .filter((other) => other !== signed);
    const kinds = await Promise.all(others.map(async (other) => (await checkHead(other, place, keys)).kind));
    expect(new Set(kinds)).toEqual(new Set(['foreign']));
  });

  test('forked: a second entry in one place, unless a reset made it', async () => {
    const branch = chainOf(8, 'branch', CHAIN.slice(0, 3)).slice(3);
    expect(await faultsOf([...lines, ...(await linesOf(sign, branch))])).toEqual(['forked 3']);
    const reset = await linesOf(sign, branch, [], { runId: 'reset-1', resetOf: STREAM.runId });
    expect(await reportOf(textOf([...lines, ...reset]))).toMatchObject({ faults: [], branches: 2, length: 9 });
  });

  test('a branch that a reset made where a record begins stands before what it left, by the names of their files', async () => {
    const root = join(await folder(), 'root');
    setUpRoot(root, true, LEDGER_ROOT);
    const deliver = createDelivery(sign, [createLedgerDirectory(root)]);
    await deliver(STREAM, CHAIN.slice(0, 3));
    await deliver(STREAM, CHAIN.slice(3));
    const branch = chainOf(8, 'branch', CHAIN.slice(0, 3)).slice(3);
    await deliver({ ...STREAM, runId: 'reset-1', resetOf: STREAM.runId }, branch);
    const told = exportText('jsonl', await readRecords(root, STREAM.workflowId));
    expect(told.indexOf(branch[0]?.hash ?? '')).toBeLessThan(told.indexOf(CHAIN[3]?.hash ?? ''));
    expect(await reportOf(told)).toMatchObject({ faults: [], branches: 2, length: 9 });
    const forged = await linesOf(sign, chainOf(8, 'forged', CHAIN.slice(0, 3)).slice(3));
    expect((await reportOf(`${told}${textOf(forged)}`)).faults).toMatchObject([{ kind: 'forked', seq: 3 }]);
  });

  test('unreadable: a line that is none, and one of another run', async () => {
    const text = textOf(lines);
    expect((await reportOf(`nothing\n${text}`)).faults[0]).toMatchObject({ kind: 'unreadable', seq: 0 });
    const other = { ...(lines[0] as LedgerLine), workflowId: 'run-2' };
    expect(await faultsOf([...lines, other])).toEqual(['unreadable 9']);
  });

  test('whatever single thing is done to the lines, something is found', async () => {
    const index = fc.nat(lines.length - 1);
    const change = fc.oneof(
      fc.record({ kind: fc.constant('drop' as const), at: fc.nat(lines.length - 2) }),
      fc.record({ kind: fc.constant('swap' as const), at: index, with: index }),
      fc.record({ kind: fc.constant('edit' as const), at: index, byte: fc.nat(10_000) }),
    );
    await fc.assert(
      fc.asyncProperty(change, async (done) => {
        const texts = lines.map((line) => JSON.stringify(line));
        if (done.kind === 'drop') texts.splice(done.at, 1);
        if (done.kind === 'swap') [texts[done.at], texts[done.with]] = [texts[done.with] ?? '', texts[done.at] ?? ''];
        if (done.kind === 'edit') {
          const line = texts[done.at] ?? '';
          const at = done.byte % line.length;
          texts[done.at] = `${line.slice(0, at)}${line[at] === '7' ? '8' : '7'}${line.slice(at + 1)}`;
        }
        const dropped = done.kind === 'drop' ? lines[done.at] : undefined;
        const isHarmless =
          // A head may stand anywhere, and an earlier one is not needed where a later one holds.
          (dropped !== undefined && !isEntry(dropped)) ||
          (done.kind === 'swap' &&
            texts.filter((text) => text.includes('"entry"')).join() ===
              lines
                .filter(isEntry)
                .map((line) => JSON.stringify(line))
                .join());
        const { faults } = await reportOf(`${texts.join('\n')}\n`);
        expect(faults.length > 0 || isHarmless).toBe(true);
      }),
      { numRuns: 500 },
    );
  });
});

describe('a copy beside its run', () => {
  const faults = (copy: readonly LedgerEntry[], stored?: number, ended = false) =>
    copyFaults(copy, CHAIN, { ended, ...(stored !== undefined && { stored }) }).map(
      ({ kind, seq }) => `${kind} ${seq}`,
    );

  test('that lacks the end of it is cut off where the run has ended, or had handed over more before it continued as new', () => {
    expect(faults(CHAIN.slice(0, 4), 7)).toEqual(['truncated 4']);
    expect(faults([], 7)).toEqual(['truncated 0']);
    expect(faults(CHAIN.slice(0, 4), undefined, true)).toEqual(['truncated 4']);
    // An execution hands over its records when it ends.
    expect(faults(CHAIN.slice(0, 7), 7)).toEqual([]);
    expect(faults(CHAIN.slice(0, 4))).toEqual([]);
  });

  test('that says something else was written anew', () => {
    expect(faults(rehashed(), 7)).toEqual(['rewritten 2']);
    expect(faults(CHAIN, 9, true)).toEqual([]);
  });
});

test('every kind of fault is one that a test provokes', () => {
  // A new kind does not compile here.
  const kinds: Record<FaultKind, true> = {
    altered: true,
    rewritten: true,
    missing: true,
    reordered: true,
    truncated: true,
    forked: true,
    'foreign-head': true,
    unsigned: true,
    // By test/workflow/verify-ledger.slow.test.ts.
    history: true,
    unreadable: true,
    // By ledger-proofs.test.ts.
    'proof-unsigned': true,
    'proof-altered': true,
    'proof-foreign-key': true,
    'proof-not-entitled': true,
    'proof-expired': true,
  };
  expect(Object.keys(kinds)).toHaveLength(15);
});

test('the stored conversation is the one that the ledger names, or the entry that names another is found', () => {
  const message = (text: string): Message => ({ role: 'user', text });
  const messages = [message('one'), message('two')];
  const journal = new Journal(EMPTY_JOURNAL);
  for (const each of messages) {
    journal.append(each);
    journal.record(0, marked({ kind: 'run.rolled', turn: 1, because: 'nudge' }, journal));
  }
  journal.record(0, { kind: 'cancel.requested' });
  const entries = journal.entries(0, 3);
  expect(conversationFaults(entries, messages)).toEqual([]);
  expect(conversationFaults(entries, [message('one'), message('2')])).toMatchObject([{ kind: 'altered', seq: 1 }]);
  expect(conversationFaults(entries, [message('one')])).toMatchObject([{ kind: 'altered', seq: 1 }]);
});

describe('a key file', () => {
  test.each([
    ['a JWK set', () => JSON.stringify({ keys: [KEY.publicJwk] })],
    ['a JWK', () => JSON.stringify(KEY.publicJwk)],
    ['PEM', () => KEY.publicPem],
  ])('may be %s', async (_, text) => {
    expect((await readHeadKeys(text())).size).toBe(1);
  });

  test('may hold the keys of workers before and after a change, in PEM too, where no key has a name', async () => {
    const next = headKey('worker-2');
    const [before, after] = await Promise.all(
      [sign, await signerOf(next)].map(async (signing) => (await linesOf(signing, CHAIN)).at(-1)),
    );
    const heldBy = async (text: string) => {
      const given = await readHeadKeys(text);
      return await Promise.all(
        [before, after].map(async (line) =>
          line !== undefined && 'signedHead' in line ? (await checkHead(line.signedHead, PLACE, given)).kind : 'none',
        ),
      );
    };
    expect(await heldBy(`${KEY.publicPem}${next.publicPem}`)).toEqual(['head', 'head']);
    expect(await heldBy(JSON.stringify({ keys: [KEY, next].map(({ publicJwk: { kid: _, ...jwk } }) => jwk) }))).toEqual(
      ['head', 'head'],
    );
    expect(await heldBy(next.publicPem)).toEqual(['foreign', 'head']);
    // A signature belongs to the key that it names.
    expect(await heldBy(JSON.stringify({ keys: [{ ...next.publicJwk, kid: KEY.kid }] }))).toEqual([
      'foreign',
      'foreign',
    ]);
  });

  test.each([
    ['a private key', () => KEY.pem],
    ['a private key beside a public one', () => `${KEY.publicPem}${KEY.pem}`],
    ['a private JWK', () => JSON.stringify({ ...KEY.publicJwk, d: 'canary' })],
    ['nothing', () => ''],
    ['another kind', () => JSON.stringify({ kty: 'EC', crv: 'P-256', x: 'a', y: 'b' })],
  ])('that holds %s is refused without quoting it', async (_, text) => {
    const error: unknown = await readHeadKeys(text()).catch((reason: unknown) => reason);
    expect(error).toMatchObject({ code: 'USAGE' });
    expect(inspect(error, { depth: Infinity, showHidden: true })).not.toMatch(/canary|PRIVATE/);
  });
});
