/** What ends a call that its server works on as a task, and which calls are none (ADR 0041). */
import { rename } from 'node:fs/promises';
import { join } from 'node:path';
import { afterEach, describe, expect, test } from '@jest/globals';
import { msToTs } from '@temporalio/common/lib/time.js';
import { MARKER } from '../../activities/artifacts/root.ts';
import type { RunHandle } from '../../client/index.ts';
import { executions, factsOf, outcomes, outcomesAtEnd, transcript } from '../support/world/run-record.ts';
import { begunSince, digs, newestOf, RECORDED, taskOf, useTaskScene } from '../support/scenes/tasks.ts';
import type { ServedTask } from '../support/servers/task-server.ts';
import { until } from '../support/until.ts';

const { server, world } = useTaskScene();
afterEach(() => server.become({}));

const since = () => begunSince(server);
const newest = () => newestOf(server);

const endless = { get: () => ({ status: 'working' }) };

describe('what ends a task', () => {
  test('its time: the server is asked to cancel it, and what it did is not known', async () => {
    server.become(endless);
    const run = await world.start(digs('brief'), RECORDED);
    await run.result();
    expect(newest().cancelled).toBe(true);
    expect(await outcomes(run)).toEqual({ 't1.c0': 'unknown' });
    const said = JSON.stringify(await transcript(world, run));
    expect(said).toContain('its time is over');
    expect(said).toContain('says that it is cancelled');
  });

  test('a time to live of the server that is shorter than ours', async () => {
    server.become({ ...endless, begins: { ttl: 2_000, pollInterval: 1e12 } });
    const run = await world.start(digs(), RECORDED);
    expect(await outcomesAtEnd(run)).toEqual({ 't1.c0': 'unknown' });
  });

  test('a stop that cancels what is in flight: tasks/cancel is sent, and the outcome says so', async () => {
    server.become(endless);
    const run = await world.start(digs());
    await taskOf(run, ({ polls }) => polls > 0);
    await run.stop({ by: 'ann', reason: 'enough', inFlight: 'cancel' });
    expect(await run.result()).toMatchObject({ status: 'stopped' });
    expect(newest().cancelled).toBe(true);
    expect(factsOf(await run.ledger(), 'outcome')).toMatchObject([{ outcome: 'unknown', code: 'OUTCOME_UNKNOWN' }]);
  });

  test('a stop that lets calls finish lets a task finish', async () => {
    let isDone = false;
    server.become({ get: () => ({ status: isDone ? 'completed' : 'working' }) });
    const run = await world.start(digs());
    await taskOf(run);
    await run.stop({ by: 'ann', reason: 'enough', inFlight: 'finish' });
    isDone = true;
    expect(await run.result()).toMatchObject({ status: 'stopped' });
    expect(newest().cancelled).toBe(false);
    expect(factsOf(await run.ledger(), 'outcome')).toMatchObject([{ outcome: 'succeeded' }]);
  });

  test('a stop while its result is being read: the result counts, and nobody asks again', async () => {
    let answer: (() => void) | undefined;
    const held = { result: { content: [{ type: 'text', text: 'dug' }] } };
    server.become({
      intercept: (method, response, _request, id) => {
        if (method !== 'tasks/result') return false;
        response.writeHead(200, { 'content-type': 'application/json' });
        answer = () => void response.end(JSON.stringify({ jsonrpc: '2.0', id, ...held }));
        return true;
      },
    });
    const run = await world.start(digs());
    await until(() => answer, { what: 'the result is asked for' });
    const asked = server.asked.length;
    await run.stop({ by: 'ann', reason: 'enough', inFlight: 'cancel' });
    const handle = world.client.workflow.getHandle(run.runId);
    await until(
      async () => {
        const { events } = await handle.fetchHistory();
        return events?.find(({ activityTaskCancelRequestedEventAttributes: wanted }) => wanted);
      },
      { what: 'the question is withdrawn' },
    );
    answer?.();
    expect(await run.result()).toMatchObject({ status: 'stopped' });
    expect(factsOf(await run.ledger(), 'outcome')).toMatchObject([{ outcome: 'succeeded' }]);
    expect(server.asked.slice(asked).map(({ method }) => method)).toEqual(['DELETE']);
  });

  test('a cancellation of the run, where the task had ended: its result counts', async () => {
    let isDone = false;
    server.become({ get: () => ({ status: isDone ? 'completed' : 'working' }), begins: { pollInterval: 300_000 } });
    const run = await world.start(digs());
    await taskOf(run);
    isDone = true;
    await world.client.workflow.getHandle(run.runId).cancel();
    await expect(run.result()).rejects.toMatchObject({ code: 'RUN_CANCELLED' });
    expect(newest().cancelled).toBe(false);
    expect(factsOf(await run.ledger(), 'outcome')).toMatchObject([{ outcome: 'succeeded' }]);
  });

  test("a server that does not let it be cancelled: the run's own time ends it all the same", async () => {
    server.become({ ...endless, cancel: () => undefined });
    const run = await world.start(digs(), { limits: { wallClockSeconds: 12 } });
    expect(await run.result()).toMatchObject({ status: 'limited', because: 'wallClockSeconds' });
    expect(factsOf(await run.ledger(), 'outcome')).toMatchObject([{ outcome: 'unknown' }]);
  });
});

