/** One decision on several calls: shown first, sent when it is confirmed, answered one by one. */
import { describe, expect, test } from '@jest/globals';
import { plain } from '../../../../cli/session/terminal.ts';
import {
  assertForSeveral,
  firstRefused,
  type Judged,
  notConfirmed,
  planBatch,
  rememberOf,
} from '../../../../cli/verbs/decide.ts';
import { batchAnswer, planAnswer } from '../../../../cli/views/request.ts';
import type { BatchAnswer, RunHandle } from '../../../../client/index.ts';
import { CountersignError } from '../../../../contracts/errors.ts';
import type { ApprovalRequest } from '../../../../contracts/schemas/request.ts';
import { approvalRequest } from '../../../support/builders/approval-request.ts';
import { approverRule } from '../../../support/builders/judgement.ts';
import { withCode } from '../../../support/refusal.ts';
import { codeOf } from '../../../support/world/run-record.ts';

const HOSTILE = '\u001b[2J\u202eevil';
const of = (callId: string, over: Partial<ApprovalRequest> = {}): ApprovalRequest => ({
  ...approvalRequest(),
  callId,
  approvers: approverRule(['ann']),
  deadline: '2999-01-01T00:00:00.000Z',
  ...over,
});
const SHOWN = [
  of('t1.c0'),
  of('t1.c1', { arguments: { note: HOSTILE } }),
  of('t1.c2', { approvers: approverRule(['zoe']) }),
  of('t1.c3', { status: 'approved' }),
];
const runOf = (...shown: readonly ApprovalRequest[]): RunHandle => {
  const ledger = async () => [{ fact: { kind: 'request.closed', callId: 't0.c9', status: 'cancelled' } }];
  // Sound: nothing else of the run is asked.
  return { runId: 'run-1', requests: async () => shown, ledger } as unknown as RunHandle;
};
const run = runOf(...SHOWN);
const approve = { kind: 'approve' } as const;
const as = { as: 'ann' };

