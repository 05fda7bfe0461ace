/** What a server asks in the middle of a call: people answer, whenever they do, whichever worker is there (issue part 3; INV-D3). */
import { writeFile } from 'node:fs/promises';
import { join } from 'node:path';
import { afterAll, afterEach, beforeAll, beforeEach, describe, expect, test } from '@jest/globals';
import { assertIntact, type RunHandle } from '../../client/index.ts';
import type { InputResponse } from '../../contracts/schemas/input.ts';
import type { ProvisionInput } from '../../contracts/schemas/provision.ts';
import type { ApprovalRequest } from '../../contracts/schemas/request.ts';
import { runCommand } from '../support/cli.ts';
import { startEngine } from '../support/engine.ts';
import { zoneKey } from '../support/keys.ts';
import { type MrtrServer, startMrtrServer } from '../support/mrtr-server.ts';
import { executions, factsOf, outcomes, replayOwn, results } from '../support/run-record.ts';
import { until } from '../support/until.ts';
import { decisionOn, openRequests, startWorld, type World } from '../support/world.ts';

let server: MrtrServer;
let world: World;

beforeAll(async () => {
  server = await startMrtrServer();
  const engine = await startEngine();
  const zone = await zoneKey();
  await writeFile(join(engine.directory, 'zone.pem'), zone.pem);
  const tools = Object.fromEntries(['book', 'visit', 'stubborn'].map((tool) => [tool, 'allow' as const]));
  world = await startWorld({
    engine,
    config: {
      servers: { desk: { url: server.url, credentials: { kind: 'none' } } },
      policy: { servers: { desk: { tools } }, approvers: { ids: ['ann', 'bob'] } },
      grants: { keys: [{ kid: zone.kid, privateKeyFile: 'zone.pem' }] },
    },
  });
});
beforeEach(() => server.reset());
afterEach(async () => {
  await replayOwn(world);
});
afterAll(async () => {
  await world.stop();
  await world.engine.stop();
  await server.close();
});

const END = { text: 'done' };
const steps = (tool: string) => [{ calls: [{ tool: `desk/${tool}`, arguments: { n: 1 } }] }, END];
const yes = { confirm: { action: 'accept', content: { sure: true } } } as const;
const named = (name: string) => ({ who: { action: 'accept', content: { name } } }) as const;

let count = 0;
function answerTo(
  request: ApprovalRequest,
  responses: Record<string, InputResponse>,
  over: Partial<ProvisionInput> = {},
): ProvisionInput {
  count += 1;
  const { callId, digest, runId } = request;
  const answer = {
    kind: 'provide',
    decisionId: `input-${count}`,
    callId,
    digest,
    runId,
    approver: { id: 'ann' },
    responses,
  };
  // Sound: what is put over it is of the same kind, or leaves the answers unread.
  return { ...answer, ...over } as ProvisionInput;
}

/** Waits until the server's question of this round is open. */
async function question(run: RunHandle, round = 1): Promise<ApprovalRequest> {
  return await until(
    async () =>
      (await run.requests()).find(
        ({ status, about }) => status === 'open' && about?.kind === 'input' && about.round === round,
      ),
    { what: `question ${round} of ${run.runId}` },
  );
}

