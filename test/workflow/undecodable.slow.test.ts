/**
 * One message must not stop a run: what cannot be read is refused, whatever it is and whatever it was meant for, and
 * the run goes on (INV-G2, INV-D1).
 */
import { describe, expect, test } from '@jest/globals';
import type { RunHandle } from '../../client/index.ts';
import { codedFailureIn } from '../../contracts/failure.ts';
import { CATALOG_UPDATES, CATALOG_WORKFLOW, QUERIES, RUN_WORKFLOW, SIGNALS, UPDATES } from '../../contracts/names.ts';
import { Config, type ConfigInput } from '../../contracts/schemas/config.ts';
import type { ApprovalRequest } from '../../contracts/schemas/request.ts';
import { createDataConverter, EncryptionCodec } from '../../workers/codec.ts';
import { replayHistories } from '../../workers/replay/replay.ts';
import { BAD_HEADERS, BAD_PAYLOADS, encoded, RawSender, readable } from '../support/forgery/raw-messages.ts';
import { ADMINISTRATOR, ANN, changed, connected } from '../support/scenes/catalogs.ts';
import { startRecordingServer } from '../support/servers/recording-server.ts';
import { until } from '../support/until.ts';
import { codeOf, executions, factsOf, outcomes } from '../support/world/run-record.ts';
import { decisionOn, openRequests, type World, useEngine, useWorld } from '../support/world/world.ts';
import { during } from '../support/world/during.ts';

const KEY = Buffer.alloc(32, 5).toString('base64');
const LATER = { encryption: { keys: [{ id: 'late', key: KEY }] } };
const STEPS = [{ calls: [{ tool: 'bank/pay', arguments: { purpose: 'undecodable' } }] }, { text: 'done' }];
const BAD = Object.values(BAD_PAYLOADS);

const engine = useEngine();
const bank = during(() => startRecordingServer());
const configOf = (over: ConfigInput = {}): ConfigInput => ({
  policy: { approvers: { ids: ['ann'], may: ['edit'] } },
  servers: { bank: { url: bank.url, credentials: { kind: 'none' } } },
  // In a tenant of its own: no run here has a catalog.
  catalog: { administrators: [{ ...ADMINISTRATOR, tenant: 'shelf' }] },
  ...over,
});
const world = useWorld(() => ({ engine, config: configOf() }));
const sealing = useWorld(() => ({ engine, config: configOf({ ...LATER, taskQueue: 'sealing' }) }));

async function waiting(of: World = world): Promise<{ run: RunHandle; raw: RawSender; request: ApprovalRequest }> {
  const run = await of.start(STEPS);
  return { run, raw: new RawSender(of.client, run.runId), request: await theRequest(run) };
}

async function theRequest(run: RunHandle): Promise<ApprovalRequest> {
  const [request] = await openRequests(run);
  return request;
}

/** A good decision is taken all the same, and no workflow task has failed. */
async function goesOn(run: RunHandle, of: World = world): Promise<void> {
  await run.decide(decisionOn(await theRequest(run), 'ann'));
  expect(await run.result()).toMatchObject({ status: 'completed' });
  await expectNoFailedTask(run.runId, of);
}

async function expectNoFailedTask(workflowId: string, of: World = world): Promise<void> {
  const events = (await executions(of, workflowId)).flatMap((execution) => execution.events);
  expect(events.filter((event) => event.workflowTaskFailedEventAttributes)).toEqual([]);
}

const failureOfRun = async (workflowId: string): Promise<string | undefined> =>
  await world.client.workflow
    .getHandle(workflowId)
    .result()
    .then(
      () => undefined,
      (error: unknown) => codedFailureIn(error)?.code,
    );

