/** One process at a time builds into a shared place, and one that died does not stop the next. Real processes: a lock is between them. */
import { type ChildProcess, spawn } from 'node:child_process';
import { once } from 'node:events';
import { mkdtemp, readdir, readFile, rm } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { afterEach, beforeEach, expect, test } from '@jest/globals';
import { withLock } from '../../scripts/lock.mjs';
import { until } from '../support/until.ts';

const LOCK = new URL('../../scripts/lock.mjs', import.meta.url).href;

/** Works until its standard input ends; the folder's `order` says who worked when. */
const WORKER = `
import { once } from 'node:events';
import { appendFileSync, readFileSync } from 'node:fs';
import { withLock } from '${LOCK}';
const [path, order, name, ending] = process.argv.slice(1);
await withLock(path, 'another builds', async () => {
  appendFileSync(order, name + ' begins\\n');
  console.log('holds it as ' + readFileSync(path, 'utf8'));
  await once(process.stdin.resume(), 'end');
  appendFileSync(order, name + ' ends\\n');
  if (ending === 'fails') throw new Error('it did not build');
});`;

let folder: string;
let path: string;
let children: ChildProcess[];
beforeEach(async () => {
  folder = await mkdtemp(join(tmpdir(), 'countersign-lock-'));
  path = join(folder, 'work', 'build.lock');
  children = [];
});
afterEach(async () => {
  for (const child of children) child.kill('SIGKILL');
  await rm(folder, { recursive: true, force: true });
});

function start(name: string, ending = 'ends well') {
  const args = ['--input-type=module', '-e', WORKER, path, join(folder, 'order'), name, ending];
  const child = spawn(process.execPath, args, { stdio: ['pipe', 'pipe', 'pipe'] });
  children.push(child);
  const said: string[] = [];
  for (const stream of [child.stdout, child.stderr])
    stream.setEncoding('utf8').on('data', (text: string) => said.push(text));
  const exited = once(child, 'exit');
  return {
    child,
    exited,
    says: async (text: string) => await until(() => said.join('').includes(text), { what: `"${text}" of ${name}` }),
    finish: async () => {
      child.stdin.end();
      return (await exited)[0] as unknown;
    },
  };
}

async function order(): Promise<string[]> {
  return (await readFile(join(folder, 'order'), 'utf8')).trim().split('\n');
}

test.each([
  ['ends well', 0],
  ['fails', 1],
])('it names its process, and work that %s leaves nothing of it', async (ending, code) => {
  const only = start('only', ending);
  await only.says(`holds it as ${only.child.pid}`);
  expect(await only.finish()).toBe(code);
  expect(await readdir(join(folder, 'work'))).toEqual([]);
});

test('while a living process holds it the next one waits, says for whom, and works after it', async () => {
  const first = start('first');
  await first.says('holds it');
  const second = start('second');
  await second.says(`waiting: another builds (process ${first.child.pid}, lock ${path})`);
  second.child.stdin.end();
  expect(await first.finish()).toBe(0);
  expect(await second.finish()).toBe(0);
  expect(await order()).toEqual(['first begins', 'first ends', 'second begins', 'second ends']);
  expect(await readdir(join(folder, 'work'))).toEqual([]);
});

test('the lock of a process that was killed is taken over, by one of those that wait', async () => {
  const dead = start('dead');
  await dead.says('holds it');
  dead.child.kill('SIGKILL');
  await dead.exited;
  expect(await readdir(join(folder, 'work'))).toEqual(['build.lock']);
  const [one, other] = [start('one'), start('other')];
  for (const { child } of [one, other]) child.stdin.end();
  expect([await one.finish(), await other.finish()]).toEqual([0, 0]);
  const [, ...lines] = await order();
  expect(lines).toHaveLength(4);
  expect(lines.map((line) => line.split(' ')[1])).toEqual(['begins', 'ends', 'begins', 'ends']);
  expect(lines[0]?.split(' ')[0]).toBe(lines[1]?.split(' ')[0]);
  expect(await readdir(join(folder, 'work'))).toEqual([]);
});

test('a test file waits like any process, though an error of Node is not one of its errors', async () => {
  const first = start('first');
  await first.says('holds it');
  const here = withLock(path, 'another builds', async () => await order());
  first.child.stdin.end();
  expect(await here).toEqual(['first begins', 'first ends']);
  const second = start('second');
  await second.says('holds it');
  second.child.kill('SIGKILL');
  await second.exited;
  expect(await withLock(path, 'another builds', async () => await readFile(path, 'utf8'))).toBe(String(process.pid));
});
