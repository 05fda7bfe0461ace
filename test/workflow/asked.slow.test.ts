/**
 * Who asks a run hears what it is. A watch tells every entry of the ledger, in order, each once, whatever happens to
 * run and workers meanwhile (INV-D2, INV-D3). A worker refuses direct queries only behind the task for which it rebuilt
 * a run (docs/adr/0044).
 */
import { describe, expect, test } from '@jest/globals';
import { assertIntact, Countersign, type LedgerEntry, type RunHandle } from '../../client/index.ts';
import { traitsOf } from '../../contracts/errors.ts';
import { isRefusedQuery } from '../../contracts/failure.ts';
import type { ConfigInput } from '../../contracts/schemas/config.ts';
import { runCommand } from '../support/cli.ts';
import { plainClient } from '../support/engine.ts';
import { answered } from '../support/models/bench.ts';
import { chatDialect } from '../support/models/chat.ts';
import { startModelProvider } from '../support/models/provider.ts';
import { withCode } from '../support/refusal.ts';
import { executions, refusalOf } from '../support/world/run-record.ts';
import { until } from '../support/until.ts';
import { useBank } from '../support/world/bank-world.ts';
import { resetRun } from '../support/world/reset.ts';
import { decideNext, decisionOn, openRequests } from '../support/world/world.ts';
import { during } from '../support/world/during.ts';

const provider = during(() => startModelProvider(chatDialect.schema));
const { world } = useBank(() => {
  const policy: ConfigInput['policy'] = {
    approvers: { ids: ['ann', 'bob'] },
    servers: { bank: { tools: { lookup: 'allow' } } },
  };
  const { model } = chatDialect;
  const models: ConfigInput['models'] = {
    remote: {
      provider: 'openai-compatible',
      model,
      baseUrl: provider.baseUrl,
      maxOutputTokens: 256,
      timeoutSeconds: 60,
    },
  };
  return { policy, models };
});

const LOOKUP = { calls: [{ tool: 'bank/lookup', arguments: {} }] };
const PAY = { calls: [{ tool: 'bank/pay', arguments: {} }] };
const END = { text: 'done' };

type WatchOptions = NonNullable<Parameters<RunHandle['watch']>[0]>;

/** All that a watch tells, until it ends. */
async function told(run: RunHandle, options: WatchOptions = {}): Promise<readonly LedgerEntry[]> {
  const entries: LedgerEntry[] = [];
  for await (const entry of run.watch(options)) entries.push(entry);
  return entries;
}

/** Has continued as new four times, and is over. */
async function rolled(): Promise<{ run: RunHandle; ledger: readonly LedgerEntry[] }> {
  const run = await world.start([{ ...LOOKUP, repeat: 4 }, END], { limits: { turnsPerExecution: 1 } });
  await run.result();
  expect((await executions(world, run.runId)).length).toBeGreaterThan(3);
  const ledger = await run.ledger();
  assertIntact(ledger, run.runId);
  return { run, ledger };
}

test('after continue-as-new it begins at the first entry, or at any other that is asked for', async () => {
  const { run, ledger } = await rolled();
  expect(await told(run)).toEqual(ledger);
  for (const cursor of [1, Math.floor(ledger.length / 2), ledger.length - 1, ledger.length])
    expect(await told(run, { cursor })).toEqual(ledger.slice(cursor));
});

test('`watch --from` does so too', async () => {
  const { run, ledger } = await rolled();
  const { directory, server } = world.engine;
  const watch = async (...more: readonly string[]) => {
    const { out } = await runCommand(['watch', run.runId, '--json', '--address', server.address, ...more], {
      directory,
    });
    // Sound: lines of the ledger's own JSON.
    return out.split('\n').flatMap((line) => (line === '' ? [] : [JSON.parse(line) as LedgerEntry]));
  };
  expect(await watch()).toEqual(ledger);
  expect(await watch('--from', '0')).toEqual(ledger);
  expect(await watch('--from', '3')).toEqual(ledger.slice(3));
});

test('a run that continues as new while it is watched, and one that had before, are told whole', async () => {
  const run = await world.start([{ ...LOOKUP, repeat: 3 }, PAY, { ...LOOKUP, repeat: 3 }, END], {
    limits: { turnsPerExecution: 2 },
  });
  const fromTheStart = told(run);
  const [request] = await openRequests(run);
  const joined = told(run);
  await run.decide(decisionOn(request, 'ann'));
  await run.result();
  const ledger = await run.ledger();
  expect(await fromTheStart).toEqual(ledger);
  expect(await joined).toEqual(ledger);
});

test('without the store it leaves nothing out: it fails, and says from where it needs none', async () => {
  const { run, ledger } = await rolled();
  const poor = new Countersign({ client: world.client }).run(run.runId);
  const refusal = await refusalOf(told(poor));
  expect(refusal).toMatchObject({ code: 'ARTIFACT_MISSING', facts: { runId: run.runId } });
  const from = Number(refusal.facts['from']);
  expect(refusal.message).toContain(`from entry ${from} on`);
  expect(await told(poor, { cursor: from })).toEqual(ledger.slice(from));
  // The command names the folder in which it looked.
  const { exitCode, err } = await runCommand(['watch', run.runId, '--json', '--address', world.engine.server.address], {
    directory: '/nonexistent',
  });
  expect(exitCode).toBe(traitsOf('ARTIFACT_MISSING').exitCode);
  expect(JSON.parse(err)).toMatchObject({
    error: { code: 'ARTIFACT_MISSING', message: expect.stringContaining('/nonexistent'), facts: { from } },
  });
});

