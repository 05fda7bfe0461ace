/**
 * A run or a catalog whose history no worker can replay is read from it, and has a way out: nothing that ran is
 * forgotten on it, and what an operator has to say again is told (INV-X1, INV-G2, INV-D3). Workers whose code throws on
 * a run hold it up and lose nothing; whoever asks meanwhile hears it with a code (INV-D1).
 */
import { fileURLToPath } from 'node:url';
import { afterAll, beforeAll, describe, expect, test } from '@jest/globals';
import { NativeConnection, Worker } from '@temporalio/worker';
import { assertIntact, type CatalogHandle, type LedgerEntry, type RunHandle } from '../../client/index.ts';
import { traitsOf } from '../../contracts/errors.ts';
import type { ConfigInput } from '../../contracts/schemas/config.ts';
import { entryOf } from '../../domain/catalog/state.ts';
import { bundleWorkflows } from '../../workers/bundle.ts';
import { createTracing } from '../../workers/tracing.ts';
import { replayHistories } from '../../workers/replay/replay.ts';
import { ADMINISTRATORS, changed, connected } from '../support/scenes/catalogs.ts';
import { commandsAt, documentOf } from '../support/cli.ts';
import { startEngine, type TestEngine } from '../support/engine.ts';
import { ledgerShows, outcomesAtEnd, refusalOf, replayOwn } from '../support/world/run-record.ts';
import { lostCall, resolutionOf } from '../support/scenes/lost-answers.ts';
import { type RecordingServer, startRecordingServer } from '../support/servers/recording-server.ts';
import { until } from '../support/until.ts';
import { decideNext, decisionOn, openRequests, requestFor, startWorld, type World } from '../support/world/world.ts';

let engine: TestEngine;
let bank: RecordingServer;
let world: World;
let run: RunHandle;
let catalog: CatalogHandle;

const END = { text: 'done' };
const call = (tool: string, purpose: string) => ({ tool, arguments: { purpose } });

beforeAll(async () => {
  engine = await startEngine();
  bank = await startRecordingServer();
  const credentials = { kind: 'none' } as const;
  const config = {
    policy: { servers: { open: { default: 'allow' as const } } },
    servers: {
      bank: { url: bank.url, credentials },
      open: { url: bank.url, credentials, repeatable: ['lookup'] },
    },
    catalog: { administrators: ADMINISTRATORS, origins: [new URL(bank.url).origin] },
  } satisfies ConfigInput;
  const bundle = await bundleWorkflows(undefined, [
    fileURLToPath(new URL('../support/forgery/straying-interceptors.ts', import.meta.url)),
  ]);
  // Its workers do otherwise than those that come after.
  const strayed = await startWorld({ engine, bundle, config });
  const steps = [
    { calls: [call('bank/pay', 'asked')] },
    { calls: [call('open/pay', 'once'), call('open/lookup', 'often')] },
    { calls: [call('bank/pay', 'last')] },
    END,
  ];
  run = await strayed.start(steps, {}, { runId: 'strayed' });
  await decideNext(run, 'ann');
  await requestFor(run, 't3.c0');
  const quiet = await strayed.start(
    [{ calls: [call('bank/pay', 'quiet')] }, { calls: [call('bank/pay', 'quieter')] }, END],
    {},
    { runId: 'quiet' },
  );
  await decideNext(quiet, 'ann');
  await requestFor(quiet, 't2.c0');
  const first = strayed.countersign.catalog('shelf');
  await connected(first, bank.url);
  // Each on the version that the one before it made.
  await changed(first, { tool: 'pay', denied: true });
  await changed(first, { tool: 'lookup', enabled: false });
  await strayed.workers.stop();
  world = await startWorld({ engine, config });
  Object.assign(world.config.models, strayed.config.models);
  catalog = world.countersign.catalog('shelf');
  for (const { workflowId } of [{ workflowId: run.runId }, catalog]) {
    const handle = world.client.workflow.getHandle(workflowId);
    await handle.signal('nudge');
    await until(
      async () => {
        const { events } = await handle.fetchHistory();
        return events?.some(({ workflowTaskFailedEventAttributes: failed }) => failed);
      },
      { what: `a workflow task of ${workflowId} that fails` },
    );
  }
}, 180_000);
afterAll(async () => {
  await world.workers.stop();
  await bank.close();
  await engine.stop();
});

const cli = async (...args: readonly string[]) => await commandsAt(engine)(args);

