/** Which Temporal CLI is used: the one that is named, else the first that is new enough on PATH, downloaded, or built here. */
import { delimiter } from 'node:path';
import { afterEach, beforeEach, expect, jest, test } from '@jest/globals';
import { findTemporalCli } from '../../../scripts/temporal-cli.mjs';
import { useOwnPath } from '../../support/own-path.ts';

// Nothing of this machine is found: neither an installed CLI, nor a downloaded nor a built one.
const { inRoot, program } = useOwnPath('TEMPORAL_CLI_PATH', 'TMPDIR');

let said: string[];
beforeEach(() => {
  process.env['TMPDIR'] = inRoot('tmp');
  said = [];
  jest.spyOn(console, 'error').mockImplementation((line: string) => void said.push(line));
});
afterEach(() => {
  jest.restoreAllMocks();
});

/** A `temporal` that says of its server what it is told to. */
async function fake(folder: string, server: string): Promise<string> {
  return await program(`${folder}/temporal`, `echo "temporal version 1.5.1 (Server ${server}, UI 2.42.1)"`);
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
  expect(findTemporalCli()).toBe(inRoot('named/temporal'));
  expect(said).toEqual([]);
});

test('a named one that does not run is an error, not a reason to take another', async () => {
  await fake('bin', '1.29.1');
  process.env['TEMPORAL_CLI_PATH'] = inRoot('nowhere/temporal');
  expect(() => findTemporalCli()).toThrow(/TEMPORAL_CLI_PATH is .*nowhere/);
});

test.each(['1.28.9', '0.30.0'])(
  'a server %s on PATH is passed over, with the reason, for the next one',
  async (old) => {
    const outdated = await fake('old', old);
    const newer = await fake('new', '2.0.0');
    process.env['PATH'] = [inRoot('old'), inRoot('new')].join(delimiter);
    expect(findTemporalCli()).toBe(newer);
    expect(said).toEqual([`passing over ${outdated}: its server is ${old}, 1.29 or newer is needed`]);
  },
);

test('one on PATH that does not run is passed over', async () => {
  await program('bin/temporal', 'exit 1');
  const built = await fake(BUILT, '1.29.1');
  expect(findTemporalCli()).toBe(built);
});