describe('what would be sent', () => {
  test('with --all: what waits and may be decided by this person; the rest is named', async () => {
    const plan = await planBatch(run, [], approve, { ...as, all: true });
    expect(plan.decisions).toMatchObject([
      { kind: 'approve', callId: 't1.c0', digest: SHOWN[0]?.digest, approver: { id: 'ann' } },
      { callId: 't1.c1' },
    ]);
    expect(new Set(plan.decisions.map(({ decisionId }) => decisionId)).size).toBe(2);
    expect(plan.others).toEqual(['t1.c2']);
    const text = planAnswer('run-1', plan, false).text(plain);
    expect(text).toContain('Would approve:');
    expect(text).toContain('wait for others: t1.c2');
    for (const active of ['\u001b', '\u202e']) expect(text).not.toContain(active);
    const together = plan.digest.slice(0, 32);
    expect(notConfirmed('run-1', plan, as)).toMatchObject(
      withCode('USAGE', `these 2 calls, add --yes --digest ${together}.`),
    );
    expect(text).toContain(`digest of these together: ${plan.digest}`);
    // An approval needs both; what was named must be what waits now.
    expect(notConfirmed('run-1', plan, { ...as, yes: true })).toMatchObject({ code: 'USAGE' });
    expect(notConfirmed('run-1', plan, { ...as, digest: together })).toMatchObject({ code: 'USAGE' });
    expect(notConfirmed('run-1', plan, { ...as, yes: true, digest: together })).toBeUndefined();
    expect(notConfirmed('run-1', plan, { ...as, yes: true, digest: 'f'.repeat(32) })).toMatchObject({
      code: 'DIGEST_MISMATCH',
    });
    expect(notConfirmed('run-1', { ...plan, kind: 'reject' }, { ...as, yes: true })).toBeUndefined();
    expect(notConfirmed('run-1', plan, as, true)).toBeUndefined();
  });

  type People = Readonly<Record<'ids' | 'groups', string[]>>;
  const later = (change: { add: People } | { replace: People }): ApprovalRequest['approvers'] => ({
    allOf: [{ layer: 'organisation', ids: ['zoe'], groups: [], escalate: { afterSeconds: 60, ...change } }],
  });
  const ann = { ids: ['ann'], groups: [] };
  const openedAgo = (ms: number): string => new Date(Date.now() - ms).toISOString();
  const calls = async (who: string, shown: ApprovalRequest, judged: Judged = approve): Promise<string[]> => {
    const plan = await planBatch(runOf(shown), [], judged, { as: who, all: true });
    return plan.decisions.map(({ callId }) => callId);
  };

  test('F-3: with --all: who was added meanwhile is asked, who was replaced is not', async () => {
    const added = { approvers: later({ add: ann }) };
    expect(await calls('ann', of('t1.c0', { ...added, openedAt: openedAgo(3_600_000) }))).toEqual(['t1.c0']);
    expect(await calls('ann', of('t1.c0', { ...added, openedAt: openedAgo(-3_600_000) }))).toEqual([]);
    const replaced = { approvers: later({ replace: ann }), openedAt: openedAgo(3_600_000) };
    expect(await calls('zoe', of('t1.c0', replaced))).toEqual([]);
  });

  test('with --all: what this person agreed to already waits for others, and may still be rejected', async () => {
    const agreed = of('t1.c0', { votes: [{ approver: { id: 'ann', groups: [] }, at: openedAgo(0) }] });
    expect(await planBatch(runOf(agreed), [], approve, { ...as, all: true })).toMatchObject({
      decisions: [],
      others: ['t1.c0'],
    });
    expect(await calls('ann', agreed, { kind: 'reject', reason: 'no' })).toEqual(['t1.c0']);
  });

  test('with names: those, each once, and what does not wait stops all of it', async () => {
    const { decisions } = await planBatch(run, ['t1.c1', 't1.c0', 't1.c1'], { kind: 'reject', reason: 'no' }, as);
    expect(decisions.map(({ callId }) => callId)).toEqual(['t1.c1', 't1.c0']);
    expect(await codeOf(planBatch(run, ['t1.c0', 't1.c3'], approve, as))).toBe('REQUEST_NOT_OPEN');
    expect(await codeOf(planBatch(run, ['t1.c0', 't9.c9'], approve, as))).toBe('CALL_UNKNOWN');
    // Of a turn that is over, or of a run that was stopped.
    expect(await codeOf(planBatch(run, ['t1.c0', 't0.c9'], approve, as))).toBe('REQUEST_NOT_OPEN');
  });

  test.each([
    ['names and --all', ['t1.c0'], approve, { all: true as const }],
    ['neither', [], approve, {}],
    [
      'a digest of what is rejected',
      ['t1.c0', 't1.c1'],
      { kind: 'reject' as const, reason: 'no' },
      { digest: 'f'.repeat(64) },
    ],
    ['a decision id', ['t1.c0', 't1.c1'], approve, { decisionId: 'd' }],
    ['other arguments', ['t1.c0', 't1.c1'], { ...approve, arguments: {} }, {}],
  ])('%s is a mistake, before anything is asked', (_, names, judged, over) => {
    expect(() => assertForSeveral(names, judged, { ...as, ...over })).toThrow('Nothing was sent.');
    expect(() => assertForSeveral(['t1.c0', 't1.c1'], approve, as)).not.toThrow();
  });

  test('G-6: what policy keeps back is shown only to whoever asks for it, in either form', async () => {
    const kept = of('t1.c0', { arguments: { iban: 'DE-canary', amount: 8 }, redact: ['iban'] });
    const plan = await planBatch(runOf(kept), [], approve, { ...as, all: true });
    const [hidden, revealed] = [planAnswer('run-1', plan, false), planAnswer('run-1', plan, true)];
    expect(hidden.text(plain)).toContain('"amount":8');
    for (const shown of [hidden.text(plain), JSON.stringify(hidden.json)]) expect(shown).not.toContain('canary');
    for (const shown of [revealed.text(plain), JSON.stringify(revealed.json)]) expect(shown).toContain('canary');
  });

  test('nothing at all is said as such', async () => {
    const plan = await planBatch(run, [], approve, { as: 'nobody', all: true });
    expect(planAnswer('run-1', plan, false).text(plain)).toContain('Nothing of run run-1 waits that you may decide.');
    const nobody = { as: 'nobody', yes: true as const };
    expect(notConfirmed('run-1', plan, nobody)).toMatchObject({
      code: 'REQUEST_NOT_OPEN',
      message: 'Nothing of run run-1 waits that nobody may approve; nothing was sent.',
    });
    const one = await planBatch(run, ['t1.c0'], approve, as);
    expect(notConfirmed('run-1', one, as)?.message).toContain('this call');
    expect(planAnswer('run-1', one, false).text(plain)).not.toContain('others');
  });
});

