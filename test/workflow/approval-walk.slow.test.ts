// docs/architecture/approval.md against what runs: the approval is played, and V8 tells which files have run a
// function.
import { execFile } from 'node:child_process';
import { readFileSync } from 'node:fs';
import { join } from 'node:path';
import { fileURLToPath } from 'node:url';
import { promisify } from 'node:util';
import { expect, test } from '@jest/globals';

const ROOT = fileURLToPath(new URL('../..', import.meta.url));
const ENTRY = join(ROOT, 'test/support/walk/approval-entry.ts');
/** The program is played within another process, whose entry is not this one. */
const NOT_PLAYED = ['cli/main.ts'];
/** A busy machine takes its time to begin. */
const MOST_MS = 240_000;

test(
  'every file that runs between the command and the next step is on the page, and every file on it runs',
  async () => {
    const { stdout } = await promisify(execFile)(process.execPath, ['--import', 'tsx', ENTRY], {
      cwd: ROOT,
      env: { ...process.env, TEMPORAL_DEBUG: '1' },
      timeout: MOST_MS,
    });
    // Sound: the program writes this one line.
    const ran = JSON.parse(stdout) as readonly string[];
    const page = readFileSync(join(ROOT, 'docs/architecture/approval.md'), 'utf8');
    const quoted = [...page.matchAll(/`([\w./-]+\.ts)`/g)].flatMap(([, file = '']) => file);
    const named = new Set(quoted.filter((file) => !file.startsWith('test/')));
    expect(named.size).toBeGreaterThan(50);
    expect([...named].filter((file) => !NOT_PLAYED.includes(file)).toSorted()).toEqual(ran);
  },
  2 * MOST_MS,
);