describe('a run', () => {
  test('writes a signal that cannot be read into the ledger, and goes on', async () => {
    const { run, raw } = await waiting();
    for (const payloads of BAD) await raw.signal(SIGNALS.decide, payloads);
    for (const payloads of BAD) await raw.signal('unknown', payloads);
    for (const header of BAD_HEADERS) await raw.signal(SIGNALS.decide, [readable('no decision')], header);
    const count = BAD.length + BAD_HEADERS.length;
    const refused = await until(
      async () => {
        const facts = factsOf(await run.ledger(), 'decision.refused');
        return facts.length >= count ? facts : undefined;
      },
      { what: `${count} refused signals` },
    );
    expect(refused).toHaveLength(count);
    expect(new Set(refused.map(({ code }) => code))).toEqual(new Set(['DECISION_INVALID']));
    await goesOn(run);
  });

  test('continues as new where the nudge has a payload or a header that cannot be read', async () => {
    const { run, raw } = await waiting();
    for (const payloads of BAD) await raw.signal(SIGNALS.nudge, payloads);
    await until(async () => (await executions(world, run.runId)).length > 1, { what: 'a roll' });
    await raw.signal(SIGNALS.nudge, [], encoded('json/plain', '{'));
    await until(async () => (await executions(world, run.runId)).length > 2, { what: 'a roll' });
    await goesOn(run);
  });

  test('takes a decision by signal whatever its header is', async () => {
    const { run, raw, request } = await waiting();
    await raw.signal(SIGNALS.decide, [readable(decisionOn(request, 'ann'))], encoded('json/plain', '{'));
    expect(await run.result()).toMatchObject({ status: 'completed' });
    expect(await outcomes(run)).toEqual({ 't1.c0': 'succeeded' });
    await expectNoFailedTask(run.runId);
  });

  test('refuses an update that cannot be read, of which nothing enters history', async () => {
    const { run, raw } = await waiting();
    const { [UPDATES.advance]: _, [UPDATES.refreshTrust]: __, ...taking } = UPDATES;
    for (const name of Object.values(taking)) {
      const answers: (string | undefined)[] = [];
      for (const payloads of BAD) answers.push(await raw.update(name, payloads));
      const code = ['say', 'stop', 'inputAsked'].includes(name) ? 'MESSAGE_INVALID' : 'DECISION_INVALID';
      expect([name, ...answers]).toEqual([name, ...BAD.map(() => code)]);
    }
    const [execution] = await executions(world, run.runId);
    expect(execution?.events.filter((event) => event.workflowExecutionUpdateAcceptedEventAttributes)).toEqual([]);
    // Takes nothing, and so nothing of it can be unreadable.
    for (const payloads of BAD) expect(await raw.update(UPDATES.advance, payloads)).toBeUndefined();
    for (const header of BAD_HEADERS) expect(await raw.update(UPDATES.advance, [], header)).toBeUndefined();
    for (const payloads of BAD) await raw.update(UPDATES.refreshTrust, payloads);
    await goesOn(run);
  });

  test('answers a query that it cannot read with an error, and every other one', async () => {
    const { run, raw } = await waiting();
    for (const name of [QUERIES.ledger, QUERIES.transcript, QUERIES.heldInput])
      expect(await raw.query(name, [encoded('json/plain', '{')])).toMatch(/is not JSON/);
    for (const name of Object.values(QUERIES)) for (const payloads of BAD) await raw.query(name, payloads);
    for (const header of BAD_HEADERS) expect(await raw.query(QUERIES.state, [], header)).toBe('answered');
    expect(await raw.query(QUERIES.ledger, [readable('one'), readable(2)])).toMatch(/from must be a whole number/);
    // As Temporal UI asks, which has no arguments to give: all of it.
    expect(await raw.query(QUERIES.ledger, [])).toBe('answered');
    await goesOn(run);
  });

  test('that is started with what cannot be read ends with SPEC_INVALID', async () => {
    const specs: Readonly<Record<string, (typeof BAD)[number]>> = {
      ...BAD_PAYLOADS,
      'a carry that cannot be read': [readable(world.spec(STEPS)), encoded('json/plain', '{')],
    };
    for (const [what, payloads] of Object.entries(specs)) {
      const workflowId = `start-${what.replaceAll(' ', '-')}`;
      await new RawSender(world.client, workflowId).start(RUN_WORKFLOW, world.config.taskQueue, payloads);
      expect([what, await failureOfRun(workflowId)]).toEqual([what, 'SPEC_INVALID']);
      await expectNoFailedTask(workflowId);
    }
  });

  test('starts whatever its header is', async () => {
    for (const [at, header] of BAD_HEADERS.entries()) {
      const workflowId = `header-${at}`;
      const raw = new RawSender(world.client, workflowId);
      await raw.start(RUN_WORKFLOW, world.config.taskQueue, [readable(world.spec(STEPS))], header);
      await goesOn(world.countersign.run(workflowId));
    }
  });
});