describe('a run', () => {
  /** What the command line writes of a ledger that it has read from history. */
  interface PartialLedger {
    readonly entries: readonly LedgerEntry[];
    readonly stuck: { readonly readTo: number; readonly of: number };
  }

  /** Of JSON, one in each line. */
  function lines(text: string): readonly unknown[] {
    return text
      .trimEnd()
      .split('\n')
      .map((line): unknown => JSON.parse(line));
  }

  test('RUN_STUCK names the way out', async () => {
    const told = await until(
      async () => {
        const refusal = await refusalOf(world.hurried(3_000).run(run.runId).state());
        return refusal.code === 'RUN_STUCK' ? refusal : undefined;
      },
      { withinMs: 60_000 },
    );
    expect(told.message).toContain('countersign recover strayed');
  });

  test('show, ledger and verify-ledger read what can be read, and say up to where', async () => {
    const shown = await cli('show', run.runId);
    expect(shown).toMatchObject({ exitCode: 0, err: '' });
    for (const part of [
      'stuck  strayed: its workflow task fails since',
      'TMPRL1100',
      'what came after could not be read',
      '1 call waits for a decision',
      'asked       t1.c0 bank/pay',
      'handed out  t2.c0 open/pay was sent, and succeeded',
    ])
      expect(shown.out).toContain(part);
    const asJson = await cli('show', run.runId, '--json');
    expect(JSON.parse(asJson.out)).toMatchObject({
      status: 'waiting',
      pending: 1,
      stuck: { failing: { message: expect.stringContaining('Nondeterminism') }, readTo: expect.any(Number) },
    });

    // Sound: as the command line writes it.
    const ledger = JSON.parse((await cli('ledger', run.runId, '--json')).out) as PartialLedger;
    const kinds = ledger.entries.map(({ fact }) => fact.kind);
    expect(kinds).toContain('request.opened');
    expect(kinds).not.toContain('dispatched');
    expect(ledger.stuck.readTo).toBeLessThan(ledger.stuck.of);

    const verified = await cli('verify-ledger', run.runId);
    expect(verified).toMatchObject({ exitCode: 0, err: '' });
    expect(verified.out).toContain(`chained; signatures not checked  strayed: ${ledger.entries.length} entries`);
    expect(verified.out).toContain(`read     from history up to event ${ledger.stuck.readTo} of ${ledger.stuck.of}`);
  });

  test('requests reads what was asked, and offers nothing to decide', async () => {
    const shown = await cli('requests', run.runId);
    expect(shown).toMatchObject({ exitCode: 0, err: '' });
    for (const part of ['stuck  strayed', 'what came after could not be read', 't1.c0  bank/pay', 'digest'])
      expect(shown.out).toContain(part);
    expect(shown.out).not.toContain('countersign approve');
    expect(documentOf(await cli('requests', run.runId, '--json'))).toMatchObject({
      requests: [{ callId: 't1.c0', status: 'open' }],
      stuck: { readTo: expect.any(Number) },
    });
  });

  test('one that waits is read as well, before any task of it has failed', async () => {
    const { events } = await world.client.workflow.getHandle('quiet').fetchHistory();
    expect(events?.some(({ workflowTaskFailedEventAttributes: failed }) => failed)).toBe(false);
    const shown = await cli('show', 'quiet');
    expect(shown).toMatchObject({ exitCode: 0, err: '' });
    for (const part of [
      'stuck  quiet: a worker answered that it cannot replay it',
      'TMPRL1100',
      '1 call waits for a decision',
    ])
      expect(shown.out).toContain(part);
    expect((await cli('requests', 'quiet')).out).toContain('t1.c0  bank/pay');
  });

  test('watch tells what can be read, and ends with the way out', async () => {
    const { entries } = documentOf<PartialLedger>(await cli('ledger', run.runId, '--json'));
    const watched = await cli('watch', run.runId, '--deadline', '5', '--json');
    expect(watched.exitCode).toBe(traitsOf('RUN_STUCK').exitCode);
    expect(lines(watched.out)).toEqual(entries);
    const told = lines(watched.err);
    expect(told[0]).toEqual({ waiting: { code: 'RUN_STUCK', message: expect.stringContaining('workflow task') } });
    expect(told.at(-1)).toMatchObject({
      error: {
        code: 'RUN_STUCK',
        message: expect.stringContaining('countersign recover strayed'),
        facts: { cursor: entries.length, readTo: expect.any(Number) },
      },
    });
    const rest = await cli('watch', run.runId, '--deadline', '5', '--from', '1');
    expect(rest.out.split('\n')).toHaveLength(entries.length);
    expect(rest.err).toMatch(/^waiting: .*\nerror RUN_STUCK: /);
  });

  test('replay --live tells that the build is at fault, in words and as facts', async () => {
    const replayed = await cli('replay', '--live', '--query', "WorkflowId = 'strayed'", '--json');
    expect(replayed.exitCode).toBe(7);
    expect(JSON.parse(replayed.out)).toMatchObject({
      failed: 1,
      causes: { build: 1, query: 0, unknown: 0 },
      results: [{ ok: false, diagnosis: { cause: 'build', certainty: 'likely' } }],
    });
    expect(JSON.parse(replayed.err)).toMatchObject({
      error: {
        code: 'REPLAY_FAILED',
        message: expect.stringContaining('1 by this build'),
        facts: { failed: 1, build: 1 },
      },
    });
  });

  test('recover shows what is undone and does nothing; with --yes it leaves alone what another build can go on with', async () => {
    const shown = await cli('recover', run.runId);
    expect(shown).toMatchObject({ exitCode: 0, err: '' });
    for (const part of [
      'TMPRL1100',
      'This build is at fault, as far as can be told',
      'decide on t1.c0 by ann',
      't1.c0 bank/pay was sent, and succeeded',
      't2.c0 open/pay was sent, and succeeded',
      'not sent again by itself',
      'repeatable, so it may be sent again by itself',
      'Nothing was done.',
    ])
      expect(shown.out).toContain(part);
    const { runId } = await world.client.workflow.getHandle(run.runId).describe();
    expect(await cli('recover', run.runId, '--yes')).toMatchObject({ exitCode: 7 });
    expect(await world.client.workflow.getHandle(run.runId).describe()).toMatchObject({ runId });
  });

  test('goes on from the last sound task, and asks of what was sent', async () => {
    expect(await cli('recover', run.runId, '--yes', '--anyway')).toMatchObject({ exitCode: 0 });
    const again = await until(async () => (await openRequests(run)).find(({ callId }) => callId === 't1.c0'));
    await run.decide(decisionOn(again, 'ann'));
    const paid = { kind: 'succeeded', result: 'It is paid.' } as const;
    await run.resolveOutcome(resolutionOf(await lostCall(run), 'ann', paid));
    await run.resolveOutcome(resolutionOf(await lostCall(run, 't2.c0'), 'ann', paid));
    await ledgerShows(run, 'outcome', 't2.c1');
    const last = await requestFor(run, 't3.c0');
    await run.decide(decisionOn(last, 'ann'));
    expect(await outcomesAtEnd(run)).toEqual({
      't1.c0': 'succeeded',
      't2.c0': 'succeeded',
      't2.c1': 'succeeded',
      't3.c0': 'succeeded',
    });
    expect(['asked', 'once', 'often', 'last'].map((purpose) => bank.callsFor(purpose).length)).toEqual([1, 1, 2, 1]);
    assertIntact(await run.ledger(), run.runId);
    const { runId } = await world.client.workflow.getHandle(run.runId).describe();
    const history = await world.client.workflow.getHandle(run.runId, runId).fetchHistory();
    const recorded = [{ kind: 'history', name: runId, workflowId: run.runId, history }] as const;
    for await (const { error } of replayHistories(recorded, world)) expect(error).toBeUndefined();
  });

  test('a sound run has nothing to recover', async () => {
    const sound = await world.start([{ calls: [call('bank/pay', 'sound')] }, END]);
    await openRequests(sound);
    const shown = await cli('recover', sound.runId, '--yes');
    expect(shown).toMatchObject({ exitCode: 0, out: expect.stringContaining('There is nothing to recover') });
    expect(await openRequests(sound)).toHaveLength(1);
  });
});

