/** A stretch sends for a call what the run would send for it in an activity of its own (INV-G1, docs/adr/0058). */
import { describe, expect, jest, test } from '@jest/globals';
import { defined } from '../../../../contracts/defined.ts';
import type { Limits } from '../../../../contracts/schemas/run-spec.ts';
import type { Discovery, ServerBinding } from '../../../../contracts/schemas/tool.ts';
import type { Authorized } from '../../../../contracts/wire/carry.ts';
import type { PreparedRun } from '../../../../contracts/wire/run.ts';
import type { StretchInput } from '../../../../contracts/wire/stretch.ts';
import type { DispatchInput } from '../../../../contracts/wire/tools.ts';
import { dispatched } from '../../../../domain/request/transitions.ts';
import { dispatchOf, type DispatchParts } from '../../../../domain/run/turn.ts';
import { EMPTY_DIGEST } from '../../../../domain/run/journal.ts';
import { EMPTY_TALLY } from '../../../../domain/run/limits.ts';
import {
  firstStretch,
  openedTurn,
  type RunPlace,
  stretchDispatch,
  stretchRun,
} from '../../../../domain/run/stretch.ts';
import { listingInput, toolsetOf } from '../../../../domain/run/toolset.ts';
import type { InFlight, Run } from '../../../../domain/state/run.ts';
import { identicalCalls } from '../../../support/builders/call.ts';
import { allowVerdict, approverRule, denyVerdict } from '../../../support/builders/judgement.ts';
import { flyingOf, flyingRun } from '../../../support/builders/pause.ts';
import { preparedRun } from '../../../support/builders/prepared-run.ts';
import { judgedRun, runIds, START } from '../../../support/builders/run.ts';
import { limits, runSpec } from '../../../support/builders/run-spec.ts';
import { toolTarget } from '../../../support/builders/tool.ts';
import { freshRun, stepOf, stretchInput } from '../../../support/stretch/input.ts';

const SERVER: ServerBinding = { name: 'files', url: 'https://files.example/mcp' };
const GRANT = { server: 'files', ref: 'vault-1' };

function parts(over: Partial<DispatchParts> = {}): DispatchParts {
  const { run, runId, toolset } = stretchInput().step;
  return { run, runId, decidedIn: [runId], toolset, limits: limits(), ...over };
}

function sent(run: Run, callId = 't1.c0'): { readonly calls: Run['calls']; readonly state: InFlight } {
  const flying = dispatched(run, callId)?.run ?? run;
  return { calls: flying.calls, state: flyingOf(flying, callId) };
}