describe('a message that is too large', () => {
  const filled = (size: number) => ({ arguments: { text: 'x'.repeat(size) } });

  test('has a code, and changes nothing', async () => {
    const { run, raw, request } = await waiting();
    const decision = decisionOn(request, 'ann');
    // More than Temporal takes, which would tell of it as a fault of the run; and more than it carries, which it would
    // not tell at all.
    for (const size of [300_000, 2_500_000, 4_500_000])
      expect(await codeOf(run.decide({ ...decision, kind: 'approve', ...filled(size) }))).toBe('ARGUMENTS_TOO_LARGE');
    expect(await raw.update(UPDATES.decide, [readable({ ...decision, ...filled(1_500_000) })])).toBe(
      'ARGUMENTS_TOO_LARGE',
    );
    const said = {
      ...decision,
      kind: 'provide',
      responses: { a: { action: 'accept', content: { a: 'x'.repeat(2e6) } } },
    };
    // Sound: only its kind differs.
    expect(await codeOf(run.provideInput(said as Parameters<RunHandle['provideInput']>[0]))).toBe('LIMIT_REACHED');
    const [execution] = await executions(world, run.runId);
    expect(execution?.events.filter((event) => event.workflowExecutionUpdateAcceptedEventAttributes)).toEqual([]);
    await goesOn(run);
  });

  test('does not start a run', async () => {
    const input = Array.from({ length: 40 }, () => ({ role: 'user' as const, content: 'x'.repeat(131_072) }));
    const started = world.countersign.startRun({ runId: 'large', spec: world.spec(STEPS, { input }) });
    expect(await codeOf(started)).toBe('SPEC_INVALID');
    expect(await codeOf(world.countersign.run('large').state())).toBe('RUN_NOT_FOUND');
  });
});

describe('a catalog', () => {
  test('refuses what it cannot read, and goes on', async () => {
    const shelf = world.countersign.catalog('bank', 'shelf');
    await connected(shelf, bank.url);
    const raw = new RawSender(world.client, shelf.workflowId);
    const { [CATALOG_UPDATES.refreshTrust]: _, ...taking } = CATALOG_UPDATES;
    for (const name of Object.values(taking)) {
      const answers: (string | undefined)[] = [];
      for (const payloads of BAD) answers.push(await raw.update(name, payloads));
      expect([name, ...answers]).toEqual([name, ...BAD.map(() => 'CATALOG_INVALID')]);
    }
    for (const name of [QUERIES.snapshot, QUERIES.ledger, QUERIES.transcript]) {
      expect(await raw.query(name, [encoded('json/plain', '{')])).toMatch(/is not JSON/);
      for (const payloads of BAD) await raw.query(name, payloads);
    }
    for (const payloads of BAD) await raw.update(CATALOG_UPDATES.refreshTrust, payloads);
    for (const payloads of BAD) await raw.signal('unknown', payloads);
    for (const payloads of BAD) await raw.signal(SIGNALS.nudge, payloads, encoded('json/plain', '{'));
    await until(async () => (await executions(world, shelf.workflowId)).length > 1, {
      what: 'a roll',
    });
    const snapshot = await changed(shelf, { tool: 'pay', denied: true });
    expect(snapshot.policyVersion).toBeGreaterThan(1);
    expect(await shelf.refresh({ by: ANN })).toMatchObject({ status: 'applied' });
    await expectNoFailedTask(shelf.workflowId);
  });

  test('that is started with what cannot be read ends with CATALOG_INVALID', async () => {
    for (const [at, payloads] of BAD.entries()) {
      const workflowId = `catalog/bad/s${at}`;
      await new RawSender(world.client, workflowId).start(CATALOG_WORKFLOW, world.config.taskQueue, payloads);
      expect([at, await failureOfRun(workflowId)]).toEqual([at, 'CATALOG_INVALID']);
    }
  });
});

