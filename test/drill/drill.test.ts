/**
 * The whole drill, from the release, or from this source where there is none. It takes minutes of all cores and is
 * played by hand: `npm test -- drill drill.test`. It looks at processes from outside, and replays nothing beside what
 * `deploy drain --move` does.
 */
import { type ChildProcess, execFileSync } from 'node:child_process';
import { once } from 'node:events';
import { expect, jest, test } from '@jest/globals';
import { until } from '../support/until.ts';
import { KINDS } from './kinds.ts';
import { ends, LIMIT_MS, lineOf, packFirst, start } from './played.ts';

jest.setTimeout(LIMIT_MS);

packFirst();

test('runs that wait in every way are moved, taken back and moved again, with workers killed: none is lost, doubled or stuck', async () => {
  const runs = 2 * KINDS.length;
  const { status, said } = await ends('--runs', `${runs}`);
  expect({ status, said }).toMatchObject({ status: 0 });
  const [all = 0, old = 0, fresh = 0, executed, expected, ...faults] = lineOf(said, 'all');
  expect(all).toBeGreaterThan(runs);
  expect([old, fresh].every((answered) => answered >= KINDS.length / 2)).toBe(true);
  expect(old + fresh).toBe(all);
  expect(executed).toBe(expected);
  expect(faults).toEqual([0, 0, 0]);
  for (const { name, calls } of KINDS) {
    const [count = 0, , , made] = lineOf(said, name);
    expect({ name, made, enough: count >= 2 }).toEqual({ name, made: count * calls, enough: true });
  }
  for (const side of ['old', 'new']) expect(said).toContain(`killed a worker of the ${side} build`);
  for (const verb of ['ramp', 'rollback', 'drain']) expect(said).toContain(`deploy ${verb}`);
});

test('interrupted from the keyboard, it takes all that it has started with it', async () => {
  const { child, said } = start('--runs', '1', '--only', 'real server');
  await until(() => said().includes('runs wait on build') || child.exitCode !== null, {
    what: 'a drill under way',
    withinMs: 240_000,
  });
  const started = below(child);
  // A Temporal server, a worker, and the server that nobody here wrote.
  expect(started.length).toBeGreaterThanOrEqual(3);
  const ended = once(child, 'close');
  child.kill('SIGINT');
  expect(await ended).toEqual([130, null]);
  await until(() => started.every((pid) => !processes().has(pid)), { what: 'the end of all that was started' });
});

/** Returns pid → pid of its parent, of processes that have not ended. */
function processes(): ReadonlyMap<number, number> {
  const lines = execFileSync('ps', ['-eo', 'pid=,ppid=,stat='], { encoding: 'utf8' }).trim().split('\n');
  return new Map(
    lines.flatMap((line) => {
      const [pid = '', parent = '', stat = ''] = line.trim().split(/ +/);
      return stat.startsWith('Z') ? [] : [[Number(pid), Number(parent)] as const];
    }),
  );
}

/** Returns all that a process has started, and what that has started. */
function below({ pid }: ChildProcess): readonly number[] {
  const all = [...processes()];
  const found = [Number(pid)];
  for (const parent of found) found.push(...all.filter(([, its]) => its === parent).map(([child]) => child));
  return found.slice(1);
}
