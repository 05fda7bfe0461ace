/** A ledger directory on a disk that is full, in a process whose files may not grow: it fails, keeps nothing half, and goes on. */
import { spawn } from 'node:child_process';
import { once } from 'node:events';
import { mkdtemp, readdir, rm } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { fileURLToPath } from 'node:url';
import { afterAll, beforeAll, expect, test } from '@jest/globals';
import { setUpRoot } from '../../activities/artifacts/root.ts';
import { LEDGER_ROOT } from '../../activities/ledger/directory.ts';
import { chainOf } from '../support/builders/ledger-record.ts';
import { keptIn } from '../support/ledger-folder.ts';

const ENTRY = fileURLToPath(new URL('../support/ledger-writer-entry.ts', import.meta.url));

let root: string;
beforeAll(async () => {
  root = join(await mkdtemp(join(tmpdir(), 'countersign-full-')), 'ledger');
  setUpRoot(root, true, LEDGER_ROOT);
});
afterAll(async () => rm(root, { recursive: true, force: true }));

/** @param blocks of 512 or 1,024 bytes that a file may have, as the shell counts them */
async function delivered(length: number, blocks: string): Promise<string> {
  const command = `trap '' XFSZ; ulimit -f ${blocks}; exec "$0" --import tsx "$1" "$2" ${length}`;
  const child = spawn('sh', ['-c', command, process.execPath, ENTRY, root], {
    env: { PATH: process.env['PATH'] ?? '', TSX_DISABLE_CACHE: '1' },
    stdio: ['ignore', 'pipe', 'inherit'],
  });
  let said = '';
  child.stdout.setEncoding('utf8').on('data', (text: string) => (said += text));
  await once(child, 'close');
  return said.trim();
}

test('F4, F39: a full disk is LEDGER_UNAVAILABLE, leaves nothing half-written, and what was acknowledged stays', async () => {
  expect(await delivered(3, 'unlimited')).toBe('delivered');
  expect(await delivered(200, '8')).toMatch(/^LEDGER_UNAVAILABLE .*\(EFBIG\)/);
  expect((await keptIn(root, 'run-1')).entries).toEqual(chainOf(3));
  expect((await readdir(root, { recursive: true })).filter((path) => path.endsWith('.tmp'))).toEqual([]);
  expect(await delivered(200, 'unlimited')).toBe('delivered');
  expect((await keptIn(root, 'run-1')).entries).toEqual(chainOf(200));
});
