/** A ledger as a file for other programs (J): nothing is lost, and no cell acts on whoever opens it. */
import { describe, expect, test } from '@jest/globals';
import fc from 'fast-check';
import { exportText } from '../../../../cli/views/ledger.ts';
import { checkLedger } from '../../../../client/ledger/check.ts';
import { readLines } from '../../../../client/ledger/files.ts';
import type { LedgerFact } from '../../../../contracts/schemas/ledger.ts';
import { unicodeText } from '../../../support/builders/arbitraries.ts';
import { chainOf, STREAM } from '../../../support/builders/ledger-record.ts';
import { acceptedFact, ledgerOf, verdictFact } from '../../../support/builders/ledger.ts';
import { runCommand } from '../../../support/cli.ts';
import { forAll } from '../../../support/for-all.ts';
import { fileOf } from '../../../support/stories/signed-ledger.ts';

const PLACE = { namespace: STREAM.namespace, workflowId: STREAM.workflowId, firstRunId: STREAM.firstRunId };
const copyOf = (facts: readonly LedgerFact[], workflowId = PLACE.workflowId) => ({
  place: { ...PLACE, workflowId },
  entries: ledgerOf(facts),
  signedHeads: [],
  faults: [],
});
const stopped = (by: string, reason: string): LedgerFact => ({
  kind: 'stop.requested',
  by,
  reason,
  inFlight: 'finish',
});

/** As RFC 4180 says. */
function parsed(text: string): string[][] {
  const cells = [...text.matchAll(/(?:"((?:[^"]|"")*)"|([^",\r\n]*))(,|\r\n)/g)];
  expect(cells.map(([whole]) => whole).join('')).toBe(text);
  const rows: string[][] = [[]];
  for (const [, quoted, plain = '', end] of cells) {
    rows.at(-1)?.push(quoted === undefined ? plain : quoted.replaceAll('""', '"'));
    if (end === '\r\n') rows.push([]);
  }
  return rows.slice(0, -1);
}

describe('CSV', () => {
  const HEADER =
    'run,seq,at,kind,call_id,who,server,tool,result,code,decision_id,rules,policy_version,token_jti,token_scopes,token_expires_at,hash,prev,fact';

  test('has these columns, which programs rely on', () => {
    const hash = 'a'.repeat(64);
    const facts: LedgerFact[] = [
      verdictFact({ rules: ['one', 'two'] }),
      acceptedFact(),
      { kind: 'input.told', callId: 't1.c0', attempt: 1, round: 1, told: 'cancel', code: 'APPROVAL_LAPSED' },
      {
        kind: 'outcome',
        callId: 't1.c0',
        outcome: 'failed',
        code: 'TOOL_FAILED',
        outcomeHash: hash,
        token: {
          strategy: 'client-credentials',
          jti: 'j-1',
          scopes: ['a', 'b'],
          expiresAt: '2026-01-01T00:00:00.000Z',
        },
      },
    ];
    const copy = copyOf(facts);
    const [header, ...rows] = parsed(exportText('csv', copy));
    expect(header).toEqual(HEADER.split(','));
    const chosen = rows.map((row) => row.slice(3, 16));
    expect(chosen).toEqual([
      ['verdict', 't1.c0', '', 'bank', 'pay', 'ask', '', '', 'one two', hash, '', '', ''],
      ['decision.accepted', 't1.c0', 'ann', '', '', 'approve', '', 'd-1', '', '', '', '', ''],
      ['input.told', 't1.c0', '', '', '', 'cancel', 'APPROVAL_LAPSED', '', '', '', '', '', ''],
      ['outcome', 't1.c0', '', '', '', 'failed', 'TOOL_FAILED', '', '', '', 'j-1', 'a b', '2026-01-01T00:00:00.000Z'],
    ]);
    expect(rows.map((row) => JSON.parse(row.at(-1) ?? '') as unknown)).toEqual(facts);
    expect(rows[3]?.slice(16, 18)).toEqual([copy.entries[3]?.hash, copy.entries[3]?.prev]);
  });

  test.each(['=1+1', '+1', '-1', '@SUM(A1)', '=HYPERLINK("https://x.test")', '\t=1', '\r=1'])(
    'a cell that would be a formula is text: %j',
    (text) => {
      const [, row] = parsed(exportText('csv', copyOf([stopped(text, 'r')], text)));
      for (const cell of row ?? []) expect(cell).not.toMatch(/^[=+\-@\t\r]/);
      expect(row?.[5]).toContain(text.trim().slice(0, 4));
    },
  );

  test('whatever people wrote, every row has its columns and its fact', () => {
    const text = fc.oneof(unicodeText(), fc.string({ unit: fc.constantFrom('"', ',', '\r', '\n', '=', ';') }));
    forAll(text, text, (by, reason) => {
      const [header, row, ...others] = parsed(exportText('csv', copyOf([stopped(by, reason)])));
      expect(others).toEqual([]);
      expect(row).toHaveLength(header?.length ?? 0);
      expect(JSON.parse(row?.at(-1) ?? '')).toEqual(JSON.parse(JSON.stringify(stopped(by, reason))));
      for (const cell of row ?? []) expect(cell).not.toMatch(/^[=+\-@\t\r]/);
      expect(row?.join('')).not.toMatch(/\p{Bidi_Control}/u);
    });
  });

  test('a fact of a newer build is written too', () => {
    const entry = { ...chainOf(1)[0], fact: { kind: 'something.new', by: { id: 'ann' } } };
    const [, row] = parsed(exportText('csv', { ...copyOf([]), entries: [entry as never] }));
    expect(row?.slice(3, 6)).toEqual(['something.new', '', 'ann']);
  });
});

