/** Which Temporal CLI is used: the one that is named, else the first that is new enough on PATH, downloaded, or built here. */
import { chmod, mkdir, mkdtemp, rm, writeFile } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { delimiter, join } from 'node:path';
import { afterEach, beforeEach, expect, jest, test } from '@jest/globals';
import { findTemporalCli } from '../../../scripts/temporal-cli.mjs';

const VARIABLES = ['TEMPORAL_CLI_PATH', 'PATH', 'XDG_CACHE_HOME', 'TMPDIR'] as const;
const before = Object.fromEntries(VARIABLES.map((name) => [name, process.env[name]]));

let root: string;
let said: string[];
beforeEach(async () => {
  root = await mkdtemp(join(tmpdir(), 'countersign-cli-'));
  delete process.env['TEMPORAL_CLI_PATH'];
  // Nothing of this machine is found: neither an installed CLI, nor a downloaded nor a built one.
  process.env['PATH'] = join(root, 'bin');
  process.env['XDG_CACHE_HOME'] = join(root, 'cache');
  process.env['TMPDIR'] = join(root, 'tmp');
  said = [];
  jest.spyOn(console, 'error').mockImplementation((line: string) => void said.push(line));
});
afterEach(async () => {
  jest.restoreAllMocks();
  for (const name of VARIABLES) {
    const value = before[name];
    if (value === undefined) delete process.env[name];
    else process.env[name] = value;
  }
  await rm(root, { recursive: true, force: true });
});

/** A `temporal` that says of its server what it is told to. */
async function fake(folder: string, server: string): Promise<string> {
  const path = join(root, folder, 'temporal');
  await mkdir(join(root, folder), { recursive: true });
  await writeFile(path, `#!/bin/sh\necho "temporal version 1.5.1 (Server ${server}, UI 2.42.1)"\n`);
  await chmod(path, 0o755);
  return path;
}

const BUILT = 'cache/countersign/temporal-cli/1.5.1';

test('there is none: nothing is found, and nothing is said', () => {
  expect(findTemporalCli()).toBeUndefined();
  expect(said).toEqual([]);
});

test('TEMPORAL_CLI_PATH goes before PATH, PATH before what was built here', async () => {
  const built = await fake(BUILT, '1.29.1');
  expect(findTemporalCli()).toBe(built);
  const installed = await fake('bin', '1.29.0');
  expect(findTemporalCli()).toBe(installed);
  process.env['TEMPORAL_CLI_PATH'] = await fake('named', '1.28.0');
  expect(findTemporalCli()).toBe(join(root, 'named', 'temporal'));
  expect(said).toEqual([]);
});

test('a named one that does not run is an error, not a reason to take another', async () => {
  await fake('bin', '1.29.1');
  process.env['TEMPORAL_CLI_PATH'] = join(root, 'nowhere', 'temporal');
  expect(() => findTemporalCli()).toThrow(/TEMPORAL_CLI_PATH is .*nowhere/);
});

test.each(['1.28.9', '0.30.0'])(
  'a server %s on PATH is passed over, with the reason, for the next one',
  async (old) => {
    const outdated = await fake('old', old);
    const newer = await fake('new', '2.0.0');
    process.env['PATH'] = [join(root, 'old'), join(root, 'new')].join(delimiter);
    expect(findTemporalCli()).toBe(newer);
    expect(said).toEqual([`passing over ${outdated}: its server is ${old}, 1.29 or newer is needed`]);
  },
);

test('one on PATH that does not run is passed over', async () => {
  const broken = await fake('bin', '1.29.1');
  await writeFile(broken, '#!/bin/sh\nexit 1\n');
  const built = await fake(BUILT, '1.29.1');
  expect(findTemporalCli()).toBe(built);
});
