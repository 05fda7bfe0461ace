/** Calls that servers work on as tasks (MCP 2025-11-25): begun once, asked about by timer, and nobody holds a connection (ADR 0041). */
import { afterEach, describe, expect, test } from '@jest/globals';
import { assertIntact } from '../../client/index.ts';
import { compareWithHistory, readDeeds } from '../../client/ledger/history.ts';
import {
  begunSince,
  digs,
  formsOf,
  keptOf,
  newestOf,
  RECORDED,
  taskOf,
  useTaskScene,
} from '../support/scenes/tasks.ts';
import type { TaskScript } from '../support/servers/task-server.ts';
import { until } from '../support/until.ts';
import { executions, factsOf, outcomes, outcomesAtEnd, transcript } from '../support/world/run-record.ts';

/** Workers are stopped and started, and the run handed over, on a busy machine. */
const LONG_MS = 180_000;

const { server, world } = useTaskScene();
afterEach(() => server.become({}));

const since = () => begunSince(server);
const newest = () => newestOf(server);

describe('a tool that can only be called as a task', () => {
  test(
    'INV-X1 INV-D3: is begun once; another worker, and the next execution, ask about it; no connection stands in between',
    async () => {
      let isDone = false;
      const begun = since();
      server.become({
        get: (task) =>
          isDone
            ? { status: 'completed' }
            : { status: 'working', statusMessage: `shaft ${task.id} of ${task.session}` },
        result: (task) => ({ result: { content: [{ type: 'text', text: `dug by ${task.id} in ${task.session}` }] } }),
      });
      const run = await world.start(digs());
      const shown = await taskOf(run, ({ message }) => message !== undefined);
      expect(shown).toMatchObject({
        callId: 't1.c0',
        server: 'mine',
        tool: 'dig',
        message: 'shaft [redacted] of [redacted]',
      });
      expect((await run.state()).status).toBe('acting');
      await until(() => server.waiting() === 0, { what: 'no connection' });

      await world.restartWorkers();
      const before = (await run.state()).runId;
      await world.client.workflow.getHandle(run.runId).signal('nudge');
      const carried = await until(
        async () => {
          const state = await run.state();
          return state.runId === before ? undefined : state.tasks?.[0];
        },
        { what: 'the task in the next execution' },
      );
      expect(carried).toMatchObject({ callId: 't1.c0', since: shown.since, until: shown.until });
      const { polls } = carried;
      await taskOf(run, (task) => task.polls > polls);

      isDone = true;
      await run.result();
      expect(begun()).toBe(1);
      expect(await outcomes(run)).toEqual({ 't1.c0': 'succeeded' });
      expect(JSON.stringify(await transcript(world, run))).toContain('dug by [redacted] in [redacted]');
      const ledger = await run.ledger();
      assertIntact(ledger, run.runId);
      expect(factsOf(ledger, 'dispatched')).toHaveLength(1);
      expect(factsOf(ledger, 'task.begun')).toMatchObject([{ callId: 't1.c0', attempt: 1 }]);
      // History says the same of its outcome as the ledger.
      const deeds = await readDeeds(world.client, run.runId);
      expect([...deeds.outcomes.keys()]).toEqual(['t1.c0']);
      expect(compareWithHistory({ before: ledger, after: ledger }, deeds)).toEqual([]);
      // The session of the call is that of each question, and is ended with the task.
      const { id, session } = newest();
      const asked = server.asked.filter((each) => each.session === session).map(({ method }) => method);
      expect(asked.filter((method) => method === 'tasks/get').length).toBeGreaterThan(2);
      expect(asked.slice(-2)).toEqual(['tasks/result', 'DELETE']);
      // INV-S1: neither id is anywhere in what Temporal or the ledger keep.
      const kept = `${await keptOf(world, run)}${JSON.stringify(ledger)}`;
      for (const form of [...formsOf(id), ...formsOf(session)]) expect(kept).not.toContain(form);
      // What is there is found in this way.
      expect(formsOf('shaft [redacted] of [redacted]').filter((form) => kept.includes(form))).not.toEqual([]);
      expect(kept).toContain(Buffer.from('"ciphertext"').toString('base64').slice(0, 8));
    },
    LONG_MS,
  );

  test('INV-D2: one question is eleven events of history', async () => {
    server.become({ get: (task) => ({ status: task.polls < 3 ? 'working' : 'completed' }) });
    const run = await world.start(digs());
    await run.result();
    const [execution] = await executions(world, run.runId);
    const events = execution?.events ?? [];
    const polls = events.flatMap(({ eventId, activityTaskScheduledEventAttributes: scheduled }) =>
      scheduled?.activityType?.name === 'pollTask' ? [Number(eventId)] : [],
    );
    expect(polls).toHaveLength(3);
    expect(polls.slice(1).map((at, index) => at - (polls[index] ?? 0))).toEqual([11, 11]);
  });

  test('what the server says of it is told to whoever watches', async () => {
    let isDone = false;
    server.become({
      get: ({ polls }) => ({ status: isDone ? 'completed' : 'working', statusMessage: `shaft ${polls}` }),
    });
    const run = await world.start(digs());
    const heard: (string | undefined)[] = [];
    const onTasks = (news: readonly { readonly message?: string | undefined }[]): void => {
      heard.push(...news.map(({ message }) => message));
      if (heard.length > 1) isDone = true;
    };
    const kinds: string[] = [];
    for await (const { fact } of run.watch({ onTasks })) kinds.push(fact.kind);
    expect(kinds).toContain('task.begun');
    expect(heard[0]).toMatch(/^shaft \d+$/);
    expect(new Set(heard).size).toBe(heard.length);
  });

  test('a server that gives its results in the form of streams, and tasks that are over at once', async () => {
    server.become({ streams: true, begins: { status: 'completed', pollInterval: 0 } });
    const run = await world.start(digs());
    expect(await outcomesAtEnd(run)).toEqual({ 't1.c0': 'succeeded' });
  });
});

