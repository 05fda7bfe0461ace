/** Standing decisions that a forged run makes up: dispatch proves each from its parts (D-4, INV-G1, INV-G2). */
import { afterAll, beforeAll, beforeEach, expect, test } from '@jest/globals';
import type { DispatchInput, DispatchResult } from '../../contracts/wire/tools.ts';
import { ACTIVITIES } from '../../contracts/names.ts';
import type { Decision } from '../../contracts/schemas/request.ts';
import type { ApproverRule } from '../../contracts/schemas/policy.ts';
import { requestDigest } from '../../domain/request/digest.ts';
import { type Forger, startForger } from '../support/forgery/forger.ts';
import type { DispatchProof } from '../../contracts/wire/proofs.ts';

type Proof = Extract<DispatchProof, { kind: 'standing' }>;

let forger: Forger;
let approved: DispatchInput;
let callsBefore = 0;

const RULE: ApproverRule = {
  allOf: [{ layer: 'organisation', ids: ['ann'], groups: [], remember: ['call', 'arguments', 'tool'] }],
};
const SHOWN = { purpose: 'stands', amount: 1 };
const HOUR = 3_600_000;

beforeAll(async () => {
  forger = await startForger({ remember: ['call', 'arguments', 'tool'] });
  ({ approved } = forger);
});
afterAll(async () => forger.stop());
beforeEach(() => {
  callsBefore = forger.bank.calls.length;
});
const newCalls = () => forger.bank.calls.slice(callsBefore);

interface Forgery {
  readonly shown?: Partial<Proof['shown']>;
  readonly decision?: object;
  readonly proof?: Partial<Proof>;
  readonly input?: Partial<DispatchInput>;
}

/** A call that is answered by a decision on an earlier one; everything fits, but for what is forged. */
async function dispatch({ shown = {}, decision = {}, proof = {}, input = {} }: Forgery): Promise<DispatchResult> {
  const build = (workflowId: string): DispatchInput => {
    const run = { ...approved.run, workflowId };
    const read = { generation: 1, arguments: SHOWN, approvers: RULE, ...shown };
    const { namespace, initiator } = run;
    const digest = requestDigest({
      namespace,
      tenant: initiator.tenant,
      workflowId,
      callId: 't1.c0',
      runId: 'forged-run',
      target: approved.target,
      ...read,
    });
    const made = {
      kind: 'approve',
      decisionId: 'd',
      callId: 't1.c0',
      digest,
      runId: 'forged-run',
      approver: { id: 'ann', groups: [] },
      remember: { scope: 'call' },
      ...decision,
    };
    return {
      ...approved,
      run,
      runId: '$self',
      decidedIn: ['forged-run'],
      callId: 't7.c0',
      arguments: SHOWN,
      proof: {
        kind: 'standing',
        standing: 'd',
        // Sound: a forger sends what it likes.
        decisions: [made as Decision],
        callId: 't1.c0',
        shown: read,
        deadline: new Date(Date.now() + HOUR).toISOString(),
        decidedAt: new Date(Date.now() - 1_000).toISOString(),
        ...proof,
      },
      ...input,
    };
  };
  // Sound: our own activity answers it.
  return (await forger.forge('agentRun', ACTIVITIES.callTool, build)) as DispatchResult;
}

test('control: where everything fits, it is sent', async () => {
  expect(await dispatch({})).toMatchObject({ kind: 'ended', outcome: { kind: 'succeeded' } });
  expect(newCalls()).toMatchObject([{ arguments: SHOWN }]);
});

const other = { ...SHOWN, amount: 1_000_000 };
test.each<[string, Forgery]>([
  ['other arguments than were remembered', { input: { arguments: other } }],
  [
    'other values of the arguments that were remembered',
    { input: { arguments: other }, decision: { remember: { scope: 'arguments', names: ['purpose', 'amount'] } } },
  ],
  ['a decision that was not to be remembered', { decision: { remember: undefined } }],
  ['a decision with other arguments than were shown', { decision: { arguments: SHOWN } }],
  ['a rejection', { decision: { kind: 'reject', reason: 'no' } }],
  ['a decision on another call', { decision: { callId: 't1.c1' } }],
  ['a decision on something else', { decision: { digest: 'f'.repeat(64) } }],
  ['a decision by somebody who was not asked', { decision: { approver: { id: 'mallory', groups: [] } } }],
  ['no decision', { proof: { decisions: [] } }],
  ['a decision after the deadline', { proof: { decidedAt: '2999-01-01T00:00:00.000Z' } }],
  ['a deadline that is no time', { proof: { deadline: 'never' } }],
  [
    'a rule that let it not be remembered',
    { shown: { approvers: { allOf: [{ layer: 'run', ids: ['ann'], groups: [] }] } } },
  ],
  [
    'a rule that let less be remembered',
    {
      decision: { remember: { scope: 'tool' } },
      shown: { approvers: { allOf: [{ layer: 'run', ids: ['ann'], groups: [], remember: ['call'] }] } },
    },
  ],
])('with %s nothing is sent', async (_what, forgery) => {
  expect(await dispatch(forgery)).toMatchObject({ kind: 'refused', code: 'DISPATCH_FORBIDDEN' });
  expect(newCalls()).toEqual([]);
});

test.each<[string, Forgery, string]>([
  ['of a Temporal run that does not count', { input: { decidedIn: [] } }, 'DECISION_STALE_RUN'],
  [
    'that stood until a time that has passed',
    { decision: { remember: { scope: 'call', until: '2020-01-01T00:00:00.000Z' } } },
    'STANDING_LOST',
  ],
  ['made when the catalog reached the server otherwise', { proof: { connection: 'c'.repeat(64) } }, 'STANDING_LOST'],
  ['made with a grant that the run has no more', { proof: { grant: 'c'.repeat(64) } }, 'STANDING_LOST'],
  [
    'with a rule of its own choice',
    {
      decision: { approver: { id: 'mallory', groups: [] } },
      shown: { approvers: { allOf: [{ layer: 'run', ids: ['mallory'], groups: [], remember: ['call'] }] } },
    },
    'VERDICT_STRICTER',
  ],
  [
    'where policy of now lets nothing be remembered',
    { input: { runPolicy: { approvers: { ids: ['ann'], groups: [] } } } },
    'VERDICT_STRICTER',
  ],
  [
    'where approvals hold for a moment only',
    { shown: { approvers: { ...RULE, validForSeconds: 1 } } },
    'APPROVAL_LAPSED',
  ],
])('one %s needs a fresh one', async (_what, forgery, code) => {
  expect(await dispatch(forgery)).toMatchObject({ kind: 'reopen', code });
  expect(newCalls()).toEqual([]);
});
