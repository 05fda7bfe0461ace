/** Edits that a forged run makes up: the activity that calls tools trusts nothing that it is given (F22, F23, INV-G1, INV-G2). */
import { afterAll, beforeAll, beforeEach, expect, test } from '@jest/globals';
import type { DispatchInput, DispatchResult } from '../../contracts/wire/tools.ts';
import { ACTIVITIES } from '../../contracts/names.ts';
import type { Decision } from '../../contracts/schemas/request.ts';
import type { ApproverRule } from '../../contracts/schemas/policy.ts';
import { requestDigest } from '../../domain/request/digest.ts';
import { type Forger, startForger } from '../support/forgery/forger.ts';
import type { DispatchProof } from '../../contracts/wire/proofs.ts';

type Proof = Extract<DispatchProof, { kind: 'decision' }>;

let forger: Forger;
let approved: DispatchInput;
let genuine: Proof;
let callsBefore = 0;

const RULE: ApproverRule = { allOf: [{ layer: 'organisation', ids: ['ann'], groups: [], may: ['edit'] }] };
const EDITED = { purpose: 'edited', amount: 2 };
const SHOWN = { purpose: 'shown', amount: 1 };

beforeAll(async () => {
  forger = await startForger({ may: ['edit'] });
  ({ approved } = forger);
  if (approved.proof.kind !== 'decision') throw new Error('the genuine call was countersigned');
  genuine = approved.proof;
});
afterAll(async () => forger.stop());
beforeEach(() => {
  callsBefore = forger.bank.calls.length;
});
const newCalls = () => forger.bank.calls.slice(callsBefore);

interface Forgery {
  /** What the editor is said to have read. */
  readonly shown?: Partial<NonNullable<Proof['edit']>>;
  readonly decision?: object;
  readonly proof?: Partial<Proof>;
  readonly input?: Partial<DispatchInput>;
}

/** An edited call in which everything fits everything else, but for what is forged. */
async function dispatch({ shown = {}, decision = {}, proof = {}, input = {} }: Forgery): Promise<DispatchResult> {
  const build = (workflowId: string): DispatchInput => {
    const run = { ...approved.run, workflowId };
    const edit = { generation: 1, arguments: SHOWN, approvers: RULE, ...shown };
    const { namespace, initiator } = run;
    const digest = requestDigest({
      namespace,
      tenant: initiator.tenant,
      workflowId,
      callId: approved.callId,
      runId: 'forged-run',
      target: approved.target,
      ...edit,
    });
    // Sound: a forger sends what it likes.
    const edited = { ...genuine.decision, digest, runId: 'forged-run', arguments: EDITED, ...decision } as Decision;
    return {
      ...approved,
      run,
      runId: '$self',
      decidedIn: ['forged-run'],
      arguments: EDITED,
      proof: { ...genuine, generation: 1, approvers: RULE, decision: edited, edit, ...proof },
      ...input,
    };
  };
  // Sound: our own activity answers it.
  return (await forger.forge('agentRun', ACTIVITIES.callTool, build)) as DispatchResult;
}

test('control: where everything fits, what the approver wrote is sent', async () => {
  expect(await dispatch({})).toMatchObject({ kind: 'ended', outcome: { kind: 'succeeded' } });
  expect(newCalls()).toMatchObject([{ arguments: EDITED }]);
});

test.each<[string, Forgery]>([
  ['other arguments than the approver wrote', { input: { arguments: { ...EDITED, amount: 1_000_000 } } }],
  ['the arguments that were shown, in place of those written', { input: { arguments: SHOWN } }],
  ['a decision that writes other arguments', { decision: { arguments: { ...EDITED, amount: 3 } } }],
  ['a decision that writes none', { decision: { arguments: undefined } }],
  ['nothing of what was shown', { proof: { edit: undefined } as unknown as Partial<Proof> }],
  ['a digest of something else', { decision: { digest: 'f'.repeat(64) } }],
  ['an answer in place of an edit', { decision: { kind: 'respond', answer: 'x' } }],
  ['a rejection in place of an edit', { decision: { kind: 'reject', reason: 'x' } }],
  ['a request that let nobody edit', { shown: { approvers: { allOf: [{ layer: 'run', ids: ['ann'], groups: [] }] } } }],
  [
    'a request that asked others',
    { shown: { approvers: { allOf: [{ layer: 'run', ids: ['ben'], groups: [], may: ['edit'] }] } } },
  ],
  ['another call', { decision: { callId: 't1.c1' } }],
  [
    'another tool',
    { input: { target: { server: 'bank', serverUrl: 'x', tool: 'slow', definitionHash: 'e'.repeat(64) } } },
  ],
  [
    'a second edit by somebody else beside it',
    { proof: { further: [{ ...decisionOf(), approver: { id: 'mallory', groups: [] } }] } },
  ],
])('with %s nothing is sent', async (_what, forgery) => {
  expect(await dispatch(forgery)).toMatchObject({ kind: 'refused', code: 'DISPATCH_FORBIDDEN' });
  expect(newCalls()).toEqual([]);
});

function decisionOf(): Decision {
  return {
    kind: 'approve',
    decisionId: 'other',
    callId: 't1.c0',
    digest: 'a'.repeat(64),
    runId: 'forged-run',
    approver: { id: 'ann', groups: [] },
    arguments: EDITED,
  };
}

test('after a reset an edit counts no more than another decision', async () => {
  expect(await dispatch({ input: { decidedIn: [] } })).toMatchObject({ kind: 'reopen', code: 'DECISION_STALE_RUN' });
  expect(newCalls()).toEqual([]);
});

test('where a policy of now lets nobody edit it is denied, whatever the rule said that was shown', async () => {
  const runPolicy = { approvers: { ids: ['ann'], groups: [] } };
  expect(await dispatch({ input: { runPolicy } })).toMatchObject({ kind: 'refused', code: 'DECISION_NOT_PERMITTED' });
  expect(newCalls()).toEqual([]);
});
