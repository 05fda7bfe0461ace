/**
 * Whole runs at the reference server of MCP 2025-11-25, which asks people on the open connection of a call (ADR 0040):
 * on the command line, by the client, and where nobody answers.
 */
import { describe, expect, jest, test } from '@jest/globals';
import { assertIntact, Countersign } from '../../client/index.ts';
import { codedFailureIn } from '../../contracts/failure.ts';
import { UPDATES } from '../../contracts/names.ts';
import type { ConfigInput } from '../../contracts/schemas/config.ts';
import { runCommand } from '../support/cli.ts';
import { answerTo, question } from '../support/scenes/input.ts';
import { startEverythingServer } from '../support/servers/real-servers.ts';
import { person, service } from '../support/signing/people.ts';
import { until } from '../support/until.ts';
import { factsOf, outcomesAtEnd, results } from '../support/world/run-record.ts';
import { useEngine, useWorld, type World } from '../support/world/world.ts';
import { during } from '../support/world/during.ts';

jest.setTimeout(120_000);
const FORM = 'everything/trigger-elicitation-request';
const END = { text: 'done' };
const asks = [{ calls: [{ tool: FORM }] }, END];
const named = (name: string) => ({ question: { action: 'accept', content: { name } } }) as const;

const backend = service('backend');
const ann = person('ann-key', 'ann');

const everything = during(() => startEverythingServer());
const engine = useEngine();
const configOf = (taskQueue: string, ...ids: string[]): ConfigInput => ({
  taskQueue,
  servers: { everything: { url: everything.url, credentials: { kind: 'none' }, elicitation: { holdSeconds: 120 } } },
  policy: { servers: { everything: { default: 'allow' } }, approvers: { ids } },
});
const world = useWorld(() => ({ engine, config: configOf('plain', 'ann', 'bob') }));
const signed = useWorld(() => ({
  engine,
  bundle: world.bundle,
  trusted: [backend, ann],
  client: { signer: backend.signer },
  config: configOf('signed', 'acme|ann'),
}));

async function said(run: Awaited<ReturnType<World['start']>>, at = world): Promise<string> {
  return JSON.stringify(await results(at, run));
}

describe('somebody answers', () => {
  test('on the command line: shown as what waits on an open connection, and the call goes on where it was; executed once', async () => {
    const cli = async (...args: readonly string[]) =>
      await runCommand([...args, '--address', engine.server.address, '--namespace', engine.server.namespace], {
        directory: engine.directory,
      });
    const run = await world.start(asks);
    const asked = await question(run);
    expect(asked).toMatchObject({
      generation: 1,
      approvers: { allOf: [{ ids: ['ann', 'bob'] }] },
      about: { kind: 'input', round: 1, held: true },
    });
    const shown = await cli('requests', run.runId);
    expect(shown.out).toContain('Please provide inputs for the following fields:');
    expect(shown.out).toContain('connection  open: the server waits');
    const words = ['answer', run.runId, 't1.c0', '--as', 'ann', '--set', 'name=Ann'];
    // The server may have asked something else since they looked: nothing is sent, and they are shown what it asks.
    const unread = await cli(...words);
    expect(unread).toMatchObject({ exitCode: 2, err: expect.stringContaining('error USAGE: ') });
    expect(unread.out).toContain('Please provide inputs for the following fields:');
    expect(unread.out).toContain(` --digest ${asked.digest}`);
    expect(await cli(...words, '--digest', asked.digest)).toMatchObject({ exitCode: 0 });
    expect(await run.result()).toMatchObject({ status: 'completed' });
    expect(await said(run)).toContain('Ann');
    const ledger = await run.ledger();
    assertIntact(ledger, run.runId);
    expect(factsOf(ledger, 'dispatched')).toHaveLength(1);
    expect(factsOf(ledger, 'input.provided')).toMatchObject([{ answer: 'provide', approver: { id: 'ann' } }]);
    expect(await cli('verify-ledger', run.runId)).toMatchObject({ exitCode: 0 });
  });

  test('INV-G1, trust mode signed: as they signed it, and the worker that holds the connection has proven it', async () => {
    const run = await signed.start(asks, { initiator: { id: 'acme|ann' } });
    const answer = { ...answerTo(await question(run), named('Ann')), approver: { id: 'acme|ann' } };
    const unsigned = signed.client.workflow
      .getHandle(run.runId)
      .executeUpdate(UPDATES.provideInput, { args: [answer] });
    expect(await unsigned.catch((error: unknown) => codedFailureIn(error)?.code)).toBe('SIGNATURE_MISSING');
    const { client, artifacts, config } = signed;
    const own = new Countersign({ client, artifacts, taskQueue: config.taskQueue, signer: ann.signer });
    await own.run(run.runId).provideInput(answer);
    await run.result();
    expect(await said(run, signed)).toContain('Ann');
  });

  test('with a no: the server hears it, and the call ends as the server likes', async () => {
    const run = await world.start(asks);
    const { responses: _, ...answer } = { responses: {}, ...answerTo(await question(run), {}) };
    await run.provideInput({ ...answer, kind: 'decline' });
    expect(await outcomesAtEnd(run)).toEqual({ 't1.c0': 'succeeded' });
    expect(await said(run)).toContain('User declined');
  });

  test('INV-G3: several calls wait side by side, each for its own answer', async () => {
    const page = { url: 'https://id.example/sign-in', message: 'Sign in.' };
    const calls = [{ tool: FORM }, { tool: 'everything/trigger-url-elicitation', arguments: page }];
    const run = await world.start([{ calls }, END]);
    const both = await until(
      async () => {
        const open = await run.requests();
        return open.length === 2 ? open : undefined;
      },
      { what: 'two questions' },
    );
    const [form, url] = ['t1.c0', 't1.c1'].map((callId) => both.find((each) => each.callId === callId));
    if (form === undefined || url === undefined) throw new Error('one of each');
    // The other way round than they came.
    await run.provideInput(answerTo(url, { question: { action: 'accept' } }));
    await run.provideInput(answerTo(form, named('Ben')));
    expect(await outcomesAtEnd(run)).toEqual({ 't1.c0': 'succeeded', 't1.c1': 'succeeded' });
    expect(await said(run)).toContain('User completed the URL elicitation flow');
  });
});

test('nobody answers: the server hears that nobody does, never a yes, and the call ends as the server likes; a late answer is refused', async () => {
  const run = await world.start(asks, { policy: { deadlineSeconds: 10 } });
  const shown = await question(run);
  expect(await outcomesAtEnd(run)).toEqual({ 't1.c0': 'succeeded' });
  expect(await said(run)).toContain('User cancelled');
  const ledger = await run.ledger();
  expect(factsOf(ledger, 'request.closed')).toMatchObject([{ callId: 't1.c0', status: 'expired' }]);
  expect(factsOf(ledger, 'input.provided')).toEqual([]);
  await expect(run.provideInput(answerTo(shown, named('Late')))).rejects.toMatchObject({ code: expect.any(String) });
});
