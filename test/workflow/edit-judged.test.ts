/** What happens to an edit while it is judged (F16, F35, INV-D3, INV-G2). */
import { afterAll, beforeAll, expect, test } from '@jest/globals';
import { CountersignError, type RunHandle } from '../../client/index.ts';
import type { ApprovalRequest, DecisionAck, DecisionInput } from '../../contracts/schemas/request.ts';
import { holdJudge, judging } from '../support/held-judge.ts';
import { type RecordingServer, startRecordingServer } from '../support/recording-server.ts';
import { codeOf, executions, factsOf, outcomes } from '../support/run-record.ts';
import { until } from '../support/until.ts';
import { decisionOn, openRequests, startWorld, type World } from '../support/world.ts';

let bank: RecordingServer;
let world: World;

beforeAll(async () => {
  bank = await startRecordingServer();
  const approvers = { ids: ['ann', 'ben'], may: ['edit' as const] };
  world = await startWorld({
    config: {
      policy: { approvers, servers: { bank: { default: 'ask' } } },
      servers: { bank: { url: bank.url, credentials: { kind: 'none' } } },
    },
  });
});
afterAll(async () => {
  await world.stop();
  await bank.close();
});

async function held(purpose: string) {
  const run = await world.start([
    { calls: [{ tool: 'bank/pay', arguments: { purpose, amount: 1 } }] },
    { text: 'done' },
  ]);
  const [request] = await openRequests(run);
  if (request === undefined) throw new Error('no request');
  const release = await holdJudge(world, run);
  const edit = editOf(request, purpose);
  // An update that nobody waits for yet.
  const answer = answerOf(run.decide(edit));
  await judging(world, run);
  return { run, request, release, edit, answer };
}

/** The status, or the code of the refusal. */
async function answerOf(sent: Promise<DecisionAck>): Promise<string> {
  try {
    return (await sent).status;
  } catch (error) {
    if (error instanceof CountersignError) return error.code;
    throw error;
  }
}

function editOf(request: ApprovalRequest, purpose: string): DecisionInput {
  return Object.assign(decisionOn(request, 'ann'), { arguments: { purpose, amount: 2 } });
}

const amounts = (purpose: string) => bank.callsFor(purpose).map(({ arguments: args }) => args['amount']);

/** Of the edit, however long it took: sent again, it gets its first answer. */
async function settledAs(run: RunHandle, edit: DecisionInput): Promise<string> {
  return await until(
    async () => {
      const code = await answerOf(run.decide(edit));
      return code === 'RESULT_UNCERTAIN' ? undefined : code;
    },
    { what: 'the answer to the edit' },
  );
}

test('a worker that is restarted meanwhile goes on judging, and the edit counts once', async () => {
  const { run, release, edit, answer } = await held('restart');
  await world.restartWorkers();
  await judging(world, run);
  await release();
  expect(['approved', 'RESULT_UNCERTAIN']).toContain(await answer);
  expect(['approved', 'RUN_CLOSED']).toContain(await settledAs(run, edit));
  await run.result();
  expect(amounts('restart')).toEqual([2]);
});

test('INV-G2: a decision that comes meanwhile is first, and the edit is told so', async () => {
  const { run, request, release, answer } = await held('overtaken');
  expect(await run.decide(decisionOn(request, 'ben'))).toMatchObject({ status: 'approved' });
  expect(await run.requests()).toMatchObject([{ status: 'approved', decidedBy: { id: 'ben' } }]);
  await release();
  expect(['ALREADY_DECIDED', 'REQUEST_NOT_OPEN', 'RUN_CLOSED', 'RESULT_UNCERTAIN']).toContain(await answer);
  await run.result();
  expect(amounts('overtaken')).toEqual([1]);
});

test('F35: a run that is nudged meanwhile waits for the verdict before it continues as new, and nothing is lost', async () => {
  const { run, request, release, edit, answer } = await held('nudged');
  await world.client.workflow.getHandle(run.runId).signal('nudge');
  await release();
  expect(['approved', 'RESULT_UNCERTAIN']).toContain(await answer);
  expect(['approved', 'RUN_CLOSED']).toContain(await settledAs(run, edit));
  await run.result();
  expect(amounts('nudged')).toEqual([2]);
  const all = await executions(world, run.runId);
  expect(all.length).toBe(2);
  expect(all.map(({ runId }) => runId)).toContain(request.runId);
});

test('S3.10: a run that is stopped meanwhile answers the editor, and sends nothing', async () => {
  const { run, release, answer } = await held('stopped');
  await run.stop({ by: 'ann', reason: 'enough' });
  expect(await answer).toBe('RUN_CLOSED');
  await release();
  expect(await run.result()).toMatchObject({ status: 'stopped' });
  expect(amounts('stopped')).toEqual([]);
  expect(await outcomes(run)).toEqual({ 't1.c0': 'cancelled' });
});

test('F36: so many edits are judged at once, and the next is refused before it is', async () => {
  const { run, request, release, answer } = await held('flood');
  const handle = world.client.workflow.getHandle(run.runId);
  for (let index = 0; index < 9; index += 1)
    await handle.signal('decide', { ...editOf(request, 'flood'), arguments: { purpose: 'flood', index } });
  await until(
    async () =>
      factsOf(await run.ledger(), 'decision.refused').filter(({ code }) => code === 'LIMIT_REACHED').length === 2
        ? true
        : undefined,
    { what: 'two refusals' },
  );
  expect(await codeOf(run.decide(editOf(request, 'flood')))).toBe('LIMIT_REACHED');
  await release();
  await answer;
  await run.result();
  expect(bank.callsFor('flood')).toHaveLength(1);
});
