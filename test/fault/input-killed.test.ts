/**
 * Workers are killed (SIGKILL) between the rounds of a call whose server asks people, and in the middle of a round (F1,
 * F2, INV-X1, INV-D3): nothing is executed twice, nobody is asked the same again; the server's state, which it echoes,
 * stands nowhere (INV-S1).
 */
import { randomBytes } from 'node:crypto';
import { beforeAll, expect, jest, test } from '@jest/globals';
import type { RunHandle } from '../../client/index.ts';
import type { ApprovalRequest } from '../../contracts/schemas/request.ts';
import { CanaryScanner } from '../support/canary/scan.ts';
import { describedPieces, type Piece, piecesOfRun, storedPieces } from '../support/canary/stores.ts';
import { startFaultWorld } from '../support/faults/world.ts';
import { answerTo, question } from '../support/scenes/input.ts';
import { lostCall, resolutionOf } from '../support/scenes/lost-answers.ts';
import { type CallExchange, startRawServer } from '../support/servers/raw-server.ts';
import { zoneKey } from '../support/signing/keys.ts';
import { until } from '../support/until.ts';
import { factsOf, replayOwn, results } from '../support/world/run-record.ts';
import type { WorkerProcess } from '../support/world/worker-process.ts';
import { during } from '../support/world/during.ts';

/** Longer than the heartbeat timeout of a call, on a busy machine. */
const LONG_MS = 240_000;
jest.setTimeout(LONG_MS);
const NAMES = ['between', 'unacted', 'acted'] as const;
type Name = (typeof NAMES)[number];
const STATE = `state-${randomBytes(30).toString('hex')}`;
const SCHEMA = { type: 'object', properties: { name: { type: 'string', minLength: 2 } }, required: ['name'] };

const workers: WorkerProcess[] = [];
const held: CallExchange[] = [];
const executed: Name[] = [];
const answers: unknown[] = [];
let isArmed = true;
let seenMidway: readonly Piece[] = [];
// Sound: filled before the first test.
const runs = {} as Record<Name, RunHandle>;
// Sound: as above.
const questions = {} as Record<Name, ApprovalRequest>;

function onCall(exchange: CallExchange): void {
  const { requestState, inputResponses, arguments: args } = exchange.params;
  // Sound: the models of these runs say which they are.
  const { name } = args as { name: Name };
  if (requestState === undefined) {
    const params = { message: `For whom? (${STATE})`, requestedSchema: SCHEMA };
    const inputRequests = { who: { method: 'elicitation/create', params } };
    return exchange.result({ resultType: 'input_required', inputRequests, requestState: STATE });
  }
  answers.push(inputResponses);
  const act = (): void => {
    executed.push(name);
    exchange.execute();
  };
  if (isArmed && name === 'unacted') return void held.push(exchange);
  act();
  if (isArmed && name === 'acted') return void held.push(exchange);
  return exchange.result({
    content: [{ type: 'text', text: `done with ${STATE}, ${String(requestState === STATE)}` }],
  });
}

async function startWorkers(): Promise<readonly [WorkerProcess, WorkerProcess]> {
  const both = await Promise.all([world.startWorker({ role: 'runs' }), world.startWorker({ role: 'tools' })]);
  workers.push(...both);
  return both;
}

const answered = async (name: Name) =>
  await runs[name].provideInput(answerTo(questions[name], { who: { action: 'accept', content: { name: 'Ben' } } }));

