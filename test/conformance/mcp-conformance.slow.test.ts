/**
 * The MCP project's own client scenarios against the tool activities, each in the era of its set. What is not named in
 * `inapplicable-scenarios.json` with a reason must pass.
 */
import { spawn } from 'node:child_process';
import { once } from 'node:events';
import { mkdtemp, readdir, readFile, rm } from 'node:fs/promises';
import { readFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { delimiter, dirname, join } from 'node:path';
import { fileURLToPath } from 'node:url';
import { afterAll, beforeAll, describe, expect, test } from '@jest/globals';
import { parse } from 'yaml';
import { moduleFile } from '../support/servers/real-servers.ts';

const ROOT = fileURLToPath(new URL('../..', import.meta.url));
const SUITE = '@modelcontextprotocol/conformance';
const REVISIONS = ['2025-11-25', '2026-07-28'] as const;
const CLIENT_MS = 60_000;

type Named = Readonly<Record<string, Readonly<Record<string, string>>>>;

// Sound: the file beside this one; the first test looks at what it names.
const named = JSON.parse(readFileSync(new URL('inapplicable-scenarios.json', import.meta.url), 'utf8')) as Named;

/** Client scenarios of a revision, those included that the suite runs without scoring them. */
function scenariosOf(revision: string): readonly string[] {
  // Sound: the shape of the suite's own requirement files; a scenario too few fails the first test.
  const required = parse(readFileSync(moduleFile(`${SUITE}/requirements/${revision}.yaml`), 'utf8')) as {
    readonly client: readonly string[];
    readonly not_scored: readonly { readonly scenario: string; readonly leg: string }[];
  };
  const unscored = required.not_scored.flatMap(({ scenario, leg }) => (leg === 'client' ? [scenario] : []));
  return [...required.client, ...unscored];
}

let folder: string;
beforeAll(async () => {
  folder = await mkdtemp(join(tmpdir(), 'conformance-results-'));
});
afterAll(async () => rm(folder, { recursive: true, force: true }));

async function suite(...args: readonly string[]): Promise<string> {
  const shim = join(ROOT, 'test/support/conformance/fs.ts');
  const child = spawn(
    process.execPath,
    ['--import', 'tsx', '--import', shim, moduleFile(`${SUITE}/dist/index.js`), ...args],
    {
      cwd: ROOT,
      env: { PATH: [dirname(process.execPath), process.env['PATH'] ?? ''].join(delimiter) },
      stdio: ['ignore', 'pipe', 'pipe'],
    },
  );
  const said: string[] = [];
  for (const stream of [child.stdout, child.stderr])
    stream.setEncoding('utf8').on('data', (text: string) => said.push(text));
  await once(child, 'close');
  return said.join('');
}

interface Check {
  readonly id: string;
  readonly status: string;
  readonly errorMessage?: string;
}

async function checksIn(directory: string): Promise<readonly Check[]> {
  const [file] = (await readdir(directory, { recursive: true })).filter((name) => name.endsWith('checks.json'));
  // Sound: what the suite writes for every scenario that it has run.
  return file === undefined ? [] : (JSON.parse(await readFile(join(directory, file), 'utf8')) as readonly Check[]);
}

test('every client scenario of the suite stands in a set or is named, and every named one exists', async () => {
  const listed = (await suite('list', '--client')).split('\n').flatMap((line) => /^ +- (\S+)/.exec(line)?.[1] ?? []);
  expect(listed.length).toBeGreaterThan(40);
  const sets = REVISIONS.flatMap((revision) => scenariosOf(revision));
  expect(listed.filter((name) => !sets.includes(name)).toSorted()).toEqual(
    Object.keys(named['in no set'] ?? {}).toSorted(),
  );
  for (const revision of REVISIONS)
    expect(scenariosOf(revision)).toEqual(expect.arrayContaining(Object.keys(named[revision] ?? {})));
  expect(Object.keys(named).toSorted()).toEqual([...REVISIONS, 'in no set']);
});

describe.each(REVISIONS)('conformance to MCP %s', (revision) => {
  const applicable = scenariosOf(revision).filter((scenario) => !Object.hasOwn(named[revision] ?? {}, scenario));

  test.each(applicable)(
    '%s',
    async (scenario) => {
      const out = join(folder, revision, scenario);
      // By `--force`, because a scenario of another revision would be left out without a word.
      const options = ['--spec-version', revision, '--force', '--timeout', `${CLIENT_MS}`, '-o', out];
      const command = 'node --import tsx test/support/conformance/client.ts';
      const said = await suite('client', '--command', command, '--scenario', scenario, ...options);
      const checks = await checksIn(out);
      expect({ said, failed: checks.filter(({ status }) => status === 'FAILURE' || status === 'WARNING') }).toEqual({
        said: expect.stringContaining('OVERALL: PASSED'),
        failed: [],
      });
      expect(checks.some(({ status }) => status === 'SUCCESS')).toBe(true);
    },
    2 * CLIENT_MS,
  );
});