describe('a catalog', () => {
  test('CATALOG_UNAVAILABLE names the way out', async () => {
    const told = await until(
      async () => {
        const refusal = await refusalOf(world.hurried(3_000).catalog('shelf').snapshot());
        return refusal.code === 'CATALOG_UNAVAILABLE' ? refusal : undefined;
      },
      { withinMs: 60_000 },
    );
    expect(told.message).toContain('countersign recover catalog/default/shelf');
  });

  test('catalog show, ledger and verify-ledger read what can be read, and say up to where', async () => {
    const shown = await cli('catalog', 'show', 'shelf');
    expect(shown).toMatchObject({ exitCode: 0, err: '' });
    for (const part of [
      'stuck  catalog/default/shelf',
      'TMPRL1100',
      'what came after could not be read',
      'shelf  connected',
    ])
      expect(shown.out).toContain(part);
    expect(documentOf(await cli('catalog', 'show', 'shelf', '--json'))).toMatchObject({
      policyVersion: 1,
      stuck: { failing: { message: expect.stringContaining('Nondeterminism') }, readTo: expect.any(Number) },
    });
    expect((await cli('ledger', catalog.workflowId)).out).toContain('catalog.refreshed');
    expect((await cli('verify-ledger', catalog.workflowId)).out).toContain('catalog/default/shelf: 2 entries');
  });

  test('recover shows what is undone, and what becomes of it; alone it does nothing', async () => {
    const shown = await cli('recover', catalog.workflowId);
    expect(shown).toMatchObject({ exitCode: 0, err: '' });
    for (const part of [
      'setToolPolicies on pay by ann',
      'setToolPolicies on lookup by ann',
      'is sent to the catalog again',
      'make again what the catalog lacks',
      'Nothing was done.',
    ])
      expect(shown.out).toContain(part);
    expect(shown.out).not.toMatch(/^Run|say, stop/m);
    expect(await cli('recover', catalog.workflowId, '--yes')).toMatchObject({ exitCode: 7 });
  });

  test('goes on from the last sound task; a change that was made on another one has to be made again', async () => {
    const done = await cli('recover', catalog.workflowId, '--yes', '--anyway');
    expect(done).toMatchObject({ exitCode: 0, out: expect.stringContaining('countersign catalog list shelf') });
    const after = await until(async () => {
      const snapshot = await catalog.snapshot().catch(() => undefined);
      return snapshot?.policyVersion === 2 ? snapshot : undefined;
    });
    expect(['pay', 'lookup'].map((tool) => entryOf(after, tool)?.setting)).toMatchObject([
      { denied: true },
      { enabled: true },
    ]);
    const again = await changed(catalog, { tool: 'lookup', enabled: false });
    expect(entryOf(again, 'lookup')?.setting).toMatchObject({ enabled: false });
    assertIntact(await catalog.ledger(), catalog.workflowId);
    let replayed = 0;
    for await (const execution of world.client.workflow.list({ query: `WorkflowId = '${catalog.workflowId}'` })) {
      const { runId, workflowId, status } = execution;
      if (status.name === 'TERMINATED') continue;
      const history = await world.client.workflow.getHandle(workflowId, runId).fetchHistory();
      const recorded = [{ kind: 'history', name: runId, workflowId, history }] as const;
      for await (const { error } of replayHistories(recorded, world)) expect(error).toBeUndefined();
      replayed += 1;
    }
    expect(replayed).toBeGreaterThan(0);
  });
});

