/**
 * Trust mode `signed`: calls that are lost, outlive their worker, or are asked about in the middle count as somebody
 * signed (INV-G1, INV-G2, INV-X1, D-7, ADR 0039, 0041); workflows that are none of ours get nothing called, whatever
 * genuine inputs they repeat (F22, §3.5). One file, because one deployment of keys serves all.
 */
import { join } from 'node:path';
import { fileURLToPath } from 'node:url';
import { afterAll, beforeAll, beforeEach, describe, expect, test } from '@jest/globals';
import { NativeConnection, Worker } from '@temporalio/worker';
import { Countersign, type RunHandle, type Signer } from '../../client/index.ts';
import { compareWithHistory, readDeeds } from '../../client/ledger/history.ts';
import { checkProofs } from '../../client/ledger/proofs.ts';
import { signed } from '../../client/signing/signing.ts';
import { codedFailureIn } from '../../contracts/failure.ts';
import { ACTIVITIES, UPDATES } from '../../contracts/names.ts';
import type { ConfigInput } from '../../contracts/schemas/config.ts';
import type { ApprovalRequest, ProvisionInput } from '../../contracts/schemas/request.ts';
import type { SignedPurpose } from '../../contracts/schemas/trust.ts';
import type { DispatchInput } from '../../contracts/wire/tools.ts';
import { bundleWorkflows } from '../../workers/bundle.ts';
import { createTracing } from '../../workers/tracing.ts';
import { commandsAt } from '../support/cli.ts';
import { factsOf, outcomes, outcomesAtEnd, replayOwn, results, scheduledInputs } from '../support/world/run-record.ts';
import { lostCall, resolutionOf } from '../support/scenes/lost-answers.ts';
import { taskOf } from '../support/scenes/tasks.ts';
import { type MrtrServer, startMrtrServer } from '../support/servers/mrtr-server.ts';
import type { RecordingServer } from '../support/servers/recording-server.ts';
import { type ResumableServer, startResumableServer } from '../support/servers/resumable-server.ts';
import { startTaskServer, type TaskServer } from '../support/servers/task-server.ts';
import { zoneKey } from '../support/signing/keys.ts';
import { claimsFor, person, service, signedWith, writeTrust } from '../support/signing/people.ts';
import { until } from '../support/until.ts';
import { startBank } from '../support/world/bank-world.ts';
import { decideNext, decisionOn, openRequests, startWorld, type World } from '../support/world/world.ts';

const backend = service('backend', ['ops']);
const ann = person('ann-1', 'ann');
const bob = person('bob-key', 'bob');
const TRUSTED = [backend, ann, bob];
const initiator = { id: 'acme|ann' };
const END = { text: 'done' };

let bank: RecordingServer;
let desk: MrtrServer;
let tasks: TaskServer;
let kept: ResumableServer;
let world: World;
/** Unsigned, and without a key that opens grants. */
let keyless: World;

beforeAll(async () => {
  [desk, tasks, kept] = await Promise.all([startMrtrServer(), startTaskServer(), startResumableServer()]);
  const credentials = { kind: 'none' } as const;
  const policy: ConfigInput['policy'] = {
    approvers: { ids: ['acme|ann'] },
    servers: { open: { default: 'allow' }, desk: { default: 'allow' } },
  };
  const servers: ConfigInput['servers'] = {
    desk: { url: desk.url, credentials },
    // At the same address, with more rights.
    admin: { url: desk.url, credentials, headers: { 'X-Role': 'admin' } },
    mine: { url: tasks.url, credentials, recheckSeconds: 0, tasks: { seconds: 600 } },
    kept: { url: kept.url, credentials },
  };
  ({ bank, world } = await startBank(
    { policy, servers },
    {
      names: ['bank', 'open'],
      zone: await zoneKey(),
      trusted: TRUSTED,
      beside: [desk, tasks, kept],
      client: { signer: backend.signer },
    },
  ));
  const { engine, bundle } = world;
  keyless = await startWorld({ engine, bundle, config: { policy, servers, taskQueue: 'keyless' } });
});
afterAll(async () => {
  await keyless?.stop();
  await world?.stop();
});

function as(signer: Signer, { runId }: RunHandle): RunHandle {
  const { client, artifacts, config } = world;
  return new Countersign({ client, artifacts, taskQueue: config.taskQueue, signer }).run(runId);
}

