/** A call that waits no longer: its ledger says how it was settled, and a vote is told from the approval that settled it (INV-D3, F-5). */
import { describe, expect, test } from '@jest/globals';
import { decideCall, type Judged } from '../../../../cli/verbs/decide.ts';
import type { ApprovalRequest, RunHandle } from '../../../../client/index.ts';
import { plain } from '../../../../cli/session/terminal.ts';
import { decisionAnswer } from '../../../../cli/views/request.ts';
import { CountersignError } from '../../../../contracts/errors.ts';
import type { LedgerFact } from '../../../../contracts/schemas/ledger.ts';
import { hashOf, sha256Hex } from '../../../../domain/text/canonical.ts';
import { approvalRequest } from '../../../support/builders/approval-request.ts';
import { acceptedFact } from '../../../support/builders/ledger.ts';
import { codeOf } from '../../../support/world/run-record.ts';

type Accepted = Extract<LedgerFact, { kind: 'decision.accepted' }>;

function said(id: string, decision: Accepted['decision'], over: Partial<Accepted> = {}): LedgerFact {
  return acceptedFact({ decision, decisionId: `of-${id}`, approver: { id, groups: [] }, ...over });
}
const EXPIRED: LedgerFact = { kind: 'request.closed', callId: 't1.c0', generation: 1, status: 'expired' };

/** A run whose ledger is this, with the requests of its current turn. */
function runAfter(facts: readonly LedgerFact[], requests: readonly ApprovalRequest[] = []) {
  const ledger = facts.map((fact, seq) => ({ seq, at: new Date(seq).toISOString(), fact }));
  const sent: unknown[] = [];
  const decide = async (decision: unknown): Promise<void> => void sent.push(decision);
  // Sound: nothing else is asked of it.
  const run = {
    runId: 'run-1',
    requests: async () => requests,
    ledger: async () => ledger,
    decide,
  } as unknown as RunHandle;
  return { run, sent };
}

/** Decides once more, on a run whose ledger is this. */
async function decideAfter(
  facts: readonly LedgerFact[],
  decisionId = 'new',
  judged: Judged = { kind: 'approve' },
  as = 'ben',
) {
  return await decideCall(runAfter(facts).run, 't1.c0', judged, { as, decisionId });
}

test.each<[string, readonly LedgerFact[], string]>([
  ['approved', [said('ann', 'approve')], 'ALREADY_DECIDED'],
  ['rejected', [said('ann', 'reject')], 'ALREADY_DECIDED'],
  [
    'agreed to by one of two, and then expired',
    [said('ann', 'approve', { counted: true }), EXPIRED],
    'DECISION_EXPIRED',
  ],
  [
    'agreed to, taken back, and then expired',
    [said('ann', 'approve', { counted: true }), said('ann', 'withdraw'), EXPIRED],
    'DECISION_EXPIRED',
  ],
  ['postponed, and then expired', [said('ann', 'extend'), EXPIRED], 'DECISION_EXPIRED'],
  ['approved, asked again, and then expired', [said('ann', 'approve'), EXPIRED], 'DECISION_EXPIRED'],
  ['agreed to by one of two when the run ended', [said('ann', 'approve', { counted: true })], 'REQUEST_NOT_OPEN'],
  ['never made', [], 'CALL_UNKNOWN'],
])('a call that was %s', async (_, facts, code) => {
  expect(await codeOf(decideAfter(facts))).toBe(code);
});

test.each<[Extract<LedgerFact, { kind: 'outcome' }>['outcome'], string]>([
  ['cancelled', 'nothing was changed. It was withdrawn since, and did not run.'],
  ['denied', 'nothing was changed. It was denied since, and did not run.'],
  ['succeeded', 'nothing was changed.'],
])('whoever decides late on an approved call that ended as %s is told so', async (outcome, words) => {
  const end: LedgerFact = { kind: 'outcome', callId: 't1.c0', outcome, outcomeHash: 'a'.repeat(64) };
  await expect(decideAfter([said('ann', 'approve'), end])).rejects.toThrow(new RegExp(`${words}$`));
});

