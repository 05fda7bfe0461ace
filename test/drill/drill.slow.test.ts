/**
 * The drill as somebody runs it: from the release, or from this source where there is none, to the package of this source.
 * It looks at processes from outside, and replays nothing beside what `deploy drain --move` does.
 */
import { type ChildProcess, execFileSync, spawn } from 'node:child_process';
import { once } from 'node:events';
import { join } from 'node:path';
import { afterAll, beforeAll, expect, test } from '@jest/globals';
import { ROOT } from '../../scripts/bootstrap.mjs';
import { pack, type Packed } from '../../scripts/pack.mjs';
import { until } from '../support/until.ts';
import { KINDS } from './kinds.ts';

const LIMIT_MS = 900_000;

let packed: Packed;
beforeAll(() => {
  packed = pack();
}, LIMIT_MS);
afterAll(() => packed?.remove());

function start(...args: readonly string[]) {
  const main = [join(ROOT, 'scripts/run.mjs'), 'test/drill/main.ts', '--next', packed.tarball];
  const child = spawn(process.execPath, [...main, ...args], { stdio: ['ignore', 'pipe', 'pipe'] });
  const said: string[] = [];
  for (const stream of [child.stdout, child.stderr])
    stream.setEncoding('utf8').on('data', (text: string) => said.push(text));
  return { child, said: () => said.join('') };
}

async function ends(...args: readonly string[]) {
  const { child, said } = start(...args);
  // Sound: the arguments of `close` as Node documents them.
  const [status] = (await once(child, 'close')) as [number | null];
  return { status, said: said() };
}

/** Reads the line of a kind, or of all, as numbers by their columns. */
function lineOf(said: string, kind: string): readonly number[] {
  const line = said.split('\n').find((each) => each.startsWith(`${kind}  `)) ?? '';
  return line.slice(kind.length).trim().split(/ +/).map(Number);
}

test(
  'runs that wait in every way are moved, taken back and moved again, with workers killed: none is lost, doubled or stuck',
  async () => {
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
  },
  LIMIT_MS,
);

test(
  'a call that is made twice fails the drill, which names its run',
  async () => {
    const { status, said } = await ends('--runs', '2', '--only', 'approval', '--spoil');
    expect({ status, said }).toMatchObject({
      status: 1,
      said: expect.stringContaining('approval-1 is doubled: 2 of 1'),
    });
    expect(lineOf(said, 'approval').slice(-3)).toEqual([0, 1, 0]);
  },
  LIMIT_MS,
);

test(
  'interrupted from the keyboard, it takes all that it has started with it',
  async () => {
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
  },
  LIMIT_MS,
);

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