describe('what became of a call (INV-X1, INV-G2, D-7)', () => {
  async function lost(purpose: string): Promise<{ run: RunHandle; request: ApprovalRequest }> {
    const run = await world.start([{ calls: [{ tool: 'open/slow', arguments: { purpose } }] }, { text: 'done' }], {
      initiator,
      servers: [{ name: 'open' }],
      limits: { callTimeoutSeconds: 1 },
    });
    return { run, request: await lostCall(run) };
  }

  async function raw(run: RunHandle, message: object): Promise<string> {
    return await world.client.workflow
      .getHandle(run.runId)
      .executeUpdate<unknown, [unknown]>('resolveOutcome', { args: [message] })
      .then(
        () => 'accepted',
        (error: unknown) => codedFailureIn(error)?.code ?? String(error),
      );
  }

  test('a signed retry is sent once more, and the ledger names the signature', async () => {
    const { run, request } = await lost('retry');
    bank.release('retry');
    await as(ann.signer, run).resolveOutcome(resolutionOf(request, 'acme|ann', { kind: 'retry' }));
    expect(await outcomesAtEnd(run)).toEqual({ 't1.c0': 'succeeded' });
    expect(bank.callsFor('retry')).toHaveLength(2);
    const ledger = await run.ledger();
    const deeds = await readDeeds(world.client, run.runId);
    expect(compareWithHistory({ before: ledger, after: ledger }, deeds)).toEqual([]);
    const parts = { namespace: 'default', workflowId: run.runId, trusted: [backend.entry, ann.entry], deeds };
    expect(checkProofs(ledger, parts)).toEqual({ faults: [], checked: 2, unchecked: 0 });
    const forged = ledger.map((entry) =>
      entry.fact.kind === 'outcome.resolved'
        ? { ...entry, fact: { ...entry.fact, answer: 'succeeded' as const, recordedHash: 'a'.repeat(64) } }
        : entry,
    );
    expect(checkProofs(forged, parts).faults).toMatchObject([{ kind: 'proof-altered' }]);
  });

  test('unsigned, signed for another update, by another, or for another answer it changes nothing', async () => {
    const { run, request } = await lost('forged');
    const plain = () => resolutionOf(request, 'acme|ann', { kind: 'retry' });
    const signedFor = async (message: ReturnType<typeof plain>, purpose: SignedPurpose, { signer } = ann) =>
      await signed(
        signer,
        { ...message, approver: { id: message.approver.id, groups: [] } },
        {
          purpose,
          namespace: request.namespace,
          tenant: request.tenant,
          workflowId: run.runId,
          runId: request.runId,
          jti: message.decisionId,
          person: message.approver.id,
          groups: [],
        },
      );
    expect(await raw(run, plain())).toBe('SIGNATURE_MISSING');
    expect(await raw(run, await signedFor(plain(), 'decide'))).toBe('SIGNATURE_INVALID');
    const caught = await signedFor(plain(), 'resolveOutcome');
    expect(await raw(run, { ...caught, kind: 'succeeded', result: 'x' })).toBe('SIGNATURE_INVALID');
    const stranger = { ...plain(), approver: { id: 'acme|eve', groups: [] } };
    expect(await raw(run, await signedFor(stranger, 'resolveOutcome'))).toBe('SIGNER_NOT_ENTITLED');
    expect(await raw(run, await signedFor(stranger, 'resolveOutcome', backend))).toBe('APPROVER_NOT_ENTITLED');
    expect(bank.callsFor('forged')).toHaveLength(1);
    expect(await raw(run, await signedFor({ ...plain(), kind: 'failed', message: 'x' }, 'resolveOutcome'))).toBe(
      'accepted',
    );
    await run.result();
    expect(bank.callsFor('forged')).toHaveLength(1);
  });
});