test('JSONL is what verify-ledger reads, entry for entry', () => {
  const entries = chainOf(4);
  const text = exportText('jsonl', { place: PLACE, entries, signedHeads: ['e30.e30.AAAA'], faults: [] });
  const copy = readLines(text, PLACE.workflowId, 'a file');
  expect(copy).toEqual({ place: PLACE, entries, signedHeads: ['e30.e30.AAAA'], faults: [] });
  expect(checkLedger(copy.entries).faults).toEqual([]);
});

test('a file is exported anew, in either format, without a server', async () => {
  const entries = chainOf(3);
  const file = await fileOf(
    exportText('jsonl', { place: { workflowId: 'run-1' }, entries, signedHeads: [], faults: [] }),
  );
  const csv = await runCommand(['ledger', 'run-1', '--export', 'csv', '--file', file]);
  expect([csv.exitCode, parsed(csv.out).length]).toEqual([0, 4]);
  const jsonl = await runCommand(['ledger', 'run-1', '--export', 'jsonl', '--file', file]);
  expect(readLines(jsonl.out, 'run-1', 'a file').entries).toEqual(entries);
  const verified = await runCommand(['verify-ledger', 'run-1', '--file', file]);
  expect([verified.exitCode, verified.out]).toEqual([0, expect.stringContaining('chained; signatures not checked')]);
  expect((await runCommand(['ledger', 'run-1', '--export', 'xml', '--file', file])).exitCode).toBe(2);
});

test('of a file with a line that cannot be read, the rest is written, and the command fails and says what is missing', async () => {
  const lines = exportText('jsonl', { place: PLACE, entries: chainOf(3), signedHeads: [], faults: [] }).split('\n');
  const file = await fileOf([lines[0], lines[1]?.slice(0, 40), ...lines.slice(2)].join('\n'));
  for (const format of ['csv', 'jsonl']) {
    const result = await runCommand(['ledger', PLACE.workflowId, '--export', format, '--file', file]);
    expect(result.exitCode).toBe(7);
    expect(result.out).toContain('m-2');
    expect(result.err).toContain('LEDGER_BROKEN');
    expect(result.err).toContain('entry 1 should follow in the file, whose line 2 is no ledger line');
  }
  const nothing = await fileOf(JSON.stringify({ runId: 'run-1', entries: [] }));
  expect((await runCommand(['ledger', 'run-1', '--export', 'csv', '--file', nothing])).exitCode).toBe(7);
});
