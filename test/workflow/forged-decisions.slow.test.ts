/**
 * Edits and standing decisions that a forged run makes up, and every registered activity, run by somebody who is no
 * run: the activity that calls tools trusts nothing that it is given, and proves each decision from its parts; none
 * reaches `tools/call` (D-4, F22, F23, INV-G1, INV-G2).
 */
import { status as grpcStatus } from '@grpc/grpc-js';
import { beforeAll, beforeEach, describe, expect, test } from '@jest/globals';
import { ServiceError } from '@temporalio/client';
import { MockActivityEnvironment } from '@temporalio/testing';
import { DefaultLogger } from '@temporalio/worker';
import { codedFailureIn } from '../../contracts/failure.ts';
import { ACTIVITIES } from '../../contracts/names.ts';
import type { ApproverRule } from '../../contracts/schemas/policy.ts';
import type { Decision } from '../../contracts/schemas/request.ts';
import type { DispatchProof } from '../../contracts/wire/proofs.ts';
import type { DispatchInput, DispatchResult } from '../../contracts/wire/tools.ts';
import { requestDigest } from '../../domain/request/digest.ts';
import { runSideActivities, toolSideActivities } from '../../workers/composition.ts';
import { startForger } from '../support/forgery/forger.ts';
import { during } from '../support/world/during.ts';

let approved: DispatchInput;
let callsBefore = 0;

const forger = during(() => startForger({ may: ['edit'], remember: ['call', 'arguments', 'tool'] }));
beforeAll(async () => {
  ({ approved } = forger);
});
beforeEach(() => {
  callsBefore = forger.bank.calls.length;
});
const newCalls = () => forger.bank.calls.slice(callsBefore);

/** Returns the digest of a request as somebody is said to have read it. */
function digestOf(
  { namespace, workflowId, initiator }: DispatchInput['run'],
  callId: string,
  shown: Pick<Parameters<typeof requestDigest>[0], 'generation' | 'arguments' | 'approvers'>,
): string {
  const { tenant } = initiator;
  const { target } = approved;
  return requestDigest({ namespace, tenant, workflowId, callId, runId: 'forged-run', target, ...shown });
}

/** Says what is forged; everything else of the dispatch fits. */
interface Forged<Proof, Shown> {
  /** The request as somebody is said to have read it. */
  readonly shown?: Partial<Shown>;
  readonly decision?: object;
  readonly proof?: Partial<Proof>;
  readonly input?: Partial<DispatchInput>;
}

/** Sends the approved call once more, with another proof. */
async function forge(made: (run: DispatchInput['run']) => Partial<DispatchInput>): Promise<DispatchResult> {
  const build = (workflowId: string): DispatchInput => {
    const run = { ...approved.run, workflowId };
    return { ...approved, run, runId: '$self', decidedIn: ['forged-run'], ...made(run) };
  };
  // Sound: our own activity answers it.
  return (await forger.forge('agentRun', ACTIVITIES.callTool, build)) as DispatchResult;
}

