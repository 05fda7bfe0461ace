/** A watch tells every entry of the ledger, in order, each once, whatever happens to run and workers meanwhile (INV-D2, INV-D3). */
import { afterAll, beforeAll, expect, test } from '@jest/globals';
import { assertIntact, Countersign, type LedgerEntry, type RunHandle } from '../../client/index.ts';
import { traitsOf } from '../../contracts/errors.ts';
import { runCommand } from '../support/cli.ts';
import { type RecordingServer, startRecordingServer } from '../support/servers/recording-server.ts';
import { executions, refusalOf } from '../support/world/run-record.ts';
import { until } from '../support/until.ts';
import { decisionOn, openRequests, startWorld, type World } from '../support/world/world.ts';

let bank: RecordingServer;
let world: World;

beforeAll(async () => {
  bank = await startRecordingServer();
  const policy = { servers: { bank: { tools: { lookup: 'allow' } } } } as const;
  world = await startWorld({ config: { policy, servers: { bank: { url: bank.url, credentials: { kind: 'none' } } } } });
});
afterAll(async () => {
  await world.stop();
  await bank.close();
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
  if (request === undefined) throw new Error('no request');
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
  if (request === undefined) throw new Error('no request');
  const pauses: string[] = [];
  // In a hurry, so that each of its reads fails soon.
  const hurried = world.hurried(1_000).run(run.runId);
  const watched = told(hurried, { deadlineMs: 120_000, onPause: ({ message }) => void pauses.push(message) });
  await world.workers.stop();
  // Wakes the watch, which then asks nobody.
  await world.client.workflow.getHandle(run.runId).signal('nudge');
  await until(() => (pauses.length > 0 ? true : undefined), { what: 'a pause' });
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
  if (request === undefined) throw new Error('no request');
  const seen: LedgerEntry[] = [];
  const watch = async () => {
    for await (const entry of run.watch({ deadlineMs: 5_000 })) seen.push(entry);
  };
  const refusal = await refusalOf(watch());
  expect(refusal).toMatchObject({ code: 'RESULT_UNCERTAIN', facts: { runId: run.runId, cursor: seen.length } });
  expect(refusal.message).not.toContain('taken the message');
  // Whoever waits for the result has sent nothing either.
  expect(await refusalOf(run.result({ deadlineMs: 1 }))).toMatchObject({
    code: 'RESULT_UNCERTAIN',
    message: expect.stringContaining('it goes on'),
  });
  await run.decide(decisionOn(request, 'ann'));
  const rest = await told(run, { cursor: Number(refusal.facts['cursor']) });
  expect([...seen, ...rest]).toEqual(await run.ledger());
});
