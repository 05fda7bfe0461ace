/** What a server asks in the middle of a call: people answer, whenever they do, whichever worker is there (INV-D3). */
import { describe, expect, test } from '@jest/globals';
import { assertIntact } from '../../client/index.ts';
import { withCode } from '../support/refusal.ts';
import { answerTo, approved, named, question, steps, useInputScene, yes } from '../support/scenes/input.ts';
import { until } from '../support/until.ts';
import { executions, factsOf, outcomes, outcomesAtEnd } from '../support/world/run-record.ts';
import { decisionOn, openRequests } from '../support/world/world.ts';

const { server, world } = useInputScene();

describe('a call that a person approved', () => {
  test('INV-D3: is asked of people in the middle, and goes on with the answer on another worker: executed once', async () => {
    const run = await world.start(steps('deploy'));
    await approved(run);
    const shown = await question(run);
    expect(shown).toMatchObject({
      generation: 2,
      approvers: { allOf: [{ ids: ['ann', 'bob'] }] },
      about: { kind: 'input', round: 1, requests: { confirm: { kind: 'form', message: 'Deploy to production?' } } },
    });
    await world.restartWorkers();
    const ack = await run.provideInput(answerTo(shown, yes));
    expect(ack).toMatchObject({ answer: 'provide', decidedBy: 'ann' });
    await run.result();
    expect(server.executed).toEqual(['deployed, sure: true']);
    expect(await outcomes(run)).toEqual({ 't1.c0': 'succeeded' });
    const ledger = await run.ledger();
    assertIntact(ledger, run.runId);
    expect(factsOf(ledger, 'decision.accepted')).toHaveLength(1);
    expect(factsOf(ledger, 'input.provided')).toMatchObject([
      { answer: 'provide', generation: 2, approver: { id: 'ann' }, digest: shown.digest },
    ]);
    expect(factsOf(ledger, 'request.opened').map(({ about }) => about?.kind)).toEqual([undefined, 'input']);
  });

  test('INV-S1: the state is nowhere in history in clear, and the ledger has no answer', async () => {
    const run = await world.start(steps('deploy'));
    await approved(run);
    await run.provideInput(answerTo(await question(run), yes));
    await run.result();
    const [state = ''] = server.states;
    expect(state.length).toBeGreaterThan(40);
    const histories = JSON.stringify(await executions(world, run.runId));
    // Payloads stand in it in base64, whatever the state's place among their bytes.
    const holds = (text: string): boolean =>
      [0, 1, 2].some((offset) => {
        const bytes = Buffer.concat([Buffer.alloc(offset), Buffer.from(text)]);
        return histories.includes(bytes.toString('base64').slice(4, -4));
      });
    expect(holds(state)).toBe(false);
    expect(histories.includes(state)).toBe(false);
    expect(holds('"ciphertext"')).toBe(true);
    expect(JSON.stringify(await run.ledger())).not.toContain('sure');
  });

  test('a decision is no answer, an answer is no decision: each is refused by the name of the other', async () => {
    const run = await world.start(steps('deploy'));
    const [asked] = await openRequests(run);
    await expect(run.provideInput(answerTo(asked, yes))).rejects.toMatchObject(
      withCode('DECISION_NOT_PERMITTED', 'decide'),
    );
    await run.decide(decisionOn(asked, 'ann'));
    const shown = await question(run);
    await expect(run.decide(decisionOn(shown, 'ann'))).rejects.toMatchObject(
      withCode('DECISION_NOT_PERMITTED', 'provideInput'),
    );
    const { responses: _, ...said } = { responses: {}, ...answerTo(shown, {}) };
    await run.provideInput({ ...said, kind: 'decline' });
    await run.result();
    expect(server.executed).toEqual(['not deployed: decline']);
  });
});