describe('what a server may make of a task', () => {
  test.each<readonly [string, TaskScript, string, string, string]>([
    ['fails with a result', { get: () => ({ status: 'failed' }) }, 'failed', 'TOOL_FAILED', 'dug'],
    [
      'fails without one',
      {
        get: () => ({ status: 'failed', statusMessage: 'rock' }),
        result: () => ({ error: { code: -32_603, message: 'too hard' } }),
      },
      'failed',
      'TOOL_FAILED',
      'rock; JSON-RPC error -32603: too hard',
    ],
    ['cancels it', { get: () => ({ status: 'cancelled' }) }, 'unknown', 'OUTCOME_UNKNOWN', 'was cancelled'],
    ['forgets it', { get: () => undefined }, 'unknown', 'OUTCOME_UNKNOWN', 'Task not found: [redacted]'],
    ['gives it no status', { get: () => ({ status: 'dreaming' }) }, 'unknown', 'OUTCOME_UNKNOWN', 'no status'],
    ['asks for input', { get: () => ({ status: 'input_required' }) }, 'unknown', 'OUTCOME_UNKNOWN', 'asks for input'],
    ['begins one without an id', { begins: { taskId: 7 } }, 'unknown', 'OUTCOME_UNKNOWN', 'no id'],
    ['begins one without a status', { begins: { status: 7 } }, 'unknown', 'OUTCOME_UNKNOWN', 'no status'],
  ])('%s', async (_, script, kind, code, text) => {
    const begun = since();
    server.become(script);
    const run = await world.start(digs(), RECORDED);
    await run.result();
    expect(begun()).toBe(1);
    expect(await outcomes(run)).toEqual({ 't1.c0': kind });
    const [outcome] = factsOf(await run.ledger(), 'outcome');
    expect(outcome).toMatchObject({ code });
    const said = JSON.stringify(await transcript(world, run));
    expect(said).toContain(text);
    expect(said).not.toContain(newest().id);
  });

  test('a result that is too large for the model goes to the artifact store, and is whole there', async () => {
    const text = 'gold '.repeat(40_000);
    server.become({ result: () => ({ result: { content: [{ type: 'text', text }] } }) });
    const run = await world.start(digs());
    await run.result();
    const messages = await transcript(world, run);
    const outcome = messages.flatMap((message) => (message.role === 'tool' ? message.results : []))[0]?.outcome;
    const full = outcome?.kind === 'succeeded' ? outcome.result.full : undefined;
    if (full === undefined) throw new Error('the result is not stored');
    expect(Buffer.from(await world.artifacts.get(full)).toString('utf8')).toContain(text);
  });

  test('INV-X1: a server that was restarted knows no session: a person is asked, and nothing is begun again by itself', async () => {
    const begun = since();
    server.become({ get: () => ({ status: 'working' }) });
    const run = await world.start(digs());
    await taskOf(run);
    server.restart();
    const lost = await until(async () => (await run.requests()).find(({ about }) => about?.kind === 'outcome'), {
      what: 'a request about the outcome',
    });
    expect(lost.about).toMatchObject({ kind: 'outcome', attempt: 1, message: expect.stringContaining('session') });
    expect(begun()).toBe(1);
    server.become({});
    const { callId, digest, runId } = lost;
    const approver = { id: 'ann', groups: [] };
    await run.resolveOutcome({ kind: 'retry', decisionId: 'again', callId, digest, runId, approver });
    await run.result();
    // By that person's word, and as a task of its own.
    expect(begun()).toBe(2);
    expect(factsOf(await run.ledger(), 'task.begun').map(({ attempt }) => attempt)).toEqual([1, 2]);
    expect(await outcomes(run)).toEqual({ 't1.c0': 'succeeded' });
  });

  test('a server that is away for a while is asked again; what it has then is the result', async () => {
    let isAway = true;
    let asked = 0;
    server.become({
      intercept: (method, response, request) => {
        if (method !== 'tasks/get' || !isAway) return false;
        asked += 1;
        if (asked % 2 === 0) request.socket.resetAndDestroy();
        else response.writeHead(503).end();
        return true;
      },
    });
    const run = await world.start(digs());
    await taskOf(run, ({ message = '', polls }) => polls > 1 && message.includes('could not be asked'));
    isAway = false;
    expect(await outcomesAtEnd(run)).toEqual({ 't1.c0': 'succeeded' });
  });
});
