/** What a server asked was answered, and before the call goes on policy asks others (INV-G1, D-5). */
import { beforeAll, expect, test } from '@jest/globals';
import { answerTo, named, question, steps, useInputScene } from '../support/scenes/input.ts';
import type { MrtrServer } from '../support/servers/mrtr-server.ts';
import { factsOf, outcomes } from '../support/world/run-record.ts';
import { until } from '../support/until.ts';
import { decisionOn, openRequests, type World } from '../support/world/world.ts';

const scene = useInputScene();
let server: MrtrServer;
let world: World;
beforeAll(() => {
  ({ server, world } = scene());
});

test('an answer of somebody whom it asks no more is not given to the server: others consent, and are asked', async () => {
  const run = await world.start(steps('book'));
  const first = await question(run);
  const before = world.config.policy;
  world.config.policy = { ...before, approvers: { ids: ['bob'], groups: [] } };
  try {
    await run.provideInput(answerTo(first, named('Mallory')));
    const consent = await until(
      async () => (await openRequests(run)).find(({ generation, about }) => generation === 2 && about === undefined),
      { what: 'a request for consent' },
    );
    expect(consent).toMatchObject({
      approvers: { allOf: [{ ids: ['bob'] }] },
      reopenedBecause: expect.stringContaining('VERDICT_STRICTER'),
    });
    await run.decide(decisionOn(consent, 'bob'));
    const again = await until(
      async () => {
        const request = await question(run);
        return request.generation > 2 ? request : undefined;
      },
      { what: 'the question once more' },
    );
    expect(again).toMatchObject({ approvers: { allOf: [{ ids: ['bob'] }] }, about: { round: 1 } });
    // Nothing of what was answered has left: the call began anew, and asked.
    expect(server.legs.map(({ state }) => state)).toEqual([undefined, undefined]);
    await run.provideInput(answerTo(again, named('Bob'), { approver: { id: 'bob' } }));
    const pay = { pay: { action: 'accept', content: { card: 'visa' } } } as const;
    await run.provideInput(answerTo(await question(run, 2), pay, { approver: { id: 'bob' } }));
    await run.result();
  } finally {
    world.config.policy = before;
  }
  expect(await outcomes(run)).toEqual({ 't1.c0': 'succeeded' });
  expect(server.executed).toEqual(['booked for Bob, {"card":"visa"}']);
  expect(factsOf(await run.ledger(), 'decision.accepted')).toHaveLength(1);
});
