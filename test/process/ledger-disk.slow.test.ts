/** A ledger directory under processes that die, race and find the disk full: nothing is kept half, nothing acknowledged is lost. */
import { type ChildProcess, spawn } from 'node:child_process';
import { once } from 'node:events';
import { mkdtemp, readdir, rm } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { afterAll, beforeAll, beforeEach, expect, test } from '@jest/globals';
import { setUpRoot } from '../../activities/artifacts/root.ts';
import { LEDGER_ROOT } from '../../activities/ledger/directory.ts';
import { checkLedger } from '../../client/ledger/check.ts';
import { chainOf } from '../support/builders/ledger-record.ts';
import { keptIn } from '../support/world/ledger-folder.ts';
import { until } from '../support/until.ts';
import { programArgs } from '../support/program.ts';

const ENTRY = programArgs('test/support/ledger-writer-entry.ts');

let parent: string;
let root: string;
let made = 0;
beforeAll(async () => {
  parent = await mkdtemp(join(tmpdir(), 'countersign-disk-'));
});
beforeEach(() => {
  root = join(parent, `ledger-${(made += 1)}`);
  setUpRoot(root, true, LEDGER_ROOT);
});
afterAll(async () => rm(parent, { recursive: true, force: true }));

function writer(length: number, ...shell: readonly string[]): ChildProcess {
  const command = [...shell, 'exec "$0" "$@"'].join('; ');
  return spawn('sh', ['-c', command, process.execPath, ...ENTRY, root, String(length)], {
    env: { PATH: process.env['PATH'] ?? '', TSX_DISABLE_CACHE: '1' },
    stdio: ['ignore', 'pipe', 'inherit'],
  });
}

async function saidBy(child: ChildProcess): Promise<string> {
  let said = '';
  child.stdout?.setEncoding('utf8').on('data', (text: string) => (said += text));
  await once(child, 'close');
  return said.trim();
}

/** @param blocks of 512 or 1,024 bytes that a file may have, as the shell counts them */
async function delivered(length: number, blocks = 'unlimited'): Promise<string> {
  return await saidBy(writer(length, "trap '' XFSZ", `ulimit -f ${blocks}`));
}

test('F4, F39: a full disk is LEDGER_UNAVAILABLE, leaves nothing half-written, and what was acknowledged stays', async () => {
  expect(await delivered(3)).toBe('delivered');
  expect(await delivered(200, '8')).toMatch(/^LEDGER_UNAVAILABLE .*\(EFBIG\)/);
  expect((await keptIn(root, 'run-1')).entries).toEqual(chainOf(3));
  expect((await readdir(root, { recursive: true })).filter((path) => path.endsWith('.tmp'))).toEqual([]);
  expect(await delivered(200)).toBe('delivered');
  expect((await keptIn(root, 'run-1')).entries).toEqual(chainOf(200));
});

async function isWriting(): Promise<boolean> {
  return (await readdir(root, { recursive: true })).some((path) => path.endsWith('.tmp'));
}

test('F1, INV-D3: a process that is killed while it writes leaves nothing half, and the next one keeps all of it once', async () => {
  const long = 20_000;
  for (const _ of [1, 2, 3]) {
    const child = writer(long);
    const ended = once(child, 'close');
    await until(async () => (await isWriting()) || child.exitCode !== null, {
      what: 'half a file',
    });
    child.kill('SIGKILL');
    await ended;
    expect([0, long]).toContain((await keptIn(root, 'run-1')).entries.length);
  }
  expect(await delivered(long)).toBe('delivered');
  const { entries, files } = await keptIn(root, 'run-1');
  expect(checkLedger(entries)).toMatchObject({ faults: [], length: long });
  expect(files).toHaveLength(1);
});

test('INV-D3: four processes that deliver pieces of one ledger at once keep each entry once', async () => {
  const said = await Promise.all([300, 500, 300, 400].map(async (length) => saidBy(writer(length))));
  expect(said).toEqual(['delivered', 'delivered', 'delivered', 'delivered']);
  expect((await keptIn(root, 'run-1')).entries).toEqual(chainOf(500));
});