describe('a dispatch', () => {
  const flying = flyingRun('allowed');
  const plain = dispatchOf(parts(), flyingOf(flying), SERVER, flying.calls, {});

  test('has the call, the server, the verdict of policy as its proof, and one key for all attempts', () => {
    const { call, judgement } = flyingOf(flying);
    const {
      limits: { callTimeoutSeconds, resultBytes },
      ...same
    } = parts();
    expect(plain).toEqual({
      ...same,
      callId: 't1.c0',
      name: call.name,
      target: judgement.target,
      arguments: call.arguments,
      proof: { kind: 'policy', rules: allowVerdict().rules },
      server: SERVER,
      limits: { resultBytes, callTimeoutSeconds },
      attempt: 1,
      idempotencyKey: 'run/1/t1.c0',
    });
  });

  test('has no field for what does not apply', () => {
    expect(Object.values(plain)).not.toContain(undefined);
    for (const field of ['grant', 'earlier', 'tasks', 'signedSpec', 'runPolicy', 'resumable', 'hold', 'link'])
      expect(plain).not.toHaveProperty(field);
  });

  test('has what people said in place of the verdict, and the rest of what they said', () => {
    const proof: DispatchInput['proof'] = { kind: 'policy', rules: ['another'] };
    const said = { proof, link: { at: 3 }, hold: { seconds: 9 }, resumable: true } as const;
    expect(dispatchOf(parts(), flyingOf(flying), SERVER, flying.calls, said)).toEqual({ ...plain, ...said });
  });

  test('has the grant for its server alone (INV-S2)', () => {
    const grants = [{ server: 'mail', ref: 'vault-2' }, GRANT];
    expect(dispatchOf(parts({ grants }), flyingOf(flying), SERVER, flying.calls, {})).toEqual({
      ...plain,
      grant: GRANT,
    });
    const others = grants.slice(0, 1);
    expect(dispatchOf(parts({ grants: others }), flyingOf(flying), SERVER, flying.calls, {})).toEqual(plain);
  });

  test('counts the calls of its turn before it, if a policy rule reads them', () => {
    const run = judgedRun(identicalCalls(3), (_, index) => ({ verdict: index === 0 ? denyVerdict() : allowVerdict() }));
    const { calls, state } = sent(run, 't1.c2');
    const { earlier } = dispatchOf(parts({ earlier: EMPTY_TALLY }), state, SERVER, calls, {});
    expect(earlier).toEqual({ tools: { 'files/write_file': { open: 1 } } });
  });

  test('shares the room of its turn with the calls that policy let stand (INV-G3)', () => {
    const bound: Limits = limits({ resultBytes: 100, resultBytesPerTurn: 100 });
    const run = judgedRun(identicalCalls(3), (_, index) => ({ verdict: index === 0 ? denyVerdict() : allowVerdict() }));
    const { calls, state } = sent(run, 't1.c2');
    expect(dispatchOf(parts({ limits: bound }), state, SERVER, calls, {}).limits).toEqual({
      resultBytes: 50,
      sharedBy: 2,
      callTimeoutSeconds: bound.callTimeoutSeconds,
    });
  });
});

// The workflow is seen without Temporal: it says what it would send, and what it gives a stretch.

let given: StretchInput | undefined;

jest.unstable_mockModule('@temporalio/workflow', () => ({
  workflowInfo: () => ({ ...runIds(), unsafe: { isReplaying: false } }),
  CancellationScope: class {
    readonly run = async <T>(work: () => Promise<T>): Promise<T> => await work();
  },
  isCancellation: () => false,
  patched: () => true,
}));
jest.unstable_mockModule('../../../../workflows/run/activities.ts', () => ({
  beginActivities: () => ({}),
  stretchActivities: () => ({
    stretch: async (input: StretchInput) => {
      given = input;
      return await Promise.resolve({ turns: [] });
    },
  }),
}));
const { dispatchInput } = await import('../../../../workflows/run/dispatch-input.ts');
const { stretched } = await import('../../../../workflows/run/stretch.ts');
type LiveRun = Parameters<typeof dispatchInput>[0];

interface Living {
  readonly run?: Run;
  readonly prepared?: Partial<PreparedRun>;
  readonly signedSpec?: LiveRun['signedSpec'];
  readonly grants?: (typeof GRANT)[];
  readonly policy?: LiveRun['spec']['policy'];
}

/** Makes a run as the workflow holds it, as far as dispatches read it. */
function living({ run = freshRun(), prepared: over = {}, signedSpec = {}, grants, policy }: Living): LiveRun {
  const { opening: _, ...prepared } = preparedRun({ limits: limits(), ...over });
  const { step } = stretchInput();
  const live = {
    run,
    prepared,
    signedSpec,
    spec: runSpec({ ...(grants === undefined ? {} : { grants }), ...(policy === undefined ? {} : { policy }) }),
    toolset: step.toolset,
    identity: step.run,
    decidedIn: ['run-0', step.runId],
    turnsLeft: 40,
    stretching: { during: async (_scope: unknown, work: () => Promise<unknown>) => await work() },
    nextInput: () => 1,
    asksAbout: (kind: string) => prepared.pauses?.some((each) => each === kind) === true,
    earlier: prepared.tally === undefined ? {} : { earlier: run.tally ?? EMPTY_TALLY },
  };
  // Sound: these are the parts of a run that its dispatches and its stretches read.
  return live as unknown as LiveRun;
}

