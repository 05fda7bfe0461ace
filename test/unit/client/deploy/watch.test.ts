/** A watch ends as soon as a build does not do well, and says of which runs it is. */
import { beforeEach, expect, jest, test } from '@jest/globals';
import { Metadata } from '@grpc/grpc-js';

/** Pauses pass at once, and time with them. */
let now = 0;
jest.unstable_mockModule('node:timers/promises', () => ({
  setTimeout: async (ms: number) => {
    now += ms;
    await new Promise((resolve) => void setImmediate(resolve));
  },
}));

const { watchedText, watchFault } = await import('../../../../cli/verbs/deploy.ts');
const { CountersignError } = await import('../../../../contracts/errors.ts');
const { FakeDeployment } = await import('../../../support/fake-deployment.ts');
const { codeOf } = await import('../../../support/world/run-record.ts');

beforeEach(() => void jest.spyOn(Date, 'now').mockImplementation(() => now));

const away = new CountersignError('ENGINE_UNAVAILABLE', 'Temporal did not answer in time.');
const plainly = (_shade: string, text: string): string => text;

test('a build whose runs go on does well until the time is over, and failures that may be do not end it', async () => {
  const temporal = new FakeDeployment('a', 'b');
  temporal.addRuns('b', 3);
  // One that a worker has just been given, and one whose worker ended in the middle of it.
  temporal.addRuns('b', 1, { attempt: 1 });
  temporal.addRuns('b', 1, { attempt: 2 });
  temporal.ended.push({ build: 'b', isFailed: true }, { build: 'b', isFailed: false }, { build: 'a', isFailed: true });
  // A digest fails with its channel.
  temporal.ended.push({ build: 'b', isFailed: true, type: 'messageDigest' });
  const began = now;
  const seen = await temporal.deployment.watch('b', { forMs: 60_000, maxFailed: 1 });
  expect(seen).toMatchObject({ isWell: true, open: 5, ended: 3, failed: 1, stuck: [] });
  expect(now - began).toBe(60_000);
  expect(watchedText(seen, plainly)).toContain('does well');
});

test.each([
  ['that has worked on it', { build: 'b' }],
  ['that was moved to it', { build: 'a', movedTo: 'b' }],
  ['that begins on it', { build: undefined, upgrades: true, goingTo: 'b' }],
])('a run %s and cannot go on is stuck, which ends the watch at once', async (_, run) => {
  const temporal = new FakeDeployment('a', 'b');
  temporal.addRuns('a', 2, { attempt: 9 });
  temporal.addRuns('a', 1, { attempt: 9, upgrades: true, goingTo: 'a' });
  temporal.addRuns('b', 1, { ...run, attempt: 3 });
  const began = now;
  const seen = await temporal.deployment.watch('b');
  expect(seen).toMatchObject({ isWell: false, stuck: [{ workflowId: 'run-3', attempts: 3 }] });
  expect(now).toBe(began);
  expect(watchedText(seen, plainly)).toMatch(/does not do well.*\n {2}run-3 .*failed 2 times/);
});

test('runs that fail count, and the watch ends with the first that is too many', async () => {
  const temporal = new FakeDeployment('a', 'b');
  temporal.addRuns('b', 1);
  const told: number[] = [];
  const tell = ({ failed }: { readonly failed: number }): void => {
    told.push(failed);
    temporal.ended.push({ build: 'b', isFailed: true });
  };
  expect(await temporal.deployment.watch('b', { maxFailed: 2, tell })).toMatchObject({ isWell: false, failed: 3 });
  expect(told).toEqual([0, 1, 2, 3]);
});

test('what failed before is told apart by the times of Temporal, whatever the clock here says', async () => {
  const temporal = new FakeDeployment('a', 'b');
  temporal.addRuns('b', 1);
  const at = Date.parse('2026-01-01T00:00:00Z');
  temporal.ended.push({ build: 'b', isFailed: true, at });
  // A day ahead.
  now = at + 86_400_000;
  const tell = (): void => void temporal.ended.push({ build: 'b', isFailed: true, at: at + 1 });
  expect(await temporal.deployment.watch('b', { tell })).toMatchObject({ isWell: false, failed: 1 });
  now = at - 86_400_000;
  expect(await temporal.deployment.watch('b', { forMs: 5_000 })).toMatchObject({ isWell: true, failed: 0 });
});