describe('what became of it', () => {
  const ack = { callId: 't1.c0', decisionId: 'd', status: 'approved' as const, decidedBy: 'ann', decidedAt: '' };
  const error = new CountersignError('ALREADY_DECIDED', `${HOSTILE} was first.`, { callId: 't1.c1', decidedBy: 'ben' });
  const answers: readonly BatchAnswer[] = [
    { callId: 't1.c0', decisionId: 'd', kind: 'accepted', ack },
    { callId: 't1.c1', decisionId: 'e', kind: 'refused', error },
  ];

  test('is told of each, and ends with the code of the first that was refused', async () => {
    const plan = await planBatch(run, [], approve, { ...as, all: true });
    const answer = batchAnswer('run-1', plan, answers);
    expect(answer.json).toMatchObject({
      results: [
        { ...ack, server: 'files', tool: 'write_file' },
        {
          callId: 't1.c1',
          decisionId: 'e',
          server: 'files',
          tool: 'write_file',
          error: { code: 'ALREADY_DECIDED', facts: { decidedBy: 'ben' } },
        },
      ],
    });
    const text = answer.text(plain);
    expect(text).toMatch(/t1\.c0 +approved +d\b/);
    expect(text).toMatch(/t1\.c1 +ALREADY_DECIDED +e\b/);
    for (const active of ['\u001b', '\u202e']) expect(text).not.toContain(active);
    expect(firstRefused(answers)).toMatchObject({
      message: expect.stringContaining('1 of 2 decisions were not taken, the first of call t1.c1'),
      facts: { callId: 't1.c1', decidedBy: 'ben', decisionId: 'e', refused: 1 },
    });
    expect(firstRefused(answers.slice(0, 1))).toBeUndefined();
    expect(batchAnswer('run-1', { ...plan, others: [] }, answers).text(plain)).not.toContain('others');
  });

  test('one without an answer was not refused: it may count, and is sent again under its id', () => {
    const lost = new CountersignError('RESULT_UNCERTAIN', 'No answer from run run-1 in time.', { runId: 'run-1' });
    const silent: BatchAnswer = { callId: 't1.c2', decisionId: 'f', kind: 'refused', error: lost };
    const alone = firstRefused([...answers.slice(0, 1), silent]);
    expect(alone).toMatchObject({
      code: 'RESULT_UNCERTAIN',
      message: expect.stringContaining('decide that call alone, as before, and add --decision-id f'),
      facts: { callId: 't1.c2', decisionId: 'f', refused: 0, unanswered: 1 },
    });
    expect(alone?.message).not.toContain('not taken');
    // A refusal is the answer of the command, whichever came first.
    const both = firstRefused([silent, ...answers]);
    expect(both).toMatchObject({ code: 'ALREADY_DECIDED', facts: { callId: 't1.c1', refused: 1, unanswered: 1 } });
    expect(both?.message).toMatch(/^1 of 3 decisions were not taken, .* Of 1 of 3 decisions nobody knows yet/);
  });
});

test('--remember: a scope, names of arguments, an end', () => {
  const until = '2026-02-01T09:00:00.000Z';
  expect(rememberOf('call', undefined)).toEqual({ scope: 'call' });
  expect(rememberOf('tool', until)).toEqual({ scope: 'tool', until });
  expect(rememberOf('arguments:project,x:y', undefined)).toEqual({ scope: 'arguments', names: ['project', 'x:y'] });
  for (const wrong of ['', 'arguments', 'arguments:', 'call:a', 'all'])
    expect(() => rememberOf(wrong, undefined)).toThrow('--remember');
});
