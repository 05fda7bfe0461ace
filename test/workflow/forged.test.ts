/** A dispatch that a forged run schedules: the activity that calls tools trusts nothing that it is given (INV-G1, INV-G2). */
import { beforeAll, beforeEach, describe, expect, test } from '@jest/globals';
import { ACTIVITIES } from '../../contracts/names.ts';
import type { DispatchInput, DispatchResult } from '../../contracts/wire/tools.ts';
import { consistent, startForger } from '../support/forgery/forger.ts';
import { startRecordingServer } from '../support/servers/recording-server.ts';
import { during } from '../support/world/during.ts';

let approved: DispatchInput;

const facts = {
  by: 'initiator.id == "mallory"',
  after: 'earlier["bank/lookup"].total > 0',
  late: 'run.turn > 8',
  what: 'args.purpose == "never"',
};
const rules = Object.entries(facts).map(([id, when]) => ({
  id,
  when,
  match: { tool: 'pay' },
  then: 'deny' as const,
}));
const forger = during(() => startForger({}, rules));
beforeAll(async () => {
  ({ approved } = forger);
});

let callsBefore = 0;
beforeEach(() => {
  callsBefore = forger.bank.calls.length;
});
const newCalls = (): number => forger.bank.calls.length - callsBefore;

type Change = (input: DispatchInput) => DispatchInput;

async function dispatch(change: Change, over: Partial<DispatchInput> = {}): Promise<DispatchResult> {
  // Sound: our own activity answers it.
  return (await forger.forge('agentRun', ACTIVITIES.callTool, (workflowId) =>
    change(consistent(approved, workflowId, over)),
  )) as DispatchResult;
}

function withDecision(input: DispatchInput, over: object): DispatchInput {
  if (input.proof.kind !== 'decision') throw new Error('the genuine call was countersigned');
  return { ...input, proof: { ...input.proof, decision: { ...input.proof.decision, ...over } } };
}