test('a watch that is interrupted says how long it was, and does not pass', async () => {
  const temporal = new FakeDeployment('a', 'b');
  temporal.addRuns('b', 1);
  const interrupt = new AbortController();
  const began = now;
  temporal.onLook = () => {
    if (now - began >= 300_000) interrupt.abort();
  };
  const seen = await temporal.deployment.watch('b', { forMs: 3_600_000, signal: interrupt.signal });
  expect(seen).toMatchObject({ isWell: true, interrupted: true, watchedMs: 300_000, forMs: 3_600_000 });
  expect(watchedText(seen, plainly)).toMatch(/^does well so far .*\n {2}Interrupted: watched 5 min of 1 h\.$/);
  const fault = watchFault(seen);
  expect(fault).toMatchObject({ code: 'WATCH_INCOMPLETE', message: expect.stringContaining('after 5 min of 1 h') });
  expect(fault?.traits.exitCode).toBe(6);
});

test('a watch that is interrupted as a run gets stuck says that the build does not do well', async () => {
  const temporal = new FakeDeployment('a', 'b');
  temporal.addRuns('b', 1, { attempt: 3 });
  const seen = await temporal.deployment.watch('b', { signal: AbortSignal.abort() });
  expect(watchFault(seen)?.code).toBe('BUILD_FAILING');
  expect(watchedText(seen, plainly)).toContain('does not do well');
});

test('a watch that saw no run says that it shows nothing', async () => {
  const temporal = new FakeDeployment('a', 'b');
  const seen = await temporal.deployment.watch('b');
  expect(seen).toMatchObject({ isWell: true, open: 0 });
  expect(seen.interrupted).toBeUndefined();
  expect(watchFault(seen)).toBeUndefined();
  expect(watchedText(seen, plainly)).toMatch(/^saw no run {2}b: .*\n.*this shows nothing/);
  expect(await codeOf(temporal.deployment.watch('none'))).toBe('BUILD_UNKNOWN');
});

test('a look to which Temporal does not answer is repeated, and the last one is told', async () => {
  const temporal = new FakeDeployment('a', 'b');
  temporal.addRuns('b', 1, { attempt: 3 });
  let looks = 0;
  temporal.onLook = () => {
    looks += 1;
    if (looks <= 2) throw away;
  };
  expect(await temporal.deployment.watch('b')).toMatchObject({ isWell: false });
  expect(looks).toBe(3);
  temporal.onLook = () => {
    throw away;
  };
  expect(await codeOf(temporal.deployment.watch('b', { forMs: 5_000 }))).toBe('ENGINE_UNAVAILABLE');
});

test('a look at one run that Temporal does not answer in time is repeated, and is no message to the run', async () => {
  const temporal = new FakeDeployment('a', 'b');
  temporal.addRuns('b', 1, { attempt: 3 });
  const late = Object.assign(new Error('late'), { code: 4, details: 'Deadline exceeded', metadata: new Metadata() });
  let looks = 0;
  temporal.onLook = () => {
    looks += 1;
    if (looks === 1) throw late;
  };
  expect(await temporal.deployment.watch('b')).toMatchObject({ isWell: false });
  temporal.onLook = () => {
    throw late;
  };
  const silent = temporal.deployment.watch('b', { forMs: 5_000 });
  await expect(silent).rejects.toMatchObject({
    code: 'ENGINE_UNAVAILABLE',
    message: expect.not.stringContaining('message'),
  });
});

test('what others have open in the namespace hides no run that cannot begin', async () => {
  const temporal = new FakeDeployment('a', 'b');
  const beginning = { build: undefined, attempt: 3, goingTo: 'b' };
  temporal.addRuns('b', 1_500);
  temporal.addRuns('b', 1_500, { ...beginning, type: 'theirs' });
  temporal.addRuns('b', 1, beginning);
  expect(await temporal.deployment.watch('b')).toMatchObject({
    isWell: false,
    stuck: [{ workflowId: 'run-3000', attempts: 3 }],
  });
});

test('a build whose workers have all ended does not do well, although no run fails', async () => {
  const temporal = new FakeDeployment('a', 'b');
  temporal.addRuns('b', 1);
  let looks = 0;
  temporal.onLook = () => {
    looks += 1;
    if (looks === 2) temporal.polling.delete('b');
  };
  const seen = await temporal.deployment.watch('b');
  expect(seen).toMatchObject({ isWell: false, failed: 0, stuck: [], unserved: 'runs' });
  expect(looks).toBe(2);
  expect(watchedText(seen, plainly)).toMatch(/does not do well.*\n.*No worker of it takes runs from task queue runs/);
});

test('no look is at more than a thousand runs, the newest', async () => {
  const temporal = new FakeDeployment('a', 'b');
  temporal.addRuns('b', 1_500);
  let looks = 0;
  temporal.onLook = () => void (looks += 1);
  await temporal.deployment.watch('b', { forMs: 0 });
  expect(looks).toBeGreaterThanOrEqual(1_000);
  expect(looks).toBeLessThan(1_010);
});