describe('an edit (F22, F23)', () => {
  let genuine: Proof;
  beforeAll(() => {
    if (approved.proof.kind !== 'decision') throw new Error('the genuine call was countersigned');
    genuine = approved.proof;
  });

  type Proof = Extract<DispatchProof, { kind: 'decision' }>;

  const RULE: ApproverRule = { allOf: [{ layer: 'organisation', ids: ['ann'], groups: [], may: ['edit'] }] };
  const EDITED = { purpose: 'edited', amount: 2 };
  const SHOWN = { purpose: 'shown', amount: 1 };

  type Forgery = Forged<Proof, NonNullable<Proof['edit']>>;

  /** An edited call in which everything fits everything else, but for what is forged. */
  async function dispatch({ shown = {}, decision = {}, proof = {}, input = {} }: Forgery): Promise<DispatchResult> {
    return await forge((run) => {
      const edit = { generation: 1, arguments: SHOWN, approvers: RULE, ...shown };
      // Sound: a forger sends what it likes.
      const edited = {
        ...genuine.decision,
        digest: digestOf(run, approved.callId, edit),
        runId: 'forged-run',
        arguments: EDITED,
        ...decision,
      } as Decision;
      const proven = { ...genuine, generation: 1, approvers: RULE, decision: edited, edit, ...proof };
      return { arguments: EDITED, proof: proven, ...input };
    });
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
    [
      'a request that let nobody edit',
      { shown: { approvers: { allOf: [{ layer: 'run', ids: ['ann'], groups: [] }] } } },
    ],
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
});

describe('a standing decision (D-4)', () => {
  type Proof = Extract<DispatchProof, { kind: 'standing' }>;

  const RULE: ApproverRule = {
    allOf: [{ layer: 'organisation', ids: ['ann'], groups: [], remember: ['call', 'arguments', 'tool'] }],
  };
  const SHOWN = { purpose: 'stands', amount: 1 };
  const HOUR = 3_600_000;

  type Forgery = Forged<Proof, Proof['shown']>;

  /** A call that is answered by a decision on an earlier one; everything fits, but for what is forged. */
  async function dispatch({ shown = {}, decision = {}, proof = {}, input = {} }: Forgery): Promise<DispatchResult> {
    return await forge((run) => {
      const read = { generation: 1, arguments: SHOWN, approvers: RULE, ...shown };
      const made = {
        kind: 'approve',
        decisionId: 'd',
        callId: 't1.c0',
        digest: digestOf(run, 't1.c0', read),
        runId: 'forged-run',
        approver: { id: 'ann', groups: [] },
        remember: { scope: 'call' },
        ...decision,
      };
      return {
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
    });
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
});

describe('an activity (INV-G1)', () => {
  /** As the workers of this configuration register them. */
  async function registered(): Promise<Readonly<Record<string, unknown>>> {
    const { config, engine, artifacts, client } = forger.world;
    const loaded = { config, baseDirectory: engine.directory, path: undefined };
    return {
      ...(await runSideActivities(loaded, artifacts, client)),
      ...(await toolSideActivities(loaded, artifacts, client)),
    };
  }

  /** Runs an activity on a genuine input, as somebody that Temporal says this of. Answers with what it returns or throws. */
  async function runAs(name: string, info: object): Promise<unknown> {
    // Sound: each registered activity takes one input.
    const activity = (await registered())[name] as (input: unknown) => Promise<unknown>;
    const environment = new MockActivityEnvironment(info, { logger: new DefaultLogger('ERROR') });
    return await environment
      .run(activity, forger.genuine.get(name))
      .catch((error: unknown) => codedFailureIn(error) ?? error);
  }

  const names = Object.values(ACTIVITIES);

  test('every activity that a worker registers is named here, with the input of a genuine run', async () => {
    expect(Object.keys(await registered()).toSorted()).toEqual([...names].toSorted());
    expect([...forger.genuine.keys()].toSorted()).toEqual([...names].toSorted());
  });

  const FORBIDDEN = { code: 'DISPATCH_FORBIDDEN' };
  /** For one workflow type each: a run's tools for runs, a catalog's for catalogs. */
  const LISTING: readonly string[] = [ACTIVITIES.discoverTools, ACTIVITIES.discoverCatalog];

  test.each(names)(
    '%s, run by nobody, by a workflow of another type or by another run, calls no tool',
    async (name) => {
      const before = forger.contacts();
      const { runId } = forger.approved;
      const another = {
        workflowType: 'agentRun',
        namespace: 'default',
        workflowExecution: { workflowId: 'another', runId },
      };
      for (const info of [{}, { workflowType: undefined }, { workflowType: 'agentRun' }, another]) {
        const answer = await runAs(name, info);
        if (name === ACTIVITIES.callTool) expect(answer).toMatchObject({ kind: 'refused', ...FORBIDDEN });
        if (LISTING.includes(name)) expect(answer).toMatchObject(FORBIDDEN);
      }
      // Not even a list is asked for.
      expect(forger.contacts()).toBe(before);
    },
  );

  test('callTool, repeated by the very run that made the call, or by it after a reset, calls no tool', async () => {
    const { runId, run } = forger.approved;
    const { workflowId, namespace } = run;
    const own = { workflowType: 'agentRun', workflowNamespace: namespace, workflowExecution: { workflowId, runId } };
    // It may have left before: that is no refusal.
    const again = { kind: 'ended', outcome: { kind: 'unknown', code: 'OUTCOME_UNKNOWN' } };
    expect(await runAs(ACTIVITIES.callTool, { ...own, attempt: 2 })).toMatchObject(again);
    const revived = { ...own, workflowExecution: { workflowId, runId: 'revived' } };
    expect(await runAs(ACTIVITIES.callTool, revived)).toMatchObject({ kind: 'reopen', code: 'DISPATCH_STALE_RUN' });
    expect(newCalls()).toEqual([]);
  });

  test.each(names)('%s, scheduled by a workflow that is no run, calls no tool', async (name) => {
    const { genuine } = forger;
    const before = forger.contacts();
    const input = (workflowId: string) => ({ ...genuine.get(name), run: { ...approved.run, workflowId } });
    const answer = await forger.forge('somethingElse', name, input).catch((error: unknown) => codedFailureIn(error));
    if (name === ACTIVITIES.callTool) expect(answer).toMatchObject({ kind: 'refused', ...FORBIDDEN });
    if (LISTING.includes(name)) expect(answer).toMatchObject(FORBIDDEN);
    expect(forger.contacts()).toBe(before);
  });

  test('a standalone activity, started by a client, calls no tool', async () => {
    const { client, config } = forger.world;
    const started = client.activity.execute(ACTIVITIES.callTool, {
      id: 'standalone',
      taskQueue: config.taskQueue,
      args: [forger.approved],
      startToCloseTimeout: '10s',
    });
    const answer: unknown = await started.catch((error: unknown) => codedFailureIn(error) ?? error);
    // A server that knows no standalone activities refuses it itself; where one runs, our own activity must.
    if (answer instanceof ServiceError) expect(answer.cause).toMatchObject({ code: grpcStatus.UNIMPLEMENTED });
    else expect(answer).toMatchObject({ kind: 'refused', ...FORBIDDEN });
    expect(newCalls()).toEqual([]);
  });
});