describe('workflows that are none of ours (INV-G1, F22)', () => {
  beforeAll(async () => {
    asked = await genuine('bank');
    allowed = await genuine('open');
    listed = (await scheduledInputs(world, asked.run.workflowId)).get(ACTIVITIES.discoverTools) ?? {};
    // Before their ids are taken by workflows that are none of ours.
    await replayOwn(world);
    forger = await startForger();
  });
  afterAll(async () => forger.stop());

  let forger: { stop(): Promise<void> };
  let asked: DispatchInput;
  let allowed: DispatchInput;
  let listed: Readonly<Record<string, unknown>>;

  /** The dispatch of a call that was made, as it stands in history. */
  async function genuine(server: 'bank' | 'open'): Promise<DispatchInput> {
    const run = await world.start(
      [{ calls: [{ tool: `${server}/pay`, arguments: { purpose: server } }] }, { text: 'done' }],
      { initiator, servers: [{ name: 'bank' }, { name: 'open' }] },
    );
    if (server === 'bank') {
      await decideNext(run, 'acme|ann');
    }
    await run.result();
    expect(bank.callsFor(server)).toHaveLength(1);
    // Sound: recorded by our own workflow.
    return (await scheduledInputs(world, run.runId)).get(ACTIVITIES.callTool) as unknown as DispatchInput;
  }

  async function startForger() {
    const connection = await NativeConnection.connect({ address: world.engine.server.address });
    const { code } = await bundleWorkflows(
      fileURLToPath(new URL('../support/forgery/forged-workflows.ts', import.meta.url)),
    );
    const plugins = [createTracing('off')];
    const worker = await Worker.create({ connection, taskQueue: 'forged', workflowBundle: { code }, plugins });
    const running = worker.run();
    return {
      stop: async () => {
        worker.shutdown();
        await running;
        await connection.close();
      },
    };
  }

  /** Under the id of the genuine run, which is over, so that its signature fits. */
  async function forged(
    input: DispatchInput,
    activity: string = ACTIVITIES.callTool,
    type = 'agentRun',
  ): Promise<unknown> {
    const args = [world.config.taskQueue, activity, { ...input, runId: '$self' }];
    const { workflowId } = input.run;
    const given = { workflowId, taskQueue: 'forged', args, workflowIdReusePolicy: 'ALLOW_DUPLICATE' } as const;
    return await world.client.workflow.execute(type, given);
  }

  const without = (input: DispatchInput): DispatchInput => {
    const { signedSpec: _, ...rest } = input;
    return rest;
  };

  test.each<readonly [string, () => Promise<unknown>, string]>([
    ['a decision that was used', async () => await forged(asked), 'DISPATCH_FORBIDDEN'],
    ['a call that policy allows', async () => await forged(allowed), 'DISPATCH_FORBIDDEN'],
    ['a call without what was signed', async () => await forged(without(allowed)), 'SIGNATURE_MISSING'],
    [
      'another spec',
      async () =>
        await forged({
          ...allowed,
          signedSpec: { ...(allowed.signedSpec ?? asked.signedSpec), ...asked.signedSpec },
        } as DispatchInput),
      'SIGNATURE_INVALID',
    ],
    [
      'a workflow of another type',
      async () => await forged(allowed, ACTIVITIES.callTool, 'somethingElse'),
      'DISPATCH_FORBIDDEN',
    ],
  ])('%s, scheduled by a workflow of somebody else, is not made', async (_what, forge, code) => {
    const before = bank.calls.length;
    expect(await forge()).toMatchObject({ kind: 'refused', code });
    expect(bank.calls).toHaveLength(before);
  });

  test('its tools are not listed for it either', async () => {
    const before = bank.methods.length;
    // Sound: recorded by our own workflow.
    const input = listed as unknown as DispatchInput;
    const error: unknown = await forged(input, ACTIVITIES.discoverTools).catch((thrown: unknown) => thrown);
    expect(codedFailureIn(error instanceof Error ? error.cause : error)?.code).toBe('DISPATCH_FORBIDDEN');
    expect(bank.methods).toHaveLength(before);
  });
});