const LATER = '2026-01-01T02:00:00.000Z';
const CHANGED = { from: 'a'.repeat(64), to: hashOf({ n: 2 }) };
const EDIT: readonly [Judged, Partial<Accepted>, string] = [
  { kind: 'approve', arguments: { n: 2 } },
  { counted: true, edited: CHANGED },
  'edited',
];
const TAKEN: readonly (readonly [Judged, Partial<Accepted>, string])[] = [
  [{ kind: 'approve' }, {}, 'approved'],
  [{ kind: 'approve', comment: 'checked' }, { counted: true, comment: 'checked' }, 'counted'],
  [{ kind: 'approve', remember: { scope: 'tool' } }, { remember: { scope: 'tool' } }, 'approved'],
  [{ kind: 'reject', reason: 'no' }, { comment: 'no' }, 'rejected'],
  [{ kind: 'withdraw' }, {}, 'withdrawn'],
  [{ kind: 'extend', until: LATER }, { until: LATER }, 'extended'],
  [{ kind: 'respond', answer: '42' }, { answerHash: sha256Hex('42') }, 'answered'],
  EDIT,
];

test.each(TAKEN)('sent again it gets its first answer, and no other one does: %j', async (judged, over, status) => {
  const ledger = [said('ann', judged.kind, over), EXPIRED];
  expect(await decideAfter(ledger, 'of-ann', judged, 'ann')).toMatchObject({ ack: { status } });
  expect(await codeOf(decideAfter(ledger, 'of-ann', judged, 'ben'))).toBe('DECISION_INVALID');
  const others: readonly Judged[] = [...TAKEN.map(([other]) => other), { kind: 'approve', comment: 'not checked' }];
  for (const other of others.filter((each) => each !== judged))
    expect(await codeOf(decideAfter(ledger, 'of-ann', other, 'ann'))).toBe('DECISION_INVALID');
});

test.each(['RUN_CLOSED', 'CALL_UNKNOWN'] as const)(
  'the ledger says who was first where the run answers %s',
  async (code) => {
    const { run } = runAfter([said('ann', 'approve')], [approvalRequest()]);
    const decide = async (): Promise<never> => await Promise.reject(new CountersignError(code, 'It has gone on.'));
    const late = decideCall(Object.assign(run, { decide }), 't1.c0', { kind: 'approve' }, { as: 'ben' });
    await expect(late).rejects.toMatchObject({ code: 'ALREADY_DECIDED', facts: { decidedBy: 'ann' } });
  },
);

describe('a decision whose answer was lost, and whose call has another request by now', () => {
  const OLD = 'a'.repeat(64);
  const again = { as: 'ann', digest: OLD, decisionId: 'of-ann' };
  const outcome = { kind: 'outcome', attempt: 1, message: 'lost' } as const;

  test.each<[string, Judged, Partial<Accepted>, Partial<ApprovalRequest>, string]>([
    ['asks what became of it', { kind: 'approve' }, {}, { about: outcome }, 'asked again since'],
    ['is asked with the arguments of the decision', EDIT[0], EDIT[1], {}, 'somebody else must agree'],
  ])('gets its first answer: it %s', async (_, judged, over, request, next) => {
    const { run, sent } = runAfter([said('ann', 'approve', over)], [{ ...approvalRequest(), ...request }]);
    const decided = await decideCall(run, 't1.c0', judged, again);
    expect(decided.ack).toMatchObject({ decisionId: 'of-ann', decidedBy: 'ann' });
    expect(decisionAnswer('run-1', decided).text(plain)).toContain(next);
    expect(sent).toEqual([]);
  });

  test('is refused where it was never taken: what waits now was not read', async () => {
    const { run, sent } = runAfter([], [approvalRequest()]);
    expect(await codeOf(decideCall(run, 't1.c0', { kind: 'approve' }, again))).toBe('DIGEST_MISMATCH');
    expect(sent).toEqual([]);
  });

  test('is sent to the run where this client cannot read all of its ledger', async () => {
    const request = approvalRequest();
    const { run, sent } = runAfter([], [request]);
    const ledger = async (): Promise<never> =>
      await Promise.reject(new CountersignError('ARTIFACT_MISSING', 'Entries stand in the artifact store.'));
    const { digest } = request;
    await decideCall(Object.assign(run, { ledger }), 't1.c0', { kind: 'approve' }, { ...again, digest });
    expect(sent).toMatchObject([{ decisionId: 'of-ann', digest }]);
  });
});
