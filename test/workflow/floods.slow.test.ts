/**
 * A run under as many messages as Temporal lets in: ten in flight, two thousand in all, right ones, wrong ones and
 * resent ones, over several executions. Every one gets its answer, nothing is lost and nothing happens twice (INV-D3,
 * INV-G2, INV-G3, F35, F36).
 */
import { expect, test } from '@jest/globals';
import { assertIntact, type RunHandle } from '../../client/index.ts';
import type { ApprovalRequest } from '../../contracts/schemas/request.ts';
import { executions, factsOf, outcomes, refusalOf, recordedLedger, transcript } from '../support/world/run-record.ts';
import { until } from '../support/until.ts';
import { useBank } from '../support/world/bank-world.ts';
import { decisionOn } from '../support/world/world.ts';

const IN_FLIGHT = 10;
const TURNS = 10;
const CALLS = 16;
const SAYS = 60;

const { bank, world } = useBank();

/** One message, and whether what came back is right. */
type Sent = () => Promise<void>;

async function requestsOf(run: RunHandle, turn: number): Promise<readonly ApprovalRequest[]> {
  return await until(
    async () => {
      const open = (await run.requests()).filter(
        ({ status, callId }) => status === 'open' && callId.startsWith(`t${turn}.`),
      );
      return open.length === CALLS ? open : undefined;
    },
    { what: `the requests of turn ${turn}` },
  );
}

/** In an order that is as good as any, and the same each time. */
function shuffled<T>(items: readonly T[], seed: number): T[] {
  let state = seed;
  const next = (): number => (state = (state * 48_271) % 2_147_483_647);
  return items
    .map((item) => ({ item, at: next() }))
    .toSorted((one, other) => one.at - other.at)
    .map(({ item }) => item);
}

async function sendAll(messages: readonly Sent[]): Promise<void> {
  const left = [...messages];
  const lane = async (): Promise<void> => {
    for (let send = left.shift(); send !== undefined; send = left.shift()) await send();
  };
  await Promise.all(Array.from({ length: IN_FLIGHT }, lane));
}

test('ten messages in flight and two thousand in all: every answer is right, nothing is lost, and each call runs once or never', async () => {
  const calls = Array.from({ length: CALLS }, (_, n) => ({
    tool: 'bank/pay',
    arguments: { purpose: 'flood', n, turn: '{{turn}}' },
  }));
  const run = await world.start([{ calls, repeat: TURNS }, { text: 'done' }], { limits: { turnsPerExecution: 3 } });
  let sent = 0;
  for (let turn = 1; turn <= TURNS; turn += 1) {
    const requests = await requestsOf(run, turn);
    const decisions = requests.map((request, n) => decisionOn(request, 'ann', n % 4 === 0 ? 'reject' : 'approve'));
    const decide = decisions.slice(1).map((decision): Sent => async () => {
      const status = decision.kind === 'reject' ? 'rejected' : 'approved';
      const ack = await run.decide(decision);
      expect(ack).toMatchObject({ callId: decision.callId, decisionId: decision.decisionId, status });
      // Resent, it gets its first answer.
      expect(await run.decide(decision)).toEqual(ack);
    });
    const strangers = requests.flatMap((request) =>
      ['mallory', 'eve', 'oscar'].map((who): Sent => async () => {
        // Refused for who they are, or because somebody was faster.
        const { code } = await refusalOf(run.decide(decisionOn(request, who)));
        expect(['APPROVER_NOT_ENTITLED', 'ALREADY_DECIDED']).toContain(code);
      }),
    );
    const says = Array.from({ length: SAYS }, (_, n): Sent => async () => {
      const message = { messageId: `m${turn}.${n}`, text: `Message ${n} of turn ${turn}.`, from: 'ann' };
      await run.say(message);
      await run.say(message);
      if (n % 4 === 0)
        expect(await refusalOf(run.say({ ...message, text: 'Another.' }))).toMatchObject({ code: 'MESSAGE_INVALID' });
    });
    // The turn is held open until all of its messages were answered.
    await sendAll(shuffled([...decide, ...strangers, ...says], turn));
    const [last] = decisions;
    if (last !== undefined) await run.decide(last);
    sent += 2 * decide.length + strangers.length + Math.ceil(SAYS * 2.25) + 1;
  }
  expect(sent).toBeGreaterThanOrEqual(2_000);
  expect(await run.result()).toMatchObject({ status: 'completed', output: 'done', calls: TURNS * CALLS });
  expect((await executions(world, run.runId)).length).toBeGreaterThan(2);

  const ledger = await run.ledger();
  assertIntact(ledger, run.runId);
  expect(await recordedLedger(world, run)).toEqual(ledger);
  expect(factsOf(ledger, 'decision.accepted')).toHaveLength(TURNS * CALLS);
  expect(factsOf(ledger, 'said')).toHaveLength(TURNS * SAYS);
  const ended = Object.values(await outcomes(run));
  expect(ended.filter((outcome) => outcome === 'rejected')).toHaveLength((TURNS * CALLS) / 4);
  expect(ended.filter((outcome) => outcome === 'succeeded')).toHaveLength((TURNS * CALLS * 3) / 4);
  expect(bank.callsFor('flood')).toHaveLength((TURNS * CALLS * 3) / 4);
  const heard = (await transcript(world, run)).flatMap((said) => (said.role === 'user' ? [said.text] : []));
  expect(new Set(heard).size).toBe(1 + TURNS * SAYS);
  expect(heard).toHaveLength(1 + TURNS * SAYS);
}, 600_000);