describe('a call that outlives its worker (ADR 0039, 0041)', () => {
  /** Workers are stopped and started, on a busy machine. */
  const LONG_MS = 180_000;

  async function approved(tool: string, given: object): Promise<RunHandle> {
    const [name = ''] = tool.split('/');
    const run = await world.start([{ calls: [{ tool, arguments: given }] }, END], {
      initiator,
      servers: [{ name }],
    });
    const [request] = await openRequests(run);
    await as(ann.signer, run).decide({ ...decisionOn(request, 'acme|ann'), approver: { id: 'acme|ann', groups: [] } });
    return run;
  }

  async function expectOnce(run: RunHandle): Promise<void> {
    expect(await run.result()).toMatchObject({ status: 'completed' });
    expect(await outcomes(run)).toEqual({ 't1.c0': 'succeeded' });
    const ledger = await run.ledger();
    expect(factsOf(ledger, 'dispatched')).toMatchObject([{ attempt: 1 }]);
    expect(compareWithHistory({ before: ledger, after: ledger }, await readDeeds(world.client, run.runId))).toEqual([]);
  }

  test(
    'INV-X1 INV-G1: a task that a signed decision let begin is asked about by the next worker, and begun once',
    async () => {
      let isDone = false;
      tasks.become({ get: () => ({ status: isDone ? 'completed' : 'working' }) });
      const before = tasks.calls.length;
      const run = await approved('mine/dig', { deep: 1 });
      await taskOf(run);
      await world.restartWorkers();
      const { polls } = await taskOf(run);
      await taskOf(run, (task) => task.polls > polls);
      isDone = true;
      await expectOnce(run);
      expect(tasks.calls).toHaveLength(before + 1);
      expect(factsOf(await run.ledger(), 'task.begun')).toHaveLength(1);
    },
    LONG_MS,
  );

  test(
    'INV-X1 INV-G1: the answer of a call that a signed decision let leave is brought by the next worker',
    async () => {
      const run = await approved('kept/slow', { purpose: 'brought' });
      await kept.held('brought');
      await kept.progress('brought', 1);
      await world.restartWorkers();
      kept.release('brought');
      await expectOnce(run);
      expect(kept.executed.filter((each) => each === 'brought')).toHaveLength(1);
      expect(factsOf(await run.ledger(), 'resumed')).toMatchObject([{ attempt: 1 }]);
    },
    LONG_MS,
  );

  test(
    'INV-G1: where the key of who agreed is trusted no more, the server is not asked, and a person is',
    async () => {
      const run = await approved('kept/slow', { purpose: 'untrusted' });
      await kept.held('untrusted');
      await kept.progress('untrusted', 1);
      await writeTrust(join(world.engine.directory, 'trust.jwks'), backend);
      const asked = () => kept.requests.filter(({ lastEventId }) => lastEventId !== undefined).length;
      const before = asked();
      await world.restartWorkers();
      expect((await lostCall(run, 't1.c0')).about).toMatchObject({ kind: 'outcome', attempt: 1 });
      expect(asked()).toBe(before);
      expect(kept.executed.filter((each) => each === 'untrusted')).toHaveLength(1);
      kept.release('untrusted');
      await writeTrust(join(world.engine.directory, 'trust.jwks'), ...TRUSTED);
      await run.stop({ by: 'acme|ann', reason: 'seen' });
      expect(await run.result()).toMatchObject({ status: 'stopped' });
    },
    LONG_MS,
  );
});

