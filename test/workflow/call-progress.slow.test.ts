/** How far a call has come that a worker waits for is told to whoever watches, as its server says it, and stands in no history. */
import { describe, expect, test } from '@jest/globals';
import type { CallProgress } from '../../client/index.ts';
import type { RunSpecInput } from '../../contracts/schemas/run-spec.ts';
import { runCommand } from '../support/cli.ts';
import { formsOf, keptOf } from '../support/scenes/tasks.ts';
import { startResumableServer } from '../support/servers/resumable-server.ts';
import { useWorld } from '../support/world/world.ts';
import { during } from '../support/world/during.ts';

const server = during(() => startResumableServer());
const world = useWorld(() => {
  const policy = { servers: { mine: { default: 'allow' }, again: { default: 'allow' } } } as const;
  const one = { url: server.url, credentials: { kind: 'none' } } as const;
  return {
    // The same server twice: calls of `again` may be repeated, and so leave within a stretch.
    config: { policy, servers: { mine: one, again: { ...one, repeatable: ['slow'] } } },
  };
});

const slow = async (purpose: string) =>
  await world.start(
    [{ calls: [{ tool: 'mine/slow', arguments: { purpose } }] }, { text: 'done' }],
    {},
    { runId: purpose },
  );

test('a long call is told each time its server has said how far it is, and once; then the watch goes on to the end', async () => {
  const run = await slow('long');
  await server.held('long');
  await server.progress('long', 0.25);
  const heard: CallProgress[] = [];
  const onProgress = (news: readonly CallProgress[]): void => {
    heard.push(...news);
    if (heard.length === 1) void server.progress('long', 0.75);
    else server.release('long');
  };
  const kinds: string[] = [];
  for await (const { fact } of run.watch({ onProgress })) kinds.push(fact.kind);
  expect(heard).toEqual([
    { callId: 't1.c0', sentAt: expect.any(String), progress: 0.25 },
    { callId: 't1.c0', sentAt: heard[0]?.sentAt, progress: 0.75 },
  ]);
  expect(kinds.slice(-3)).toEqual(['outcome', 'turn.proposed', 'run.ended']);
  const kept = await keptOf(world, run);
  const isKept = (text: string): boolean => formsOf(text).some((form) => kept.includes(form));
  // What is there is found in this way.
  expect([isKept('"purpose":"long"'), isKept('"progress":0.')]).toEqual([true, false]);
});

describe('a call within a stretch', () => {
  /** Turns before the slow one, so that the call under way is in the first activity, or in a later stretch. */
  const repeated = async (purpose: string, over: Partial<RunSpecInput> = {}) =>
    await world.start(
      [
        { calls: [{ tool: 'again/slow', arguments: { purpose: `${purpose}-before` } }] },
        { calls: [{ tool: 'again/slow', arguments: { purpose } }] },
        { text: 'done' },
      ],
      over,
      { runId: purpose },
    );

  test.each([
    ['prepareRun', {}],
    ['stretch', { limits: { turnsPerExecution: 1 } }],
  ])('is told as one of its own activity: in `%s`', async (activity, over) => {
    server.release(`${activity}-before`);
    const run = await repeated(activity, over);
    await server.held(activity);
    await server.progress(activity, 0.25);
    const heard: CallProgress[] = [];
    const doing = new Set<string>();
    const onProgress = async (news: readonly CallProgress[]): Promise<void> => {
      heard.push(...news);
      const { raw } = await world.client.workflow.getHandle(run.runId).describe();
      for (const { activityType } of raw.pendingActivities ?? []) doing.add(activityType?.name ?? '');
      if (heard.length === 1) await server.progress(activity, 0.75);
      else server.release(activity);
    };
    const kinds: string[] = [];
    for await (const { fact } of run.watch({ onProgress: (news) => void onProgress(news) })) kinds.push(fact.kind);
    expect([...doing]).toEqual([activity]);
    expect(heard).toEqual([
      { callId: 't2.c0', sentAt: expect.any(String), progress: 0.25 },
      { callId: 't2.c0', sentAt: heard[0]?.sentAt, progress: 0.75 },
    ]);
    const told = kinds.filter((kind) => kind !== 'run.rolled');
    expect(told.slice(-3)).toEqual(['outcome', 'turn.proposed', 'run.ended']);
    const kept = await keptOf(world, run);
    expect(formsOf('"progress":0.').some((form) => kept.includes(form))).toBe(false);
    // What is done is on record, with what the server answered.
    expect(formsOf(`${activity} is done in`).some((form) => kept.includes(form))).toBe(true);
  });
});

test('`countersign watch` says it on the error stream, and its entries are what they are without', async () => {
  const run = await slow('said');
  await server.held('said');
  await server.progress('said', 3);
  const { directory, server: engine } = world.engine;
  let said = '';
  const { out, exitCode } = await runCommand(['watch', run.runId, '--address', engine.address], {
    directory,
    onErr: (text: string) => {
      said += text;
      if (said.includes('at 3')) server.release('said');
    },
  });
  expect(exitCode).toBe(0);
  expect(said).toMatch(/^working: t1\.c0 since .+, at 3\n$/m);
  expect(out).not.toContain('at 3');
  expect(out).toContain('run.ended');
});
