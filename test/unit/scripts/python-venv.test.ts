/** Which Python tests run with: the one that is named, else the first on PATH that is new enough; every package is pinned. */
import { readFile, rm, writeFile } from 'node:fs/promises';
import { beforeEach, expect, test } from '@jest/globals';
import { ensureVenv, pinsIn } from '../../../scripts/python-venv.mjs';
import { useOwnPath } from '../../support/own-path.ts';

const { inRoot, program } = useOwnPath('PYTHON_PATH');

let list: string;
beforeEach(async () => {
  list = inRoot('requirements.txt');
  await writeFile(list, '# What it needs.\nzeta==1.0.0\nalpha==2.0.1.post1  # the second\n');
  process.env['PATH'] = `${inRoot('bin')}:/usr/bin:/bin`;
});

/** Writes a program that says it is this version, and notes in a file what it is asked to do. */
async function fake(folder: string, version: string): Promise<string> {
  const script = [
    `case "$2" in *version_info*) echo ${version}; exit 0;; esac`,
    `echo "$0 $*" >> ${inRoot('asked')}`,
    // It makes an environment by a copy of itself.
    `if [ "$2" = venv ]; then mkdir -p "$3/bin" && cp "$0" "$3/bin/python"; fi`,
    `if [ "$3" = install ] && [ -f ${inRoot('fail')} ]; then echo no index; exit 1; fi`,
    'exit 0',
  ].join('\n');
  return await program(`${folder}/python3`, script);
}

async function asked(): Promise<string> {
  return await readFile(inRoot('asked'), 'utf8').catch(() => '');
}

test('an environment is made once, from pinned packages alone', async () => {
  await fake('bin', '3.11.7');
  const python = await ensureVenv('sample', list);
  expect(python.startsWith(inRoot('cache/countersign/python/sample'))).toBe(true);
  expect(await asked()).toMatch(/-m pip install .*--no-deps alpha==2\.0\.1\.post1 zeta==1\.0\.0\n/);
  const once = (await asked()).split('pip install').length;
  expect(await ensureVenv('sample', list)).toBe(python);
  expect((await asked()).split('pip install')).toHaveLength(once);
  await writeFile(list, 'alpha==2.0.2\n');
  expect(await ensureVenv('sample', list)).not.toBe(python);
});

test('an install that failed leaves nothing that looks like an environment', async () => {
  await fake('bin', '3.11.7');
  await writeFile(inRoot('fail'), '');
  await expect(ensureVenv('sample', list)).rejects.toThrow(/no index[\s\S]*let pip reach your package index/);
  await rm(inRoot('fail'));
  await ensureVenv('sample', list);
  expect((await asked()).split('pip install')).toHaveLength(3);
});

test('PYTHON_PATH goes before PATH; one that is too old, or none, is told', async () => {
  await fake('bin', '3.12.1');
  process.env['PYTHON_PATH'] = await fake('named', '3.11.7');
  await ensureVenv('sample', list);
  expect(await asked()).toContain(inRoot('named/python3'));
  process.env['PYTHON_PATH'] = await fake('old', '3.9.2');
  await expect(ensureVenv('sample', list)).rejects.toThrow(/PYTHON_PATH is .*no Python 3\.10 or newer/);
  delete process.env['PYTHON_PATH'];
  process.env['PATH'] = inRoot('nowhere');
  await expect(ensureVenv('sample', list)).rejects.toThrow(/need Python 3\.10 or newer[\s\S]*PYTHON_PATH/);
});

test.each(['alpha', 'alpha>=1', 'alpha==1.*', '-r other.txt', 'git+https://example.com/alpha'])(
  'what is not pinned is refused: %s',
  async (line) => {
    await writeFile(list, `${line}\n`);
    expect(() => pinsIn(list)).toThrow('no pinned package');
  },
);