describe('answers to a server (INV-G2)', () => {
  beforeEach(() => desk.reset());

  const steps = (tool: string) => [{ calls: [{ tool: `desk/${tool}`, arguments: { n: 1 } }] }, END];

  async function question(run: RunHandle, key = 'confirm', text = ''): Promise<ApprovalRequest> {
    return await until(
      async () =>
        (await run.requests()).find(
          ({ status, about }) =>
            status === 'open' && about?.kind === 'input' && about.requests[key]?.message.includes(text) === true,
        ),
      { what: `a question of ${run.runId}` },
    );
  }

  function answerTo({ callId, digest, runId }: ApprovalRequest, decisionId: string, sure = true): ProvisionInput {
    const approver = { id: 'acme|ann', groups: [] };
    const responses = { confirm: { action: 'accept' as const, content: { sure } } };
    return { kind: 'provide', decisionId, callId, digest, runId, approver, responses };
  }

  const claimsAbout = (run: RunHandle, { runId }: ApprovalRequest) => ({
    purpose: UPDATES.provideInput,
    namespace: 'default',
    tenant: 'default',
    workflowId: run.runId,
    runId,
    iss: 'acme',
    sub: 'ann',
  });

  async function sendTo(run: RunHandle, input: object): Promise<unknown> {
    return await world.client.workflow
      .getHandle(run.runId)
      .executeUpdate(UPDATES.provideInput, { args: [input] })
      .catch((error: unknown) => codedFailureIn(error)?.code ?? error);
  }

  test('an answer counts as it was signed; unsigned, by somebody else, changed, or signed for another purpose it does not', async () => {
    const run = await world.start(steps('deploy'), { initiator, servers: [{ name: 'desk' }] });
    const shown = await question(run);
    const message = answerTo(shown, 'signed-1');
    const about = claimsAbout(run, shown);
    const good = await signedWith(ann, claimsFor(message, about, { jti: 'signed-1' }));
    const send = async (input: object): Promise<unknown> => await sendTo(run, input);
    expect(await send(message)).toBe('SIGNATURE_MISSING');
    expect(await send({ ...answerTo(shown, 'signed-1', false), signature: good })).toBe('SIGNATURE_INVALID');
    expect(
      await send({ ...message, signature: await signedWith(bob, claimsFor(message, about, { jti: 'signed-1' })) }),
    ).toMatch(/SIGN/);
    const decide = await signedWith(
      ann,
      claimsFor(message, { ...about, purpose: UPDATES.decide }, { jti: 'signed-1' }),
    );
    expect(await send({ ...message, signature: decide })).toBe('SIGNATURE_INVALID');
    expect(desk.executed).toEqual([]);
    expect(await send({ ...message, signature: good })).toMatchObject({ answer: 'provide' });
    await run.result();
    expect(desk.executed).toEqual(['deployed, sure: true']);
    expect(factsOf(await run.ledger(), 'input.provided')).toMatchObject([{ signature: expect.anything() }]);
    const trust = ['--trust', join(world.engine.directory, 'trust.jwks')];
    expect(await commandsAt(world.engine)(['verify-ledger', run.runId, ...trust])).toMatchObject({ exitCode: 0 });
  });

  test('INV-G1: a question that somebody puts into a run in a worker’s place is shown to nobody; the call may have run', async () => {
    const yes = async (run: RunHandle, shown: ApprovalRequest): Promise<unknown> => {
      const decisionId = `on-${shown.digest}`;
      const message = { ...answerTo(shown, decisionId), responses: { page: { action: 'accept' as const } } };
      const claims = claimsFor(message, claimsAbout(run, shown), { jti: decisionId });
      return await sendTo(run, { ...message, signature: await signedWith(ann, claims) });
    };
    // What the server asks, as anybody may read it elsewhere.
    const before = await world.start(steps('visit'), { initiator, servers: [{ name: 'desk' }] });
    const known = await question(before, 'page');
    await yes(before, known);
    await before.result();
    desk.reset();

    const goOn = desk.hold();
    const run = await world.start(steps('visit'), { initiator, servers: [{ name: 'desk' }] });
    const handle = world.client.workflow.getHandle(run.runId);
    const activityId = await until(
      async () =>
        desk.legs.length === 0
          ? undefined
          : ((await handle.describe()).raw.pendingActivities?.[0]?.activityId ?? undefined),
      { what: 'the call is under way' },
    );
    const { page } = known.about?.kind === 'input' ? known.about.requests : {};
    const requests = { page: { ...page, message: 'Do you like blue?' } };
    const forged = { kind: 'input', round: 1, requests, used: [] };
    await world.client.activity.complete({ workflowId: run.runId, activityId }, forged);
    goOn();
    const [asked] = await openRequests(run);
    expect(asked?.about?.kind).toBe('outcome');
    expect(desk.legs.map(({ answers }) => answers)).toEqual([[]]);
    expect(desk.executed).toEqual([]);
    await run.stop({ by: 'acme|ann', reason: 'enough' });
    expect(await outcomesAtEnd(run)).toEqual({ 't1.c0': 'unknown' });
  });

  test('INV-G1: what is approved goes to no server with whose address another one of the run has other credentials', async () => {
    const started = async (...names: readonly string[]): Promise<RunHandle> => {
      const servers = names.map((name) => ({ name }));
      const calls = [{ tool: 'admin/visit', arguments: {} }];
      const run = await world.start([{ calls }, END], { initiator, servers });
      await decideNext(run, 'acme|ann');
      return run;
    };
    const both = await started('desk', 'admin');
    expect(await outcomesAtEnd(both)).toEqual({ 't1.c0': 'denied' });
    expect(JSON.stringify(await results(world, both))).toContain('Servers admin and desk');
    expect(desk.legs).toEqual([]);
    const one = await started('admin');
    await question(one, 'page');
    expect(desk.legs).toHaveLength(1);
    await one.stop({ by: 'acme|ann', reason: 'enough', inFlight: 'cancel' });
  });

  test('without a key in grants.keys no server may ask, and the refusal names the setting', async () => {
    const run = await keyless.start(steps('deploy'), { servers: [{ name: 'desk' }] });
    expect(await outcomesAtEnd(run)).toEqual({ 't1.c0': 'failed' });
    expect(JSON.stringify(await results(keyless, run))).toContain('grants.keys');
    expect(desk.executed).toEqual([]);
  });
});