describe('a call that policy allowed', () => {
  test('two rounds: each is asked, and the whole is done once', async () => {
    const run = await world.start(steps('book'));
    const first = await question(run);
    await run.provideInput(answerTo(first, named('Ann')));
    const second = await question(run, 2);
    expect(second.generation).toBe(2);
    await run.provideInput(answerTo(second, { pay: { action: 'accept', content: { card: 'visa' } } }));
    await run.result();
    expect(server.executed).toEqual(['booked for Ann, {"card":"visa"}']);
    expect(server.legs).toHaveLength(3);
  });

  test('a state that is too old: the call begins anew, and nobody is asked the same again', async () => {
    const run = await world.start(steps('book'));
    await run.provideInput(answerTo(await question(run), named('Ann')));
    const second = await question(run, 2);
    server.expireStates();
    await run.provideInput(answerTo(second, { pay: { action: 'accept', content: { card: 'visa' } } }));
    await run.result();
    expect(server.executed).toEqual(['booked for Ann, {"card":"visa"}']);
    expect(factsOf(await run.ledger(), 'input.provided')).toHaveLength(2);
  });

  test('a state that is too old, and a question that changed: only that is asked again', async () => {
    const run = await world.start(steps('book'));
    await run.provideInput(answerTo(await question(run), named('Ann')));
    const second = await question(run, 2);
    server.expireStates();
    server.changeQuestions();
    await run.provideInput(answerTo(second, { pay: { action: 'accept', content: { card: 'visa' } } }));
    const third = await question(run, 3);
    expect(third.about).toMatchObject({ requests: { pay: { fields: { account: { type: 'text' } } } } });
    await run.provideInput(answerTo(third, { pay: { action: 'accept', content: { account: 'DE1' } } }));
    await run.result();
    expect(server.executed).toEqual(['booked for Ann, {"account":"DE1"}']);
  });

  test('INV-D3: it waits through continue-as-new, and what was answered before goes with it', async () => {
    const run = await world.start(steps('book'));
    await run.provideInput(answerTo(await question(run), named('Ann')));
    const before = await question(run, 2);
    await world.client.workflow.getHandle(run.runId).signal('nudge');
    const second = await until(
      async () => {
        const request = await question(run, 2);
        return request.runId === before.runId ? undefined : request;
      },
      { what: 'the question in the next execution' },
    );
    expect(second.digest).not.toBe(before.digest);
    server.expireStates();
    await run.provideInput(answerTo(second, { pay: { action: 'accept', content: { card: 'amex' } } }));
    await run.result();
    expect(server.executed).toEqual(['booked for Ann, {"card":"amex"}']);
  });

  test('a server that asks without end is stopped asking', async () => {
    const run = await world.start(steps('stubborn'));
    for (let round = 1; round <= 10; round += 1)
      await run.provideInput(answerTo(await question(run, round), { more: { action: 'accept', content: {} } }));
    // It has never said whether anything was done: somebody is asked what became of the call.
    const lost = await until(async () => (await run.requests()).find(({ about }) => about?.kind === 'outcome'), {
      what: 'a request about the outcome',
    });
    const { callId, digest, runId } = lost;
    const approver = { id: 'ann', groups: [] };
    await run.resolveOutcome({
      kind: 'failed',
      message: 'Nothing.',
      decisionId: 'end',
      callId,
      digest,
      runId,
      approver,
    });
    expect(await outcomesAtEnd(run)).toEqual({ 't1.c0': 'failed' });
    expect(server.legs).toHaveLength(11);
  });
});

describe('who may not, and what does not fit', () => {
  test('INV-G2: is refused by name, changes nothing; the same answer sent again gets its first ack', async () => {
    const run = await world.start(steps('book'));
    const shown = await question(run);
    const right = answerTo(shown, named('Ann'));
    for (const [wrong, code, text] of [
      [answerTo(shown, named('Eve'), { approver: { id: 'eve' } }), 'APPROVER_NOT_ENTITLED', 'eve'],
      [answerTo(shown, named('A')), 'DECISION_INVALID', 'responses.who.content.name must have at least 2 characters'],
      [answerTo(shown, {}), 'DECISION_INVALID', 'responses.who has no answer'],
      [answerTo(shown, { ...named('Ann'), x: { action: 'decline' } }), 'DECISION_INVALID', 'responses.x'],
      [answerTo(shown, named('Ann'), { digest: '0'.repeat(64) }), 'DIGEST_MISMATCH', 't1.c0'],
      [answerTo(shown, named('Ann'), { runId: 'another' }), 'DIGEST_MISMATCH', 't1.c0'],
    ] as const)
      await expect(run.provideInput(wrong)).rejects.toMatchObject(withCode(code, text));
    const ack = await run.provideInput(right);
    expect(await run.provideInput(right)).toEqual(ack);
    await expect(run.provideInput(answerTo(shown, named('Bob')))).rejects.toMatchObject({
      code: expect.stringMatching(/ALREADY_DECIDED|DIGEST_MISMATCH/),
    });
    const second = await question(run, 2);
    await run.provideInput(answerTo(second, { pay: { action: 'accept', content: { card: 'visa' } } }));
    await run.result();
    expect(server.executed).toEqual(['booked for Ann, {"card":"visa"}']);
  });
});
