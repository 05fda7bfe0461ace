/** The bench waits for its processes as long as they live, and no longer. */
import { type ChildProcess, spawn } from 'node:child_process';
import { once } from 'node:events';
import { expect, test } from '@jest/globals';
import { heard } from '../../../bench/process.ts';

type Said = { readonly kind: 'other' } | { readonly kind: 'ready'; readonly port: number };

function running(script: string): ChildProcess {
  return spawn(process.execPath, ['-e', script], { stdio: ['ignore', 'ignore', 'ignore', 'ipc'] });
}

test('the message of the kind that is waited for is the one that is heard', async () => {
  const child = running("process.send({kind: 'other'}); process.send({kind: 'ready', port: 7})");
  expect(await heard<Said, 'ready'>(child, 'ready')).toEqual({ kind: 'ready', port: 7 });
});

test('a process that ends without it is an error, now and when it has ended before', async () => {
  const child = running("process.send({kind: 'other'}); process.disconnect(); process.exitCode = 3");
  const ended = once(child, 'exit');
  await expect(heard<Said, 'ready'>(child, 'ready')).rejects.toThrow('ended (3) before: ready');
  await ended;
  await expect(heard<Said, 'ready'>(child, 'ready')).rejects.toThrow('ended (3) before: ready');
});
