/** `agent.output` is enforced: a final answer that does not fit gets one repair turn. */
import { afterAll, beforeAll, expect, test } from '@jest/globals';
import { factsOf, refusalOf, storedLedger, transcript } from '../support/run-record.ts';
import { startWorld, type World } from '../support/world.ts';

let world: World;

beforeAll(async () => {
  world = await startWorld({ config: {} });
});
afterAll(async () => world.stop());

const output = {
  type: 'object',
  properties: { amount: { type: 'number' } },
  required: ['amount'],
  additionalProperties: false,
};
const GOOD = '{"amount": 3}';
const BAD = 'Three, I think.';

/** A run whose model says these things, one a turn. */
async function saying(...texts: readonly string[]) {
  const spec = world.spec(texts.map((text) => ({ text })));
  return await world.start([{ text: '' }], { agent: { ...spec.agent, output } });
}

test('an answer that fits is the result, as JSON', async () => {
  const run = await saying(GOOD);
  expect(await run.result()).toMatchObject({ status: 'completed', output: { amount: 3 }, turns: 1 });
});

test('one that does not fit is sent back once, with what is wrong, and the repaired one counts', async () => {
  const run = await saying('{"amount": "three"}', GOOD);
  expect(await run.result()).toMatchObject({ status: 'completed', output: { amount: 3 }, turns: 2 });
  const messages = await transcript(world, run);
  expect(messages.map(({ role }) => role)).toEqual(['user', 'assistant', 'user', 'assistant']);
  expect(messages[2]).toMatchObject({ text: expect.stringMatching(/does not fit the required JSON Schema.*amount/s) });
});

test('one that does not fit after that ends the run with a code, its ledger stored', async () => {
  const run = await saying(BAD, BAD, GOOD);
  expect(await refusalOf(run.result())).toMatchObject({ code: 'MODEL_OUTPUT_INVALID' });
  expect(await run.state()).toMatchObject({ status: 'failed', turn: 2 });
  const ledger = await run.ledger();
  expect(factsOf(ledger, 'run.ended')).toMatchObject([{ status: 'failed', code: 'MODEL_OUTPUT_INVALID' }]);
  expect(await storedLedger(world, run)).toEqual(ledger);
});

test('without a schema any text is the result', async () => {
  const run = await world.start([{ text: BAD }]);
  expect(await run.result()).toMatchObject({ output: BAD });
});
