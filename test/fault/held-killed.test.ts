/**
 * A worker is killed (SIGKILL) while a server waits for people on the open connection of a call (F1, F2, INV-X1,
 * INV-D3; ADR 0040): the question ends with the connection of the worker that holds it, the call may have run and is
 * not sent again by itself; the worker of the run is none of the server's business. What the server echoed stands
 * nowhere (INV-S1).
 */
import { randomBytes } from 'node:crypto';
import { afterEach, expect, jest, test } from '@jest/globals';
import type { RunHandle } from '../../client/index.ts';
import type { ApprovalRequest } from '../../contracts/schemas/request.ts';
import { CanaryScanner } from '../support/canary/scan.ts';
import { describedPieces, type Piece, piecesOfRun, storedPieces } from '../support/canary/stores.ts';
import { startFaultWorld } from '../support/faults/world.ts';
import { answerTo, question } from '../support/scenes/input.ts';
import { lostCall, resolutionOf } from '../support/scenes/lost-answers.ts';
import { A_QUESTION, answerAt, end as finish, event } from '../support/servers/asking-server.ts';
import { startRawServer } from '../support/servers/raw-server.ts';
import { factsOf, outcomes, replayOwn } from '../support/world/run-record.ts';
import type { WorkerProcess } from '../support/world/worker-process.ts';
import { during } from '../support/world/during.ts';

/** Longer than the heartbeat timeout of a call, on a busy machine. */
const LONG_MS = 240_000;
jest.setTimeout(LONG_MS);
const SESSION = `session-${randomBytes(30).toString('hex')}`;
const YES = { question: { action: 'accept', content: { sure: true } } } as const;

const workers: WorkerProcess[] = [];
let calls = 0;

async function startWorker(role: 'runs' | 'tools'): Promise<WorkerProcess> {
  const worker = await world.startWorker({ role });
  workers.push(worker);
  return worker;
}

const server = during(() =>
  startRawServer({
    era: 'legacy',
    pages: [[{ name: 'deploy', inputSchema: { type: 'object' } }]],
    onCall: (exchange) => {
      calls += 1;
      const id = `q-${calls}`;
      // The server knows the session, and says it where people read.
      const params = { ...A_QUESTION, message: `Deploy to production? (${SESSION})` };
      exchange.stream(event({ id, method: 'elicitation/create', params }));
      void answerAt(server, id).then(({ result }) => finish(exchange, { result, SESSION }));
    },
    intercept: (_, response, rpcMethod) => {
      if (rpcMethod === 'initialize') response.setHeader('mcp-session-id', SESSION);
      return false;
    },
  }),
);
const script = { steps: [{ calls: [{ tool: 'desk/deploy' }] }, { text: 'Done.' }] };
const world = during(() =>
  startFaultWorld({
    config: {
      servers: {
        desk: {
          url: server.url,
          taskQueue: 'zone',
          credentials: { kind: 'none' },
          elicitation: { holdSeconds: 600 },
        },
      },
      policy: { approvers: { ids: ['ann'] }, strategy: 'never' },
      models: { asked: { provider: 'scripted', script } },
    },
  }),
);

/** A run whose worker of this role was killed while its question was open, with another worker there. */
async function killed(
  role: 'runs' | 'tools',
): Promise<{ readonly run: RunHandle; readonly asked: ApprovalRequest; readonly seen: readonly Piece[] }> {
  const both = { runs: await startWorker('runs'), tools: await startWorker('tools') };
  const run = await world.start('asked');
  const asked = await question(run);
  const seen = await describedPieces(world, run.runId);
  await both[role].kill();
  const next = await startWorker(role);
  ending.push(async () => {
    await Promise.all([both[role === 'runs' ? 'tools' : 'runs'].kill(), next.kill()]);
  });
  return { run, asked, seen };
}

const ending: (() => Promise<void>)[] = [];
afterEach(async () => {
  for (const end of ending.splice(0)) await end();
});

test('the worker of the run: the server waits on, the question is as it was, and the call goes on with its answer; executed once', async () => {
  const before = { calls, executions: server.executions() };
  const { run, asked } = await killed('runs');
  const shown = await question(run);
  expect(shown.digest).toBe(asked.digest);
  await run.provideInput(answerTo(shown, YES));
  expect(await run.result()).toMatchObject({ status: 'completed' });
  expect(calls - before.calls).toBe(1);
  expect(server.executions() - before.executions).toBe(1);
  expect(await outcomes(run)).toEqual({ 't1.c0': 'succeeded' });
  expect(factsOf(await run.ledger(), 'request.opened')).toHaveLength(1);
  await replayOwn(world, run.runId);
});

test('the worker that holds the connection: the question is closed, its late answer is refused, and somebody says what became of the call; sent again, it is asked anew', async () => {
  const before = { calls, executions: server.executions() };
  const { run, asked, seen } = await killed('tools');
  const request = await lostCall(run, 't1.c0', asked.generation + 1, LONG_MS);
  expect(calls - before.calls).toBe(1);
  expect(server.executions() - before.executions).toBe(0);
  expect(factsOf(await run.ledger(), 'request.closed')).toMatchObject([{ callId: 't1.c0', generation: 1 }]);
  await expect(run.provideInput(answerTo(asked, YES))).rejects.toMatchObject({ code: expect.any(String) });
  await run.resolveOutcome(resolutionOf(request, 'ann', { kind: 'retry' }));
  const again = await question(run);
  expect(again.generation).toBeGreaterThan(request.generation);
  expect(calls - before.calls).toBe(2);
  // What was shown first answers nothing now.
  await expect(run.provideInput(answerTo(asked, YES))).rejects.toMatchObject({ code: expect.any(String) });
  await run.provideInput(answerTo(again, YES));
  expect(await run.result()).toMatchObject({ status: 'completed' });
  expect(server.executions() - before.executions).toBe(1);
  expect(await outcomes(run)).toEqual({ 't1.c0': 'succeeded' });
  await replayOwn(world, run.runId);

  const scanner = new CanaryScanner([{ name: 'session', value: SESSION }]);
  const pieces = [
    ...seen,
    ...(await piecesOfRun(world, run.runId)),
    ...(await storedPieces(world)),
    ...workers.map((worker) => ({ store: 'logs', place: `worker ${worker.pid}`, content: worker.output() }) as const),
  ];
  expect(pieces.flatMap(({ store, place, content }) => scanner.scan(`${store} ${place}`, content))).toEqual([]);
  // Control: what stood beside it in the same text is there.
  const beside = new CanaryScanner([{ name: 'question', value: 'Deploy to production? (' }]);
  expect(pieces.some(({ place, content }) => beside.scan(place, content).length > 0)).toBe(true);
});