describe('workers whose code throws (INV-D1)', () => {
  /** In place of the workers, one of a broken build. */
  async function withBrokenBuild(act: () => Promise<void>): Promise<void> {
    const { code } = await bundleWorkflows(
      fileURLToPath(new URL('../support/forgery/broken-workflows.ts', import.meta.url)),
    );
    const connection = await NativeConnection.connect({ address: world.engine.server.address });
    const { taskQueue } = world.config;
    const worker = await Worker.create({
      connection,
      taskQueue,
      workflowBundle: { code },
      plugins: [createTracing('off')],
    });
    await worker.runUntil(act);
    await connection.close();
  }

  test('RUN_STUCK while a broken build serves it; after the build is rolled back the run goes on from where it was', async () => {
    const stuck = await world.start([{ calls: [call('bank/pay', 'stuck')] }, END]);
    const [request] = await openRequests(stuck);
    const handle = world.client.workflow.getHandle(stuck.runId);
    await world.workers.stop();
    await withBrokenBuild(async () => {
      // Something to work on, which no task gets done.
      await handle.signal('decide', decisionOn(request, 'ann'));
      const hurried = world.hurried(3_000).run(stuck.runId);
      const refusal = await until(
        async () => {
          const told = await refusalOf(hurried.state());
          return told.code === 'RUN_STUCK' ? told : undefined;
        },
        { what: 'RUN_STUCK', withinMs: 90_000 },
      );
      expect(refusal).toMatchObject({ facts: { runId: stuck.runId } });
      expect(refusal.message).toContain('See it in Temporal UI');
      expect(await refusalOf(hurried.requests())).toMatchObject({ code: 'RUN_STUCK' });
      // Read from history by this build, which is a sound one.
      const shown = await cli('requests', stuck.runId);
      expect(shown).toMatchObject({ exitCode: 0, err: '' });
      for (const part of ['this build replays all of it', 't1.c0  bank/pay', request.digest])
        expect(shown.out).toContain(part);
    });
    expect(bank.callsFor('stuck')).toEqual([]);
    await world.restartWorkers();
    expect(await stuck.result()).toMatchObject({ status: 'completed', output: 'done' });
    expect(bank.callsFor('stuck')).toHaveLength(1);
    await replayOwn(world, stuck.runId);
  }, 180_000);
});
