/** The gateway's copy is what runs say of themselves, whatever has happened and whoever did it; several need not know of each other. */
import { afterAll, beforeAll, expect, test } from '@jest/globals';
import type { RunHandle } from '../../client/index.ts';
import { RequestPage, type RequestRow } from '../../contracts/schemas/http-api.ts';
import type { Gateway } from '../../gateway/gateway.ts';
import { callerOf, startTestGateway, startTestProvider, type TestProvider } from '../support/scenes/gateway-world.ts';
import { until } from '../support/until.ts';
import { startBank } from '../support/world/bank-world.ts';
import { answerOf, decisionOn, openRequests, rolled, type World } from '../support/world/world.ts';

let provider: TestProvider;
let world: World;
let gateways: readonly Gateway[];
let token: string;

beforeAll(async () => {
  provider = await startTestProvider();
  const approvers = { ids: ['ben', 'cid'], groups: ['ops'], need: 2 };
  ({ world } = await startBank({ policy: { approvers } }, { beside: [provider] }));
  const config = { may: { read: { ids: ['rea'] } } };
  gateways = [await startTestGateway(world, provider, { config }), await startTestGateway(world, provider, { config })];
  token = await provider.token({ sub: 'rea' });
});
afterAll(async () => {
  await Promise.all(gateways.map(async (gateway) => await gateway.stop()));
  await world.stop();
});

/** Reads the whole list in pages of three. */
async function listed(gateway: Gateway, asker = token): Promise<readonly RequestRow[]> {
  const caller = callerOf(gateway, asker);
  const rows: RequestRow[] = [];
  for (let cursor = ''; ;) {
    const { body } = await caller('GET', `/v1/requests?most=3${cursor}`);
    const page = RequestPage.parse(body);
    rows.push(...page.requests);
    if (page.next === undefined) return rows;
    cursor = `&cursor=${page.next}`;
  }
}

const keyOf = ({ run, callId, digest, deadline, agreed }: RequestRow): string =>
  JSON.stringify([deadline, run, callId, digest, agreed]);

async function told(runs: readonly RunHandle[]): Promise<readonly string[]> {
  const all = await Promise.all(
    runs.map(async (run) =>
      (await run.requests())
        .filter(({ status }) => status === 'open')
        .map(({ callId, digest, deadline, votes = [] }) =>
          JSON.stringify([deadline, run.runId, callId, digest, votes.map(({ approver }) => approver.id)]),
        ),
    ),
  );
  return all.flat().toSorted();
}

/** A generator of its own seed, so that a failure can be repeated. */
function dice(seed: number): (most: number) => number {
  let at = seed;
  return (most) => {
    at = (at * 1_103_515_245 + 12_345) % 2_147_483_648;
    return Math.floor((at / 2_147_483_648) * most);
  };
}

test('after votes, decisions, messages, stops and new executions, every list equals what the runs say', async () => {
  const roll = dice(7);
  const runs: RunHandle[] = [];
  const start = async (): Promise<void> => {
    const calls = Array.from({ length: 1 + roll(7) }, (_, index) => ({
      tool: 'bank/pay',
      arguments: { purpose: 'random', index },
    }));
    const run = await world.start([{ calls }, { text: 'done' }]);
    await openRequests(run, calls.length);
    runs.push(run);
  };
  for (let index = 0; index < 5; index += 1) await start();
  for (let step = 0; step < 40; step += 1) {
    const run = runs[roll(runs.length)];
    if (run === undefined) continue;
    const open = (await run.requests()).filter(({ status }) => status === 'open');
    const request = open[roll(Math.max(1, open.length))];
    const what = roll(10);
    if (what === 0) await start();
    else if (request === undefined) continue;
    else if (what === 1) await run.stop({ by: 'ann', reason: 'enough' }).catch(() => undefined);
    else if (what === 2) await rolled(world, run.runId);
    else if (what === 3) await run.decide(decisionOn(request, 'ben', 'reject')).catch(() => undefined);
    else if (what === 4) await run.decide(answerOf(request, 'ben', { kind: 'withdraw' })).catch(() => undefined);
    else await run.decide(decisionOn(request, roll(2) === 0 ? 'ben' : 'cid')).catch(() => undefined);
    if (step % 10 === 9) await bothAgree(runs);
  }
  await bothAgree(runs);
  for (const run of runs) await run.stop({ by: 'ann', reason: 'seen' }).catch(() => undefined);
  await Promise.all(runs.map(async (run) => await run.result()));
  await bothAgree(runs);
});

async function bothAgree(runs: readonly RunHandle[]): Promise<void> {
  for (const gateway of gateways) {
    let last: unknown;
    await until(
      async () => {
        const wanted = await told(runs);
        const rows = await listed(gateway);
        const found = rows.map(keyOf);
        last = { wanted: wanted.length, found: found.length };
        // First deadline first, and no row twice.
        expect(found).toEqual([...new Set(found)].toSorted());
        return JSON.stringify(found) === JSON.stringify(wanted);
      },
      { what: 'a list that equals what the runs say', instead: () => Promise.resolve(last) },
    );
  }
}

test('what is offered is what is taken: a second vote of one person is offered by no gateway', async () => {
  const run = await world.start([{ calls: [{ tool: 'bank/pay', arguments: { purpose: 'vote' } }] }, { text: 'done' }]);
  await openRequests(run);
  const [first, second] = gateways;
  if (first === undefined || second === undefined) throw new Error('there are two');
  const ben = await provider.token({ sub: 'ben' });
  const path = `/v1/runs/${run.runId}/requests/t1.c0`;
  const offersAt = async (gateway: Gateway): Promise<readonly string[]> =>
    (await listed(gateway, ben)).find((row) => row.run === run.runId)?.offers ?? [];
  await until(async () => (await offersAt(first)).length > 0 && (await offersAt(second)).length > 0);
  const { body } = await callerOf(first, ben)<{ request: { digest: string } }>('GET', path);
  const { digest } = body.request;
  const vote = { kind: 'approve', digest };
  expect(await callerOf(first, ben)('POST', `${path}/decisions`, vote)).toMatchObject({
    status: 200,
    body: { status: 'counted' },
  });
  expect(await offersAt(first)).toEqual(['reject', 'withdraw']);
  await until(async () => (await offersAt(second)).includes('withdraw'));
  expect(await offersAt(second)).toEqual(['reject', 'withdraw']);
  await run.stop({ by: 'ann', reason: 'seen' });
  await run.result();
});

test('an expired request is refused with 410, and no list offers it', async () => {
  const policy = { deadlineSeconds: 2 };
  const run = await world.start([{ calls: [{ tool: 'bank/pay', arguments: { purpose: 'late' } }] }, { text: 'done' }], {
    policy,
  });
  const [request] = await openRequests(run);
  await run.result();
  const [gateway] = gateways;
  if (gateway === undefined) throw new Error('there are two');
  const ben = await provider.token({ sub: 'ben' });
  const said = { kind: 'approve', digest: request.digest, runId: request.runId };
  const answer = await callerOf(gateway, ben)('POST', `/v1/runs/${run.runId}/requests/t1.c0/decisions`, said);
  expect(answer.status).toBe(410);
  expect((await listed(gateway)).filter((row) => row.run === run.runId)).toEqual([]);
});
