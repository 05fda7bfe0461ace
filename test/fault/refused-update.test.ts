/**
 * Temporal suggests another execution for the first time in a task whose update is refused. No history knows of that
 * task, so the run does not begin to hand over in it (INV-D1, INV-D3; docs/adr/0088).
 */
import { afterAll, beforeAll, expect, test } from '@jest/globals';
import { SIGNALS } from '../../contracts/names.ts';
import { type FaultEngine, type FaultWorld, startFaultEngine, startFaultWorld } from '../support/faults/world.ts';
import { type RecordingServer, startRecordingServer } from '../support/servers/recording-server.ts';
import { codeOf, factsOf, replayOwn, traceOf } from '../support/world/run-record.ts';
import { until } from '../support/until.ts';
import { decisionOn, openRequests } from '../support/world/world.ts';

/** Longer than a worker takes to start, on a busy machine. */
const LONG_MS = 120_000;

/** Events after which Temporal suggests another execution: more than the run has when it begins to wait. */
const SUGGESTED_AT = 80;
/** Events of the task that refuses the signals: its start, its end, and the marker with its search attribute. */
const REFUSING = 5;

let bank: RecordingServer;
let engine: FaultEngine;
let world: FaultWorld;

beforeAll(async () => {
  bank = await startRecordingServer();
  engine = await startFaultEngine([`limit.historyCount.suggestContinueAsNew=${SUGGESTED_AT}`]);
  const steps = [{ calls: [{ tool: 'bank/pay', arguments: { purpose: 'once' } }] }, { text: 'Done.' }];
  world = await startFaultWorld({
    engine,
    config: {
      servers: { bank: { url: bank.url, credentials: { kind: 'none' } } },
      policy: { approvers: { ids: ['ann'] } },
      models: { clerk: { provider: 'scripted', script: { steps } } },
    },
    client: { deadlineMs: 60_000 },
  });
}, LONG_MS);
afterAll(async () => {
  await world?.stop();
  await engine?.stop();
  await bank?.close();
});

test(
  'a refused update does not make a run hand over',
  async () => {
    const worker = await world.startWorker();
    const run = await world.start('clerk');
    const [request] = await openRequests(run);
    const { runId: execution } = await world.client.workflow.getHandle(run.runId).describe();
    const handle = world.client.workflow.getHandle(run.runId, execution);
    const eventsOf = async () => (await handle.fetchHistory()).events ?? [];

    // One task reads so many signals that the next one starts just above the bound.
    await worker.kill();
    const signals = SUGGESTED_AT - REFUSING - (await eventsOf()).length;
    for (let sent = 0; sent < signals; sent += 1) await handle.signal(SIGNALS.decide, decisionOn(request, 'mallory'));
    await world.startWorker();
    await until(async () => factsOf(await run.ledger(), 'decision.refused').length === signals, {
      what: 'the refusals',
    });
    const before = await traceOf(world, run.runId);
    expect(await codeOf(run.decide(decisionOn(request, 'mallory')))).toBe('APPROVER_NOT_ENTITLED');
    expect(await traceOf(world, run.runId)).toEqual(before);

    await run.decide(decisionOn(request, 'ann'));
    expect(await run.result()).toMatchObject({ status: 'completed' });
    // The first suggestion on record is that of the decision, whose task started where the one of the refused update did.
    const started = (await eventsOf()).filter(
      ({ workflowTaskStartedEventAttributes: task }) => task?.suggestContinueAsNew,
    );
    expect(Number(started[0]?.eventId)).toBe(before.historyLength + 2);
    await replayOwn(world, run.runId);
  },
  LONG_MS,
);