async function approved(run: RunHandle): Promise<void> {
  const [request] = await openRequests(run);
  if (request === undefined) throw new Error('no request');
  await run.decide(decisionOn(request, 'ann'));
}

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
    for (const offset of [0, 1, 2]) {
      const bytes = Buffer.concat([Buffer.alloc(offset), Buffer.from(state)]);
      expect(histories).not.toContain(bytes.toString('base64').slice(4, -4));
    }
    expect(histories).not.toContain(state);
    expect(histories).toContain(Buffer.from('"ciphertext"').toString('base64').slice(0, 8));
    expect(JSON.stringify(await run.ledger())).not.toContain('sure');
  });

  test('a decision is no answer, an answer is no decision: each is refused by the name of the other', async () => {
    const run = await world.start(steps('deploy'));
    const [asked] = await openRequests(run);
    if (asked === undefined) throw new Error('no request');
    await expect(run.provideInput(answerTo(asked, yes))).rejects.toMatchObject({
      code: 'DECISION_NOT_PERMITTED',
      message: expect.stringContaining('decide'),
    });
    await run.decide(decisionOn(asked, 'ann'));
    const shown = await question(run);
    await expect(run.decide(decisionOn(shown, 'ann'))).rejects.toMatchObject({
      code: 'DECISION_NOT_PERMITTED',
      message: expect.stringContaining('provideInput'),
    });
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
    await run.result();
    expect(await outcomes(run)).toEqual({ 't1.c0': 'failed' });
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
      await expect(run.provideInput(wrong)).rejects.toMatchObject({ code, message: expect.stringContaining(text) });
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

describe('after a reset', () => {
  test('INV-G2, F38: what was answered before is not given to the server again: it is asked anew, and so are people', async () => {
    const run = await world.start(steps('book'));
    await run.provideInput(answerTo(await question(run), named('Ann')));
    const before = await question(run, 2);
    const [execution] = await executions(world, run.runId);
    const task = execution?.events.findLast(
      ({ workflowTaskCompletedEventAttributes: completed }) => completed !== undefined && completed !== null,
    );
    await world.client.workflowService.resetWorkflowExecution({
      namespace: world.client.options.namespace,
      workflowExecution: { workflowId: run.runId, runId: before.runId },
      reason: 'test',
      requestId: `reset-${run.runId}`,
      workflowTaskFinishEventId: task?.eventId ?? null,
    });
    const again = await until(
      async () => {
        const request = await question(run, 2);
        return request.runId === before.runId ? undefined : request;
      },
      { what: 'the question in the run that the reset made' },
    );
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
  const cli = async (...args: readonly string[]) =>
    await runCommand(
      [...args, '--address', world.engine.server.address, '--namespace', world.engine.server.namespace],
      { directory: world.engine.directory },
    );

  test('shows what is asked, refuses what does not fit, answers, and tells the same answer once more', async () => {
    const run = await world.start(steps('book'));
    await question(run);
    const shown = await cli('requests', run.runId);
    expect(shown.out).toContain('For whom?');
    expect(shown.out).toContain('required, text, at least 2 characters');
    const short = await cli('answer', run.runId, 't1.c0', '--as', 'ann', '--set', 'name=A');
    expect(short).toMatchObject({ exitCode: 2, err: expect.stringContaining('name must have at least 2 characters') });
    const none = await cli('answer', run.runId, 't1.c0', '--as', 'ann');
    expect(none).toMatchObject({ exitCode: 2, err: expect.stringContaining('Nothing was sent.') });
    const said = ['answer', run.runId, 't1.c0', '--as', 'ann', '--set', 'name=Ann', '--decision-id', 'cli-1', '--json'];
    const first = await cli(...said);
    expect(JSON.parse(first.out)).toMatchObject({ answer: 'provide', decidedBy: 'ann', tool: 'book' });
    await question(run, 2);
    const { tool: _, server: __, digest: ___, ...ack } = JSON.parse(first.out) as Record<string, unknown>;
    expect(JSON.parse((await cli(...said)).out)).toEqual(ack);
    // An answer may be personal data: no output has it.
    expect(first.out).not.toContain('Ann');
    const declined = await cli('answer', run.runId, 't1.c0', '--as', 'ann', '--cancel');
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
    const policy = { servers: { desk: { tools: { visit: { action: 'ask' as const, deadlineSeconds: 3 } } } } };
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
    await run.result();
    expect(await outcomes(run)).toEqual({ 't1.c0': 'cancelled' });
    expect(server.executed).toEqual([]);
  });
});
