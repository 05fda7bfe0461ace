/**
 * Readers that come while a worker lets go of a run are all answered (docs/adr/0063). The SDK loses some of their
 * queries: without the second question, about one run of twelve leaves a reader without an answer until the deadline.
 * So this test may pass by chance where the function is gone; its unit test does not
 * (`test/unit/contracts/refused-query.test.ts`).
 */
import { expect, test } from '@jest/globals';
import { useBank } from '../support/world/bank-world.ts';

const RUNS = 12;
const READERS = 8;

const { world } = useBank({
  policy: { approvers: { ids: ['ann'] }, servers: { bank: { tools: { lookup: 'allow' } } } },
});

test('eight at once, as soon as a run has ended', async () => {
  for (let count = 0; count < RUNS; count += 1) {
    const run = await world.start([{ calls: [{ tool: 'bank/lookup', arguments: {} }], repeat: 3 }, { text: 'done' }], {
      limits: { turnsPerExecution: 2 },
    });
    await run.result();
    const states = await Promise.all(Array.from({ length: READERS }, async () => await run.state()));
    expect(states.map(({ status }) => status)).toEqual(Array.from({ length: READERS }, () => 'completed'));
  }
  // A question that got lost is asked again after 2 s.
}, 180_000);