describe('a dispatch of a workflow that calls itself a run', () => {
  test('control: where everything fits, it is sent; so what follows is refused for its reason', async () => {
    // In `temporal` trust mode who may write to the namespace is trusted to say who decided (SECURITY.md).
    expect(await dispatch((input) => input)).toMatchObject({ kind: 'ended', outcome: { kind: 'succeeded' } });
    expect(newCalls()).toBe(1);
  });

  test('once more, from a workflow of the same id: it is not sent twice, and nobody is told that it did not run (INV-X1)', async () => {
    const again = async (over: Partial<DispatchInput> = {}): Promise<DispatchResult> =>
      // Sound: our own activity answers it.
      (await forger.forge(
        'agentRun',
        ACTIVITIES.callTool,
        (workflowId) => ({ ...consistent(approved, workflowId), idempotencyKey: 'mine', ...over }),
        'replayed',
      )) as DispatchResult;
    expect(await again()).toMatchObject({ kind: 'ended', outcome: { kind: 'succeeded' } });
    expect(await again()).toMatchObject({ kind: 'ended', outcome: { kind: 'unknown', code: 'OUTCOME_UNKNOWN' } });
    expect(newCalls()).toBe(1);
    // Another worker knows nothing of it, nor does this one know an attempt that it has not sent: the key of the call
    // goes with each.
    expect(await again({ attempt: 2 })).toMatchObject({ kind: 'ended', outcome: { kind: 'succeeded' } });
    await forger.world.restartWorkers();
    expect(await again()).toMatchObject({ kind: 'ended', outcome: { kind: 'succeeded' } });
    const sent = forger.bank.calls.slice(callsBefore);
    expect(new Set(sent.map(({ headers }) => headers['idempotency-key'])).size).toBe(1);
    expect(sent[0]?.headers['idempotency-key']).toMatch(/^replayed\/t1\.c0\/[0-9a-f]{16}$/);
    expect(sent).toHaveLength(3);
  });

  test.each<readonly [string, Change, object]>([
    ['as recorded in the history of another run', () => approved, { kind: 'refused', code: 'DISPATCH_FORBIDDEN' }],
    [
      'with a policy proof for a tool that policy asks about',
      (input) => ({ ...input, proof: { kind: 'policy', rules: ['organisation/strategy/never'] } }),
      { kind: 'reopen', code: 'VERDICT_STRICTER', approvers: { allOf: [{ ids: ['ann'] }] } },
    ],
    [
      "with a run's policy that allows what the organisation asks about",
      (input) => ({
        ...input,
        runPolicy: { strategy: 'never', servers: { bank: { tools: { pay: 'allow' } } } },
        proof: { kind: 'policy', rules: ['run/strategy/never'] },
      }),
      { kind: 'reopen', code: 'VERDICT_STRICTER' },
    ],
    [
      'with another definition of the tool than the one that was shown (F24, H-7)',
      (input) => ({ ...input, target: { ...input.target, definitionHash: 'e'.repeat(64) } }),
      { kind: 'reopen', code: 'DEFINITION_CHANGED' },
    ],
    [
      'with a decision of a Temporal run that does not count',
      (input) => ({ ...input, decidedIn: [] }),
      { kind: 'reopen', code: 'DECISION_STALE_RUN' },
    ],
  ])('%s', async (_what, change, expected) => {
    expect(await dispatch(change)).toMatchObject(expected);
    expect(newCalls()).toBe(0);
  });

  test.each<readonly [string, Change]>([
    ['another digest', (input) => withDecision(input, { digest: 'f'.repeat(64) })],
    [
      'arguments swapped after the approval',
      (input) => ({ ...input, arguments: { purpose: 'forged', amount: 1_000_000 } }),
    ],
    ['a decision on another call', (input) => withDecision(input, { callId: 't1.c1' })],
    [
      'a decision on another generation',
      (input) => ({ ...input, proof: { ...input.proof, generation: 2 } }) as DispatchInput,
    ],
    ['a rejection', (input) => withDecision(input, { kind: 'reject', reason: 'no' })],
    [
      'an approver who is not in the rule that was shown',
      (input) => withDecision(input, { approver: { id: 'mallory', groups: [] } }),
    ],
    [
      'a decision made after the deadline',
      (input) => ({ ...input, proof: { ...input.proof, decidedAt: '2999-01-01T00:00:00.000Z' } }) as DispatchInput,
    ],
    [
      'a deadline that is no time',
      (input) => ({ ...input, proof: { ...input.proof, deadline: 'never' } }) as DispatchInput,
    ],
    ['the tool of another server', (input) => ({ ...input, target: { ...input.target, server: 'other' } })],
    ['another tool under the approved name', (input) => ({ ...input, target: { ...input.target, tool: 'slow' } })],
    ['an approved tool under another name', (input) => ({ ...input, name: 'bank__slow' })],
    ['a tool that the run was not offered', (input) => ({ ...input, toolset: [] })],
    [
      'another tenant',
      (input) => ({
        ...input,
        run: { ...input.run, initiator: { ...input.run.initiator, tenant: 'theirs' } },
      }),
    ],
  ])('with %s', async (_what, change) => {
    expect(await dispatch(change)).toMatchObject({ kind: 'refused', code: 'DISPATCH_FORBIDDEN' });
    expect(newCalls()).toBe(0);
  });

  test('with approvers of its own choice', async () => {
    const proof = approved.proof;
    if (proof.kind !== 'decision') throw new Error('the genuine call was countersigned');
    const mallory = { id: 'mallory', groups: [] };
    const own = {
      ...proof,
      approvers: { allOf: [{ layer: 'run' as const, ids: ['mallory'], groups: [] }] },
      decision: { ...proof.decision, approver: mallory },
    };
    expect(await dispatch((input) => input, { proof: own })).toMatchObject({
      kind: 'reopen',
      code: 'VERDICT_STRICTER',
    });
    expect(newCalls()).toBe(0);
  });

  describe('where two must agree (E-2)', () => {
    const ofTwo = () => {
      const { proof } = approved;
      if (proof.kind !== 'decision') throw new Error('the genuine call was countersigned');
      const allOf = [{ layer: 'organisation' as const, ids: ['ann', 'ben'], groups: [], need: 2 }];
      return { proof: { ...proof, approvers: { allOf } } };
    };
    const joinedBy =
      (over: object): Change =>
      (input) => {
        if (input.proof.kind !== 'decision') return input;
        const further = [
          { ...input.proof.decision, decisionId: 'other', approver: { id: 'ben', groups: [] }, ...over },
        ];
        return { ...input, proof: { ...input.proof, further } };
      };

    test('control: with both it is sent', async () => {
      expect(await dispatch(joinedBy({}), ofTwo())).toMatchObject({ kind: 'ended', outcome: { kind: 'succeeded' } });
      expect(newCalls()).toBe(1);
    });

    test.each<readonly [string, Change]>([
      ['the approval of one', (input) => input],
      ['the approval of one, twice', joinedBy({ approver: { id: 'ann', groups: [] } })],
      ['that of a stranger beside it', joinedBy({ approver: { id: 'mallory', groups: [] } })],
      ['that of another call', joinedBy({ callId: 't1.c1' })],
      ['that of another digest', joinedBy({ digest: 'f'.repeat(64) })],
      ['that of one who rejected', joinedBy({ kind: 'reject', reason: 'no' })],
      ['that of one who took it back', joinedBy({ kind: 'withdraw' })],
    ])('with %s', async (_what, change) => {
      expect(await dispatch(change, ofTwo())).toMatchObject({ kind: 'refused', code: 'DISPATCH_FORBIDDEN' });
      expect(newCalls()).toBe(0);
    });
  });

  test('of a tool that policy denies, countersigned or not', async () => {
    const over = {
      name: 'bank__fail',
      target: { ...approved.target, tool: 'fail', definitionHash: await definitionHashOf('fail') },
    };
    expect(await dispatch((input) => input, over)).toMatchObject({ kind: 'refused', code: 'POLICY_DENIED' });
    expect(newCalls()).toBe(0);
  });

  const told: readonly (readonly [string, Change, Partial<DispatchInput>])[] = [
    ['by', (input) => ({ ...input, run: { ...input.run, initiator: { ...input.run.initiator, id: 'mallory' } } }), {}],
    ['after', (input) => ({ ...input, earlier: { tools: { 'bank/lookup': { succeeded: 1 } } } }), {}],
    ['late', (input) => input, { callId: 't9.c0' }],
  ];
  test.each(told)(
    'in trust mode `temporal` a denial that reads initiator, earlier or turn (rule %s) goes by what the scheduler says of it',
    async (id, change, over) => {
      expect(await dispatch(change, over)).toMatchObject({
        kind: 'refused',
        code: 'POLICY_DENIED',
        message: expect.stringContaining(`organisation/rules/${id}`),
      });
      expect(newCalls()).toBe(0);
      expect(await dispatch((input) => input)).toMatchObject({ kind: 'ended', outcome: { kind: 'succeeded' } });
      expect(newCalls()).toBe(1);
    },
  );

  test('and one that reads what would be sent holds, whatever the scheduler says', async () => {
    const over = { arguments: { purpose: 'never' }, callId: 't1.c1', earlier: { tools: {} } };
    expect(await dispatch((input) => input, over)).toMatchObject({ kind: 'refused', code: 'POLICY_DENIED' });
    expect(newCalls()).toBe(0);
  });

  test('to another address than the one configured (F15)', async () => {
    const elsewhere = await startRecordingServer();
    const answer = await dispatch((input) => ({ ...input, server: { ...input.server, url: elsewhere.url } }));
    expect(answer).toMatchObject({ kind: 'refused', code: 'DISPATCH_FORBIDDEN' });
    expect(elsewhere.calls).toEqual([]);
    expect(newCalls()).toBe(0);
    await elsewhere.close();
  });
});

/** Hash of a tool's definition, as pinned in the toolset of the genuine run. */
async function definitionHashOf(name: string): Promise<string> {
  const ref = approved.toolset.find(({ server }) => server === 'bank')?.tools;
  if (ref === undefined) throw new Error('no toolset');
  const { tools } = JSON.parse(new TextDecoder().decode(await forger.world.artifacts.get(ref))) as {
    tools: { definition: { name: string }; hash: string }[];
  };
  return tools.find(({ definition }) => definition.name === name)?.hash ?? '';
}
