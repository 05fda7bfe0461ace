/** Plays the drill as somebody runs it, to the package of this source, and reads what it says. */
import { spawn } from 'node:child_process';
import { once } from 'node:events';
import { join } from 'node:path';
import { beforeAll } from '@jest/globals';
import { ROOT } from '../../scripts/bootstrap.mjs';
import { type SharedPack, sharedPack } from '../support/package/shared-pack.ts';

export const LIMIT_MS = 900_000;

let packed: SharedPack;

/** Packs this source for the tests of the file. */
export function packFirst(): void {
  beforeAll(async () => {
    packed = await sharedPack();
  }, LIMIT_MS);
}

export function start(...args: readonly string[]) {
  const main = [join(ROOT, 'scripts/run.mjs'), 'test/drill/main.ts', '--next', packed.tarball];
  const child = spawn(process.execPath, [...main, ...args], { stdio: ['ignore', 'pipe', 'pipe'] });
  const said: string[] = [];
  for (const stream of [child.stdout, child.stderr])
    stream.setEncoding('utf8').on('data', (text: string) => said.push(text));
  return { child, said: () => said.join('') };
}

export async function ends(...args: readonly string[]) {
  const { child, said } = start(...args);
  // Sound: the arguments of `close` as Node documents them.
  const [status] = (await once(child, 'close')) as [number | null];
  return { status, said: said() };
}

/** Reads the line of a kind, or of all, as numbers by their columns. */
export function lineOf(said: string, kind: string): readonly number[] {
  const line = said.split('\n').find((each) => each.startsWith(`${kind}  `)) ?? '';
  return line.slice(kind.length).trim().split(/ +/).map(Number);
}
