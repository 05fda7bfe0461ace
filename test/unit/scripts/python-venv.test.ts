/** Which Python tests run with: the one that is named, else the first on PATH that is new enough; every package is pinned. */
import { chmod, mkdir, mkdtemp, readFile, rm, writeFile } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { afterEach, beforeEach, expect, test } from '@jest/globals';
import { ensureVenv, pinsIn } from '../../../scripts/python-venv.mjs';

const VARIABLES = ['PYTHON_PATH', 'PATH', 'XDG_CACHE_HOME'] as const;
const before = Object.fromEntries(VARIABLES.map((name) => [name, process.env[name]]));

let root: string;
let list: string;
beforeEach(async () => {
  root = await mkdtemp(join(tmpdir(), 'countersign-python-'));
  list = join(root, 'requirements.txt');
  await writeFile(list, '# What it needs.\nzeta==1.0.0\nalpha==2.0.1.post1  # the second\n');
  delete process.env['PYTHON_PATH'];
  process.env['PATH'] = `${join(root, 'bin')}:/usr/bin:/bin`;
  process.env['XDG_CACHE_HOME'] = join(root, 'cache');
});
afterEach(async () => {
  for (const name of VARIABLES) {
    const value = before[name];
    if (value === undefined) delete process.env[name];
    else process.env[name] = value;
  }
  await rm(root, { recursive: true, force: true });
});

/** Writes a program that says it is this version, and notes in a file what it is asked to do. */
async function fake(folder: string, version: string): Promise<string> {
  const path = join(root, folder, 'python3');
  await mkdir(join(root, folder), { recursive: true });
  const script = [
    '#!/bin/sh',
    `case "$2" in *version_info*) echo ${version}; exit 0;; esac`,
    `echo "$0 $*" >> ${join(root, 'asked')}`,
    // It makes an environment by a copy of itself.
    `if [ "$2" = venv ]; then mkdir -p "$3/bin" && cp "$0" "$3/bin/python"; fi`,
    `if [ "$3" = install ] && [ -f ${join(root, 'fail')} ]; then echo no index; exit 1; fi`,
    'exit 0',
    '',
  ].join('\n');
  await writeFile(path, script);
  await chmod(path, 0o755);
  return path;
}

async function asked(): Promise<string> {
  return await readFile(join(root, 'asked'), 'utf8').catch(() => '');
}

test('an environment is made once, from pinned packages alone', async () => {
  await fake('bin', '3.11.7');
  const python = await ensureVenv('sample', list);
  expect(python.startsWith(join(root, 'cache', 'countersign', 'python', 'sample'))).toBe(true);
  expect(await asked()).toMatch(/-m pip install .*--no-deps alpha==2\.0\.1\.post1 zeta==1\.0\.0\n/);
  const once = (await asked()).split('pip install').length;
  expect(await ensureVenv('sample', list)).toBe(python);
  expect((await asked()).split('pip install')).toHaveLength(once);
  await writeFile(list, 'alpha==2.0.2\n');
  expect(await ensureVenv('sample', list)).not.toBe(python);
});

test('an install that failed leaves nothing that looks like an environment', async () => {
  await fake('bin', '3.11.7');
  await writeFile(join(root, 'fail'), '');
  await expect(ensureVenv('sample', list)).rejects.toThrow(/no index[\s\S]*let pip reach your package index/);
  await rm(join(root, 'fail'));
  await ensureVenv('sample', list);
  expect((await asked()).split('pip install')).toHaveLength(3);
});

test('PYTHON_PATH goes before PATH; one that is too old, or none, is told', async () => {
  await fake('bin', '3.12.1');
  process.env['PYTHON_PATH'] = await fake('named', '3.11.7');
  await ensureVenv('sample', list);
  expect(await asked()).toContain(join(root, 'named', 'python3'));
  process.env['PYTHON_PATH'] = await fake('old', '3.9.2');
  await expect(ensureVenv('sample', list)).rejects.toThrow(/PYTHON_PATH is .*no Python 3\.10 or newer/);
  delete process.env['PYTHON_PATH'];
  process.env['PATH'] = join(root, 'nowhere');
  await expect(ensureVenv('sample', list)).rejects.toThrow(/need Python 3\.10 or newer[\s\S]*PYTHON_PATH/);
});

test.each(['alpha', 'alpha>=1', 'alpha==1.*', '-r other.txt', 'git+https://example.com/alpha'])(
  'what is not pinned is refused: %s',
  async (line) => {
    await writeFile(list, `${line}\n`);
    expect(() => pinsIn(list)).toThrow('no pinned package');
  },
);