const server = during(() =>
  startRawServer({
    era: 'modern',
    pages: [[{ name: 'book', inputSchema: { type: 'object' } }]],
    onCall,
  }),
);
const world = during(async () => {
  const zone = await zoneKey();
  const stepsOf = (name: Name) => ({
    provider: 'scripted' as const,
    script: { steps: [{ calls: [{ tool: 'desk/book', arguments: { name } }] }, { text: 'Done.' }] },
  });
  return await startFaultWorld({
    files: { 'zone.pem': zone.pem },
    config: {
      servers: { desk: { url: server.url, taskQueue: 'zone', credentials: { kind: 'none' } } },
      policy: { approvers: { ids: ['ann'] }, strategy: 'never' },
      grants: { keys: [{ kid: zone.kid, privateKeyFile: 'zone.pem' }] },
      models: { between: stepsOf('between'), unacted: stepsOf('unacted'), acted: stepsOf('acted') },
    },
  });
});
beforeAll(async () => {
  const [runsSide, toolsSide] = await startWorkers();
  for (const name of NAMES) runs[name] = await world.start(name);
  for (const name of NAMES) questions[name] = await question(runs[name]);
  await toolsSide.kill();
  // Taken, recorded, and nobody is there who could send the next leg.
  await answered('between');
  await until(
    async () => {
      const { raw } = await world.client.workflow.getHandle(runs.between.runId).describe();
      return raw.pendingActivities?.length === 1;
    },
    { what: 'the next leg to be waiting' },
  );
  await runsSide.kill();
  const second = await startWorkers();
  await Promise.all([answered('unacted'), answered('acted')]);
  await until(() => held.length === 2, { what: 'two legs under way', withinMs: 60_000 });
  seenMidway = (await Promise.all(NAMES.map(async (name) => await describedPieces(world, runs[name].runId)))).flat();
  await Promise.all(second.map(async (worker) => await worker.kill()));
  isArmed = false;
  await startWorkers();
});

async function askedOnce(name: Name): Promise<void> {
  const ledger = await runs[name].ledger();
  expect(factsOf(ledger, 'request.opened').filter(({ about }) => about?.kind === 'input')).toHaveLength(1);
  expect(factsOf(ledger, 'input.provided')).toHaveLength(1);
}

test('killed between an answered round and its next leg: the leg is sent once, with the answer, and nobody is asked anything', async () => {
  expect(await runs.between.result()).toMatchObject({ status: 'completed' });
  expect(executed.filter((name) => name === 'between')).toEqual(['between']);
  expect(factsOf(await runs.between.ledger(), 'request.opened')).toHaveLength(1);
  await askedOnce('between');
});

test('killed in a leg that the server had not acted on: sent again by somebody’s word, with the answer that was given', async () => {
  const request = await lostCall(runs.unacted, 't1.c0', 1, LONG_MS);
  expect(executed).not.toContain('unacted');
  await runs.unacted.resolveOutcome(resolutionOf(request, 'ann', { kind: 'retry' }));
  expect(await runs.unacted.result()).toMatchObject({ status: 'completed' });
  expect(executed.filter((name) => name === 'unacted')).toEqual(['unacted']);
  expect(answers.at(-1)).toEqual({ who: { action: 'accept', content: { name: 'Ben' } } });
  await askedOnce('unacted');
});

test('killed in a leg that the server had acted on: not sent again but by somebody’s word, and executed once', async () => {
  const request = await lostCall(runs.acted, 't1.c0', 1, LONG_MS);
  await runs.acted.resolveOutcome(resolutionOf(request, 'ann', { kind: 'succeeded', result: 'It is booked.' }));
  expect(await runs.acted.result()).toMatchObject({ status: 'completed' });
  expect(executed.filter((name) => name === 'acted')).toEqual(['acted']);
  expect((await results(world, runs.acted))[0]?.outcome).toMatchObject({ kind: 'succeeded', recordedBy: 'ann' });
  await askedOnce('acted');
  await replayOwn(world);
});

test('INV-S1: the state of the server stands nowhere, though it was echoed in question and result', async () => {
  const scanner = new CanaryScanner([{ name: 'requestState', value: STATE }]);
  const pieces = [
    ...seenMidway,
    ...(await Promise.all(NAMES.map(async (name) => await piecesOfRun(world, runs[name].runId)))).flat(),
    ...(await storedPieces(world)),
    ...workers.map((worker) => ({ store: 'logs', place: `worker ${worker.pid}`, content: worker.output() }) as const),
  ];
  expect(pieces.flatMap(({ store, place, content }) => scanner.scan(`${store} ${place}`, content))).toEqual([]);
  // Control: it was given out, came back, and what stood beside it in the same texts is there.
  expect(JSON.stringify(server.seen.map(({ params }) => params['requestState']))).toContain(STATE);
  const beside = new CanaryScanner([{ name: 'question', value: 'For whom? (' }]);
  expect(pieces.some(({ place, content }) => beside.scan(place, content).length > 0)).toBe(true);
});