describe('a task of a run that hands over as it ends', () => {
  const nudge = async (run: RunHandle): Promise<void> =>
    await world.client.workflow.getHandle(run.runId).signal('nudge');
  const lookedAt = (task: ServedTask): Promise<true> => {
    const { polls } = task;
    return until(async () => task.polls > polls + 1, { what: 'two more questions' });
  };

  /** Workers find no artifact store meanwhile: whoever wants to hand over waits for it. */
  async function withoutStore(run: RunHandle, act: () => Promise<unknown>): Promise<void> {
    const marker = join(world.engine.directory, world.config.artifacts.directory, MARKER);
    await rename(marker, `${marker}.away`);
    try {
      await nudge(run);
      await until(
        async () => {
          const { raw } = await world.client.workflow.getHandle(run.runId).describe();
          const pending = raw.pendingActivities ?? [];
          return pending.some(
            ({ activityType, attempt }) => activityType?.name === 'storeSegment' && Number(attempt) > 1,
          );
        },
        { what: 'a second try to store' },
      );
      await act();
    } finally {
      await rename(`${marker}.away`, marker);
    }
  }

  test('INV-D3: a stop that lets a task finish lets it finish, though the run should continue as new', async () => {
    let isDone = false;
    server.become({ get: () => ({ status: isDone ? 'completed' : 'working' }) });
    const run = await world.start(digs());
    await taskOf(run);
    await run.stop({ by: 'ann', reason: 'enough', inFlight: 'finish' });
    await nudge(run);
    await lookedAt(newest());
    isDone = true;
    expect(await run.result()).toMatchObject({ status: 'stopped' });
    expect(newest().cancelled).toBe(false);
    expect(factsOf(await run.ledger(), 'outcome')).toMatchObject([{ outcome: 'succeeded' }]);
    expect(await executions(world, run.runId)).toHaveLength(1);
  });

  test.each(['cancel', 'finish'] as const)('INV-D3: a stop (%s) while the run hands over', async (inFlight) => {
    let isDone = false;
    server.become({ get: () => ({ status: isDone ? 'completed' : 'working' }) });
    const run = await world.start(digs());
    await taskOf(run);
    await withoutStore(run, async () => {
      const before = newest().polls;
      await run.stop({ by: 'ann', reason: 'enough', inFlight });
      await until(async () => newest().polls > before, { what: 'another question' });
    });
    isDone = true;
    expect(await run.result()).toMatchObject({ status: 'stopped' });
    expect(newest().cancelled).toBe(inFlight === 'cancel');
    const [outcome] = factsOf(await run.ledger(), 'outcome');
    expect(outcome).toMatchObject({ outcome: inFlight === 'cancel' ? 'unknown' : 'succeeded' });
    const said = JSON.stringify(await transcript(world, run));
    expect(said).toContain(inFlight === 'cancel' ? 'says that it is cancelled' : 'dug');
  });

  test('a cancellation, and the end of its time, while the run hands over: the task is cancelled', async () => {
    server.become(endless);
    const cancelled = await world.start(digs());
    await taskOf(cancelled);
    const first = newest();
    await withoutStore(cancelled, async () => {
      await world.client.workflow.getHandle(cancelled.runId).cancel();
      await until(async () => first.cancelled, { what: 'a task that is cancelled' });
    });
    await expect(cancelled.result()).rejects.toMatchObject({ code: 'RUN_CANCELLED' });
    const limited = await world.start(digs(), { limits: { wallClockSeconds: 15 } });
    await taskOf(limited);
    const second = newest();
    await withoutStore(limited, async () => {
      await until(async () => second.cancelled, { what: 'a task that is cancelled' });
    });
    expect(await limited.result()).toMatchObject({ status: 'limited', because: 'wallClockSeconds' });
  });

  test('a run that fails as it hands over: the task is cancelled, the outcome says so, and what is asked beside it is withdrawn', async () => {
    server.become(endless);
    const policy = { servers: { brief: { tools: { dig: 'ask' as const } } } };
    const calls = [...digs(), ...digs('brief')].flatMap((step) => ('calls' in step ? step.calls : []));
    const run = await world.start([{ calls }, { text: 'done' }], { policy });
    await taskOf(run);
    await until(async () => (await run.requests())[0], { what: 'the request' });
    const { workflowService, options } = world.client;
    await withoutStore(run, async () => {
      // As an operator ends what is tried for ever.
      await workflowService.updateActivityOptions({
        namespace: options.namespace,
        execution: { workflowId: run.runId },
        type: 'storeSegment',
        activityOptions: { scheduleToCloseTimeout: msToTs('1s') },
        updateMask: { paths: ['schedule_to_close_timeout'] },
      });
      await until(async () => newest().cancelled, { what: 'a task that is cancelled' });
    });
    // Its request is open for another day.
    await expect(run.result()).rejects.toMatchObject({ code: 'INTERNAL' });
    const outcomesOf = factsOf(await run.ledger(), 'outcome').map(({ callId, outcome }) => [callId, outcome]);
    expect(Object.fromEntries(outcomesOf)).toEqual({ 't1.c0': 'unknown', 't1.c1': 'cancelled' });
  });

  test('INV-D3: no question is begun where the run should continue as new, so that it comes to do so', async () => {
    let answer: (() => void) | undefined;
    let calls = 0;
    server.become({
      get: () => ({ status: answer === undefined ? 'completed' : 'working' }),
      intercept: (method, response, _, id) => {
        if (method !== 'tools/call' || (calls += 1) !== 2) return false;
        const result = { content: [{ type: 'text', text: 'dug at once' }] };
        answer = () =>
          void response
            .writeHead(200, { 'content-type': 'application/json' })
            .end(JSON.stringify({ jsonrpc: '2.0', id, result }));
        return true;
      },
    });
    const twice = digs().flatMap((step) => ('calls' in step ? step.calls : []));
    const run = await world.start([{ calls: [...twice, ...twice] }, { text: 'done' }]);
    await taskOf(run);
    const release = await until(async () => answer, { what: 'the call beside it' });
    await nudge(run);
    // As long as the task has left of its ten minutes.
    const patience = async () =>
      (await executions(world, run.runId))
        .flatMap(({ events }) => events)
        .map(({ timerStartedEventAttributes: timer }) => Number(timer?.startToFireTimeout?.seconds))
        .find((seconds) => seconds > 500 && seconds < 600);
    await until(patience, { what: 'a task that waits for the next execution' });
    release();
    await until(async () => (await executions(world, run.runId)).length > 1, {
      what: 'the next execution',
    });
    answer = undefined;
    expect(await outcomesAtEnd(run)).toEqual({ 't1.c0': 'succeeded', 't1.c1': 'succeeded' });
  });
});