describe('an activity that somebody else answers', () => {
  test.each(['a brace', 'another encoding', 'the encoding of a key that is not here', 'no metadata'])(
    'with %s is a lost answer',
    async (what) => {
      const { run, activity } = await held(what);
      await world.client.workflowService.respondActivityTaskCompletedById({
        ...activity,
        result: { payloads: [...(BAD_PAYLOADS[what] ?? [])] },
      });
      await expectLost(run);
    },
  );

  test.each([
    ['a failure of no kind', { childWorkflowExecutionFailureInfo: {} }],
    [
      'details that cannot be read',
      { applicationFailureInfo: { details: { payloads: [encoded('json/plain', '{')] } } },
    ],
    ['attributes that cannot be read', { encodedAttributes: encoded('binary/encrypted', 'xyz') }],
  ])('with %s is a lost answer', async (what, failure) => {
    const { run, activity } = await held(what);
    await world.client.workflowService.respondActivityTaskFailedById({ ...activity, failure });
    await expectLost(run);
  });

  async function held(purpose: string) {
    const run = await world.start([{ calls: [{ tool: 'bank/slow', arguments: { purpose } }] }, { text: 'done' }]);
    await run.decide(decisionOn(await theRequest(run), 'ann'));
    await bank.held(purpose);
    const { raw } = await world.client.workflow.getHandle(run.runId).describe();
    const [pending] = raw.pendingActivities ?? [];
    return {
      run,
      activity: {
        namespace: world.client.options.namespace,
        workflowId: run.runId,
        runId: raw.workflowExecutionInfo?.execution?.runId ?? '',
        activityId: pending?.activityId ?? '',
      },
    };
  }

  /** People are asked what became of it: it may have run (INV-X1). */
  async function expectLost(run: RunHandle): Promise<void> {
    const request = await theRequest(run);
    expect(request.about).toMatchObject({ kind: 'outcome' });
    const { kind: _, ...asked } = decisionOn(request, 'ann');
    await run.resolveOutcome({ ...asked, kind: 'failed', message: 'It did not run.' });
    expect(await run.result()).toMatchObject({ status: 'completed' });
    await expectNoFailedTask(run.runId);
  }
});

describe('where keys differ', () => {
  test('what was sealed for workers that have not the key is refused, and stays so when they have it (INV-D1)', async () => {
    const { run, raw, request } = await waiting();
    const [sealed = {}] = await new EncryptionCodec([{ id: 'late', key: Buffer.from(KEY, 'base64') }]).encode([
      readable(decisionOn(request, 'ann')),
    ]);
    expect(await raw.update(UPDATES.decide, [sealed])).toBe('DECISION_INVALID');
    await raw.signal(SIGNALS.decide, [sealed]);
    await until(async () => factsOf(await run.ledger(), 'decision.refused').at(0), { what: 'a refusal' });
    await goesOn(run);
    const [execution] = await executions(world, run.runId);
    if (execution === undefined) throw new Error('nothing was recorded');
    const recorded = { kind: 'history', name: run.runId, workflowId: run.runId, history: execution.history } as const;
    const keyed = { ...world.config, ...Config.parse(LATER) };
    for await (const { error } of replayHistories([recorded], { bundle: world.bundle, config: keyed }))
      expect(error).toBeUndefined();
  });

  test('a run of workers that seal does not replay without their key, and is not decided anew', async () => {
    const { run } = await waiting(sealing);
    await goesOn(run, sealing);
    const [execution] = await executions(sealing, run.runId);
    if (execution === undefined) throw new Error('nothing was recorded');
    const recorded = { kind: 'history', name: run.runId, workflowId: run.runId, history: execution.history } as const;
    for await (const { error } of replayHistories([recorded], { bundle: world.bundle, config: world.config }))
      expect(String(error)).toContain('Give this worker the encryption.keys that it was made with');
  });

  test('a client in clear is understood by workers that seal, and is told which key it lacks', async () => {
    const { run, request } = await waiting(sealing);
    const client = await engine.connect(createDataConverter(Config.parse({})));
    const raw = new RawSender(client, run.runId);
    const decision = readable(decisionOn(request, 'ann'));
    // Another one's answer could be read by nobody who has not the key.
    expect(
      await raw.update(UPDATES.decide, [encoded('binary/countersign-aes256gcm', 'x', { 'key-id': 'other' })]),
    ).toBe('DECISION_INVALID');
    expect(await raw.update(UPDATES.decide, [decision])).toBeUndefined();
    expect(await run.result()).toMatchObject({ status: 'completed' });
    const clear = world.countersign.run(run.runId);
    expect(await codeOf(clear.state())).toBe('CONFIG_INVALID');
    expect(await codeOf(clear.result())).toBe('CONFIG_INVALID');
  });

  test('a client with another key is told that its messages cannot be read', async () => {
    const { request } = await waiting(world);
    expect(await codeOf(sealing.countersign.run(request.workflowId).decide(decisionOn(request, 'ann')))).toBe(
      'DECISION_INVALID',
    );
    const [spec = {}] = await new EncryptionCodec([{ id: 'late', key: Buffer.from(KEY, 'base64') }]).encode([
      readable(world.spec(STEPS)),
    ]);
    await new RawSender(world.client, 'sealed-start').start(RUN_WORKFLOW, world.config.taskQueue, [spec]);
    expect(await failureOfRun('sealed-start')).toBe('SPEC_INVALID');
    await world.countersign.run(request.workflowId).stop({ by: 'ann', reason: 'Enough.' });
  });
});
