/** A run that is spoken to without a pause still continues as new in time, and still ends (INV-D3, F36). */
import { expect, test } from '@jest/globals';
import { assertIntact } from '../../client/index.ts';
import { executions, factsOf, recordedLedger } from '../support/world/run-record.ts';
import { until } from '../support/until.ts';
import { useBank } from '../support/world/bank-world.ts';
import { decisionOn, openRequests, useEngine } from '../support/world/world.ts';

/** Temporal takes two thousand by default, and says at nine tenths that another execution should follow. */
const MOST_UPDATES = 400;
const SENDERS = 4;
const SENT_BY_EACH = MOST_UPDATES / SENDERS + 26;

const engine = useEngine({ dynamicConfig: [`history.maxTotalUpdates=${MOST_UPDATES}`] });
const { bank, world } = useBank({}, { engine });

async function asking(purpose: string) {
  const run = await world.start([{ calls: [{ tool: 'bank/pay', arguments: { purpose } }] }, { text: 'done' }]);
  const [request] = await openRequests(run);
  return { run, request };
}

/** Temporal refuses what is more. */
test('more updates than one execution takes are all answered while a request waits, and the decision still counts', async () => {
  const { run, request } = await asking('asked');
  const say = async (n: number) => await run.say({ messageId: `m${n}`, text: '?', from: 'ann' });
  const sender = async (number: number) => {
    for (let n = 0; n < SENT_BY_EACH; n += 1) await (n % 2 === 0 ? run.advance() : say(1_000 * number + n));
  };
  await Promise.all(Array.from({ length: SENDERS }, (_, number) => sender(number)));
  expect((await run.state()).runId).not.toBe(request.runId);
  await run.decide(decisionOn(request, 'ann'));
  expect(await run.result()).toMatchObject({ status: 'completed', output: 'done' });
  expect(bank.callsFor('asked')).toHaveLength(1);
  const ledger = await run.ledger();
  assertIntact(ledger, run.runId);
  expect(factsOf(ledger, 'said')).toHaveLength((SENDERS * SENT_BY_EACH) / 2);
  expect((await executions(world, run.runId)).length).toBeGreaterThan(1);
}, 300_000);

test('a flood of refused decisions by signal keeps a run neither from ending nor from having a last word', async () => {
  const { run, request } = await asking('flooded');
  const handle = world.client.workflow.getHandle(run.runId);
  const over = new AbortController();
  const flood = Array.from({ length: 2 }, async () => {
    while (!over.signal.aborted) await handle.signal('decide', decisionOn(request, 'mallory')).catch(() => undefined);
  });
  const refused = async () => (factsOf(await run.ledger(), 'decision.refused').length > 20 ? true : undefined);
  await until(refused, { what: 'the flood' });
  await run.stop({ by: 'ann', reason: 'enough' });
  const result = await run.result({ deadlineMs: 60_000 });
  over.abort();
  await Promise.all(flood);
  const ledger = await run.ledger();
  expect(ledger.at(-1)?.fact).toMatchObject({ kind: 'run.ended', status: 'stopped' });
  expect(result).toMatchObject({ ledgerLength: ledger.length, ledgerHead: ledger.at(-1)?.hash });
  expect(await recordedLedger(world, run)).toEqual(ledger);
}, 120_000);