describe('a tool that may be called as a task', () => {
  test.each([
    ['is, where the operator says so', 'brief', 1],
    ['is not, where nobody says so', 'mine', 0],
  ])('%s', async (_, name, tasks) => {
    server.become({ support: 'optional' });
    const before = server.tasks.length;
    const begun = since();
    const run = await world.start(digs(name));
    await run.result();
    expect(begun()).toBe(1);
    expect(server.tasks.length - before).toBe(tasks);
    expect(await outcomes(run)).toEqual({ 't1.c0': 'succeeded' });
  });

  test('one that can only be is not offered where its server takes none', async () => {
    server.become({ capabilities: { tools: {} } });
    const begun = since();
    const run = await world.start(digs());
    await run.result();
    expect(factsOf(await run.ledger(), 'tools.discovered')).toMatchObject([{ count: 0 }, { count: 0 }]);
    expect(begun()).toBe(0);
    expect(await outcomes(run)).toEqual({ 't1.c0': 'denied' });
  });
});

describe('the last question about a task, which a worker that stops or a server that is away decides', () => {
  const LONG_MS = 120_000;

  const cancelling = { by: 'ann', reason: 'enough', inFlight: 'cancel' } as const;

  test(
    'INV-D3: a worker that is stopped in the middle of it: the next one has the task cancelled',
    async () => {
      let isHeld = false;
      const working = { begins: { pollInterval: 300_000 }, get: () => ({ status: 'working' }) };
      server.become({ ...working, intercept: (method) => method === 'tasks/get' && (isHeld = true) });
      const run = await world.start(digs());
      await taskOf(run);
      await run.stop(cancelling);
      await until(() => isHeld, { what: 'the last question' });
      const stopping = world.restartWorkers();
      server.become(working);
      await stopping;
      expect(await run.result()).toMatchObject({ status: 'stopped' });
      expect(newest().cancelled).toBe(true);
      const [outcome] = factsOf(await run.ledger(), 'outcome');
      expect(outcome).toMatchObject({ outcome: 'unknown', code: 'OUTCOME_UNKNOWN' });
    },
    LONG_MS,
  );

  test(
    'INV-D3: a result that is away for a moment: it is had all the same',
    async () => {
      let refusals = 0;
      server.become({
        begins: { pollInterval: 300_000 },
        intercept: (method, response) =>
          method === 'tasks/result' && (refusals += 1) < 3 && (response.writeHead(503).end('deploying'), true),
      });
      const run = await world.start(digs());
      await taskOf(run);
      await run.stop(cancelling);
      expect(await run.result()).toMatchObject({ status: 'stopped' });
      expect(refusals).toBe(3);
      expect(factsOf(await run.ledger(), 'outcome')).toMatchObject([{ outcome: 'succeeded' }]);
    },
    LONG_MS,
  );
});
