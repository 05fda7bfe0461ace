/**
 * What a server asks in the middle of a call: after a reset, on the command line, where nobody answers, and where
 * policy asks others before the call goes on (INV-G1, INV-G2, D-5, F38).
 */
import { describe, expect, test } from '@jest/globals';
import { commandsAt } from '../support/cli.ts';
import { answerTo, approved, named, question, steps, useInputScene } from '../support/scenes/input.ts';
import { factsOf, outcomes, outcomesAtEnd, results } from '../support/world/run-record.ts';
import { until } from '../support/until.ts';
import { resetRun } from '../support/world/reset.ts';
import { decisionOn, openRequests, requestAfter } from '../support/world/world.ts';

const { server, world } = useInputScene();

describe('after a reset', () => {
  test('INV-G2, F38: what was answered before is not given to the server again: it is asked anew, and so are people', async () => {
    const run = await world.start(steps('book'));
    await run.provideInput(answerTo(await question(run), named('Ann')));
    const before = await question(run, 2);
    await resetRun(world.client, { workflowId: run.runId, runId: before.runId });
    const again = await requestAfter(run, before);
    await expect(
      run.provideInput(answerTo(before, { pay: { action: 'accept', content: { card: 'visa' } } })),
    ).rejects.toMatchObject({ code: 'DECISION_STALE_RUN' });
    await run.provideInput(answerTo(again, { pay: { action: 'accept', content: { card: 'visa' } } }));
    // The first answer was given before the reset: the call begins anew, and nothing is executed with it.
    const first = await until(
      async () => {
        const request = await question(run, 1);
        return request.generation > again.generation ? request : undefined;
      },
      { what: 'the first question once more' },
    );
    expect(server.executed).toEqual([]);
    await run.provideInput(answerTo(first, named('Bob')));
    await run.provideInput(answerTo(await question(run, 2), { pay: { action: 'accept', content: { card: 'amex' } } }));
    await run.result();
    expect(server.executed).toEqual(['booked for Bob, {"card":"amex"}']);
  });
});

describe('the command line', () => {
  const cli = async (...args: readonly string[]) => await commandsAt(world.engine)(args);

  test('shows what is asked, refuses what does not fit, answers, and tells the same answer once more', async () => {
    const run = await world.start(steps('book'));
    const { digest } = await question(run);
    const shown = await cli('requests', run.runId);
    expect(shown.out).toContain('For whom?');
    expect(shown.out).toContain('required, text, at least 2 characters');
    const answer = ['answer', run.runId, 't1.c0', '--as', 'ann'];
    const short = await cli(...answer, '--digest', digest, '--set', 'name=A');
    expect(short).toMatchObject({ exitCode: 2, err: expect.stringContaining('name must have at least 2 characters') });
    const none = await cli(...answer, '--digest', digest);
    expect(none).toMatchObject({ exitCode: 2, err: expect.stringContaining('Nothing was sent.') });
    const unread = await cli(...answer, '--set', 'name=Ann', '--json');
    expect(unread).toMatchObject({ exitCode: 2, err: expect.stringContaining('"USAGE"') });
    expect(JSON.parse(unread.out)).toMatchObject({ requests: [{ digest, about: { round: 1 } }] });
    const said = [...answer, '--digest', digest, '--set', 'name=Ann', '--decision-id', 'cli-1', '--json'];
    const first = await cli(...said);
    expect(JSON.parse(first.out)).toMatchObject({ answer: 'provide', decidedBy: 'ann', tool: 'book' });
    const second = await question(run, 2);
    const { tool: _, server: __, digest: ___, ...ack } = JSON.parse(first.out) as Record<string, unknown>;
    expect(JSON.parse((await cli(...said)).out)).toEqual(ack);
    // An answer may be personal data: no output has it.
    expect(first.out).not.toContain('Ann');
    const stale = await cli(...answer, '--digest', digest, '--cancel');
    expect(stale).toMatchObject({ exitCode: 5, err: expect.stringContaining('DIGEST_MISMATCH') });
    const declined = await cli(...answer, '--digest', second.digest, '--cancel');
    expect(declined).toMatchObject({ exitCode: 0, out: expect.stringContaining('cancelled') });
    const third = await question(run, 3);
    expect((await cli('answer', run.runId, 't9.c0', '--as', 'ann', '--decline')).exitCode).toBe(5);
    expect(
      (await cli('answer', run.runId, 't1.c0', '--as', 'ann', '--decline', '--digest', '0'.repeat(64))).exitCode,
    ).toBe(5);
    await run.stop({ by: 'ann', reason: `seen ${third.callId}` });
    await run.result();
    expect((await cli('ledger', run.runId)).out).toContain('input.provided');
    // History has the messages that the ledger speaks of, and the other way round.
    expect(await cli('verify-ledger', run.runId)).toMatchObject({ exitCode: 0 });
  });
});

describe('what nobody answers', () => {
  test('expires at its deadline; the server is told nothing, and nothing is executed', async () => {
    const policy = { servers: { desk: { tools: { visit: { action: 'ask' as const, deadlineSeconds: 10 } } } } };
    const run = await world.start(steps('visit'), { policy });
    await approved(run);
    await run.result();
    expect(await results(world, run)).toMatchObject([{ outcome: { kind: 'expired' } }]);
    expect(server.legs).toHaveLength(1);
    expect(server.executed).toEqual([]);
  });

  test('is cancelled with the run', async () => {
    const run = await world.start(steps('visit'));
    await question(run);
    await run.stop({ by: 'ann', reason: 'enough' });
    expect(await outcomesAtEnd(run)).toEqual({ 't1.c0': 'cancelled' });
    expect(server.executed).toEqual([]);
  });
});

test('INV-G1, D-5: an answer of somebody whom it asks no more is not given to the server: others consent, and are asked', async () => {
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