/** Makes an answer that gave a server another grant. */
function authorizedFor(server: string): Authorized {
  const about = {
    kind: 'authorization',
    server,
    reason: 'expired',
    message: 'New.',
    wants: 'grant',
    round: 1,
  } as const;
  const request = { generation: 1, approvers: approverRule(['eve']), openedAt: START, deadline: START + 1_000, about };
  const said = { decisionId: 'g-1', callId: 't1.c0', digest: 'a'.repeat(64), runId: 'run-1' };
  const answer: Authorized['answer'] = {
    kind: 'grant',
    ...said,
    approver: { id: 'eve', groups: [] },
    grant: { server, ref: 'vault-3' },
  };
  return { answer, decidedAt: START, request, definitionHash: toolTarget().definitionHash };
}

describe('what a stretch sends for a call is what the run would send for it', () => {
  const tally = { tools: { 'files/write_file': { failed: 2 } } };
  const held = [{ ...SERVER, holdSeconds: 60 }];

  test.each<[string, Living]>([
    ['of a plain run', {}],
    ['with a policy of its own', { policy: { never: ['files/*'] } }],
    ['with grants', { grants: [GRANT] }],
    ['that counts earlier calls', { prepared: { tally: true } }],
    ['that has counted some', { prepared: { tally: true }, run: { ...freshRun(), turn: 2, tally } }],
    ['that can wait for input and tasks', { prepared: { pauses: ['input'], tasks: true } }],
    ['whose server may ask on its connection, while the run asks nobody', { prepared: { servers: held } }],
    ['whose server was given another grant', { run: { ...freshRun(), grants: [authorizedFor('files')] } }],
    ['where another server was given one', { run: { ...freshRun(), grants: [authorizedFor('mail')] } }],
    [
      'with a signed spec',
      {
        signedSpec: {
          signedSpec: { spec: { sha256: 'e'.repeat(64), bytes: 2, contentType: 'application/json' }, signature: 's' },
        },
      },
    ],
    ['whose results share room', { prepared: { limits: limits({ resultBytes: 1_000, resultBytesPerTurn: 1_000 }) } }],
  ])('%s', async (_what, world) => {
    const live = living(world);
    const first = { ...stretchInput().step, turn: live.run.turn + 1, ...live.earlier };
    const runPolicy = live.spec.policy;
    await stretched(live, { ...first, ...(runPolicy === undefined ? {} : { runPolicy }) }, stretchInput().bounds);
    if (given === undefined) throw new Error('no stretch was scheduled');

    const answer = stepOf(first.turn, [{}, { arguments: { path: 'b' } }, {}]);
    const within = openedTurn(stretchRun(given.state), answer, given, START);
    // The run has opened the same turn.
    const { calls, turn } = openedTurn(live.run, answer, given, START);
    const now = living({ ...world, run: { ...live.run, calls, turn } });
    for (const { call } of calls) {
      const flying = { ...now.run, ...dispatched(now.run, call.callId)?.run };
      const alone = dispatchInput(living({ ...world, run: flying }), flyingOf(flying, call.callId));
      const { resumable, ...expected } = alone;
      expect(resumable).toBe(true);
      expect(alone).not.toHaveProperty('hold');
      // As text: the order of the fields is the same, too.
      expect(JSON.stringify(stretchDispatch(given, within, call.callId))).toBe(JSON.stringify(expected));
    }
  });

  test('a server of another queue, or one that may ask on its connection, gets no call of a stretch', async () => {
    const elsewhere = { name: 'mail', url: 'https://mail.example/mcp', taskQueue: 'mail' };
    const servers = [SERVER, elsewhere, { name: 'desk', url: 'https://desk.example/mcp', holdSeconds: 60 }];
    await stretched(living({ prepared: { servers, pauses: ['input'] } }), stretchInput().step, stretchInput().bounds);
    expect(given?.servers).toEqual([SERVER]);
    await stretched(living({ prepared: { servers } }), stretchInput().step, stretchInput().bounds);
    expect(given?.servers.map(({ name }) => name)).toEqual(['files', 'desk']);
  });
});

