/** A run that would lead a worker where it may not go: said by code, tried once, and nothing is sent (F28). */
import { afterAll, beforeAll, expect, test } from '@jest/globals';
import { type RecordingServer, startRecordingServer } from '../support/recording-server.ts';
import { factsOf, refusalOf, transcript } from '../support/run-record.ts';
import { decisionOn, requestFor, startWorld, type World } from '../support/world.ts';

const END = { text: 'done' };
const HIDDEN = 'https://10.0.0.1/mcp';

let world: World;
let bank: RecordingServer;

beforeAll(async () => {
  bank = await startRecordingServer();
  world = await startWorld({
    config: {
      servers: { bank: { url: bank.url, credentials: { kind: 'none' } } },
      models: { stolen: { provider: 'openai-compatible', model: 'm', baseUrl: 'https://169.254.169.254/v1' } },
      // Listed, as an operator might who does not know where the name leads: an address stands for that here.
      egress: { runServers: [new URL(HIDDEN).origin] },
    },
  });
});
afterAll(async () => {
  await world.stop();
  await bank.close();
});

/** Which activities of a run were started, each with its number of attempts. */
async function attempts(runId: string): Promise<readonly (readonly [string, number])[]> {
  const { events } = await world.client.workflow.getHandle(runId).fetchHistory();
  const names = new Map(
    (events ?? []).map(({ eventId, activityTaskScheduledEventAttributes: scheduled }) => [
      String(eventId),
      scheduled?.activityType?.name ?? '',
    ]),
  );
  return (events ?? []).flatMap(({ activityTaskStartedEventAttributes: started }) =>
    started === null || started === undefined
      ? []
      : [[names.get(String(started.scheduledEventId)) ?? '', started.attempt ?? 0] as const],
  );
}

test('a server of the run’s own in a private network: the run ends with the code, after one attempt', async () => {
  const run = await world.start([END], { servers: [{ name: 'hidden', url: HIDDEN }] });
  expect(await refusalOf(run.result())).toMatchObject({
    code: 'EGRESS_FORBIDDEN',
    message: expect.stringMatching(/^Server "hidden" was not contacted: 10\.0\.0\.1 is a private address/),
  });
  expect(await attempts(run.runId)).toContainEqual(['discoverTools', 1]);
});

test('a model at a metadata service: the same', async () => {
  const run = await world.start([END], { agent: { name: 'clerk', model: 'stolen' }, servers: [] });
  expect(await refusalOf(run.result())).toMatchObject({ code: 'EGRESS_FORBIDDEN' });
  expect(await attempts(run.runId)).toContainEqual(['modelStep', 1]);
});

test('a call that was approved, on a worker that may not go there any more: it fails, unsent, and the model reads why', async () => {
  const run = await world.start([{ calls: [{ tool: 'bank/pay', arguments: { purpose: 'moved' } }] }, END]);
  const request = await requestFor(run, 't1.c0');
  const { egress } = world.config;
  egress.allowLoopback = false;
  await world.restartWorkers();
  await run.decide(decisionOn(request, 'ann'));
  expect(await run.result()).toMatchObject({ status: 'completed', output: 'done' });
  egress.allowLoopback = true;
  await world.restartWorkers();
  expect(bank.callsFor('moved')).toEqual([]);
  expect(factsOf(await run.ledger(), 'outcome')).toMatchObject([
    { callId: 't1.c0', outcome: 'failed', code: 'EGRESS_FORBIDDEN' },
  ]);
  expect(JSON.stringify(await transcript(world, run))).toContain('egress.allowLoopback');
  expect((await attempts(run.runId)).filter(([name]) => name === 'callTool')).toEqual([['callTool', 1]]);
});