test('workers that are away for a while do not end it; the pause is told, with what to do', async () => {
  const run = await world.start([PAY, END]);
  const [request] = await openRequests(run);
  const pauses: string[] = [];
  // In a hurry, so that each of its reads fails soon.
  const hurried = world.hurried(1_000).run(run.runId);
  const watched = told(hurried, { deadlineMs: 120_000, onPause: ({ message }) => void pauses.push(message) });
  await world.workers.stop();
  // Wakes the watch, which then asks nobody.
  await world.client.workflow.getHandle(run.runId).signal('nudge');
  await until(() => pauses.length > 0, { what: 'a pause' });
  await world.restartWorkers();
  await run.decide(decisionOn(request, 'ann'));
  await run.result();
  expect(await watched).toEqual(await run.ledger());
  expect(new Set(pauses).size).toBe(1);
  expect(pauses[0]).toMatch(/worker/i);
  expect(pauses[0]).not.toContain('taken the message');
});

test('at its deadline it ends with the number from which it can go on; the run goes on', async () => {
  const run = await world.start([PAY, END]);
  const [request] = await openRequests(run);
  const seen: LedgerEntry[] = [];
  const watch = async () => {
    for await (const entry of run.watch({ deadlineMs: 5_000 })) seen.push(entry);
  };
  const refusal = await refusalOf(watch());
  expect(refusal).toMatchObject({ code: 'RESULT_UNCERTAIN', facts: { runId: run.runId, cursor: seen.length } });
  expect(refusal.message).not.toContain('taken the message');
  // Whoever waits for the result has sent nothing either.
  expect(await refusalOf(run.result({ deadlineMs: 1 }))).toMatchObject(withCode('RESULT_UNCERTAIN', 'it goes on'));
  await run.decide(decisionOn(request, 'ann'));
  const rest = await told(run, { cursor: Number(refusal.facts['cursor']) });
  expect([...seen, ...rest]).toEqual(await run.ledger());
});

describe('which direct queries a worker refuses in a service where nothing is wrong (docs/adr/0044)', () => {
  /** As Temporal UI asks: alone, and once. @returns names of those that were refused */
  async function refusedOf(run: RunHandle, ...names: readonly string[]): Promise<string[]> {
    const handle = plainClient(world.client).workflow.getHandle(run.runId);
    await until(async () => !(await handle.describe()).raw.pendingWorkflowTask, { what: 'rest' });
    const refused: string[] = [];
    for (const name of names)
      await handle.query(name).catch((error: unknown) => {
        if (!isRefusedQuery(error)) throw error;
        refused.push(name);
      });
    return refused;
  }

  /** No task has failed, in any execution. */
  async function expectNoFailure(run: RunHandle): Promise<void> {
    const failed = (await executions(world, run.runId)).flatMap(({ events }) =>
      events.flatMap(({ workflowTaskFailedEventAttributes: task }) => (task && !task.newRunId ? [task.failure] : [])),
    );
    expect(failed).toEqual([]);
  }

  test('a run in memory: asked, decided, told by signal and update at once, and ended', async () => {
    const run = await world.start([{ calls: [...PAY.calls, ...PAY.calls] }, END]);
    const [request, last] = await openRequests(run, 2);
    expect(await refusedOf(run, 'requests', 'state')).toEqual([]);
    const handle = world.client.workflow.getHandle(run.runId);
    const unfit = { ...decisionOn(request, 'bob'), digest: '0'.repeat(64) };
    await Promise.all([handle.signal('decide', unfit), run.advance(), run.decide(decisionOn(request, 'bob'))]);
    // Only now may the run end: what comes after its end is refused.
    await run.decide(decisionOn(last, 'bob'));
    await run.result();
    expect(await refusedOf(run, 'ledger', 'state')).toEqual([]);
    await expectNoFailure(run);
  });

  test('a run in memory that cancels what it has under way, in the task in which it is told to', async () => {
    provider.enqueue(answered([], 'hang'));
    const run = await world.start([PAY, END], { agent: { name: 'clerk', model: 'remote' } });
    await provider.hanging();
    await run.stop({ by: 'ann', reason: 'no longer wanted', inFlight: 'cancel' });
    expect(await refusedOf(run, 'state')).toEqual([]);
    await run.result();
    expect(await refusedOf(run, 'state')).toEqual([]);
    await expectNoFailure(run);
  });

  test('the first one behind the task for which a worker rebuilt a run, whoever asks; the next is answered, and the library sees neither', async () => {
    const run = await world.start([PAY, END]);
    await openRequests(run);
    await world.restartWorkers();
    await run.advance();
    expect(await refusedOf(run, '__temporal_workflow_metadata', 'requests', 'state')).toEqual([
      '__temporal_workflow_metadata',
    ]);
    await world.restartWorkers();
    await run.advance();
    expect(await run.requests()).toHaveLength(1);
    await run.stop({ by: 'ann', reason: 'seen', inFlight: 'finish' });
    await run.result();
    await expectNoFailure(run);
  });

  test('a run that was reset goes on, and is asked', async () => {
    const run = await world.start([PAY, END]);
    await openRequests(run);
    await resetRun(world.client, { workflowId: run.runId });
    await decideNext(run, 'bob');
    await run.result();
    await expectNoFailure(run);
  });
});