describe('the stretch with which a run begins (docs/adr/0062)', () => {
  const { namespace, workflowId, runId } = runIds();
  const place: RunPlace = { namespace, workflowId, runId, startedAt: START };
  const bounds = stretchInput().bounds;
  const tools = { sha256: 'f'.repeat(64), bytes: 3, contentType: 'application/json' };
  const found: Discovery[] = [
    { server: 'files', tools, count: 1, refused: [], grantExpiresAt: '2026-01-01T03:00:00.000Z' },
    { server: 'desk', tools, count: 0, refused: [] },
  ];
  const servers = [
    { ...SERVER, allowedTools: ['write_file'] },
    { name: 'desk', url: 'https://desk.example/mcp', holdSeconds: 60 },
  ];
  const price = { input: 3, output: 7, currency: 'EUR' };

  test.each<[string, Partial<PreparedRun>, Parameters<typeof runSpec>[0]]>([
    ['plain', {}, {}],
    ['with a policy and grants', {}, { grants: [GRANT], policy: { never: ['files/*'] } }],
    ['with a shape of its answer', {}, { agent: { name: 'clerk', model: 'scripted', output: { type: 'object' } } }],
    ['that counts calls and cost', { tally: true, price }, {}],
    ['that can wait for input and tasks', { pauses: ['input', 'outcome'], tasks: true }, {}],
    ['of few turns', { limits: limits({ turnsPerExecution: 2 }) }, {}],
  ])('is the one that the run would ask for: %s', async (_what, over, spec) => {
    const prepared = preparedRun({ servers, stretch: bounds, limits: limits(), ...over });
    const asked = runSpec(spec);
    const first = firstStretch(asked, prepared, found, place);
    if (first === undefined) throw new Error('there is none');
    const {
      opening,
      limits: { turnsPerExecution },
      ...rest
    } = prepared;
    const run = { ...freshRun(), ...(prepared.price === undefined ? {} : { spent: 0 }) };
    const live = living({ run, prepared: { ...rest, limits: prepared.limits } });
    const { initiator, specHash } = prepared;
    expect(first.step).toEqual({
      run: { namespace, workflowId, initiator, specHash },
      runId,
      model: asked.agent.model,
      turn: 1,
      base: { length: 0, digest: EMPTY_DIGEST },
      tail: opening,
      toolset: toolsetOf(found, servers),
      ...live.earlier,
      ...defined({ runPolicy: asked.policy, output: asked.agent.output }),
    });
    // Sound: as in `living`.
    const begun = Object.assign(live, {
      spec: asked,
      toolset: toolsetOf(found, servers),
      identity: { namespace, workflowId, initiator, specHash },
      decidedIn: [runId],
      turnsLeft: turnsPerExecution,
    });
    await stretched(begun, { ...first.step, tail: opening, ...live.earlier }, bounds);
    // The count of the cost begins with the first step.
    expect(JSON.parse(JSON.stringify({ ...given, state: { ...given?.state, spent: undefined } }))).toEqual(
      JSON.parse(JSON.stringify(first)),
    );
    expect(stretchRun(first.state)).toEqual(freshRun());
  });

  test('is none for a run that takes no stretches', () => {
    expect(firstStretch(runSpec(), preparedRun(), found, place)).toBeUndefined();
  });

  test('names the tools that were found, in the order of the servers', () => {
    expect(toolsetOf(found, servers)).toEqual([
      { server: 'files', tools, allowedTools: ['write_file'], grantExpiresAt: '2026-01-01T03:00:00.000Z' },
      { server: 'desk', tools },
    ]);
  });

  test('asks each server for its tools with its own grant, and says what the run can do (INV-S2)', () => {
    const { run } = stretchInput().step;
    expect(listingInput(run, [{ server: 'mail', ref: 'vault-2' }], {}, SERVER)).toEqual({ run, server: SERVER });
    expect(listingInput(run, [GRANT], { listings: 'asked', tasks: true, links: ['files'] }, SERVER)).toEqual({
      run,
      server: SERVER,
      grant: GRANT,
      mayAsk: true,
      tasks: true,
      links: true,
    });
    expect(listingInput(run, undefined, { links: ['mail'] }, SERVER)).toEqual({ run, server: SERVER });
  });
});
