/**
 * The MCP project's own client scenarios against the tool activities, each in the era of its set. What is not named in
 * `inapplicable-scenarios.json` with a reason must pass.
 */
import { mkdtemp, rm } from 'node:fs/promises';
import { readFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { isAbsolute, join, relative } from 'node:path';
import { afterAll, beforeAll, describe, expect, test } from '@jest/globals';
import { checksIn, listedScenarios, type Named, REVISIONS, scenariosOf, suite } from '../support/conformance/suite.ts';
import { programArgs } from '../support/program.ts';

const CLIENT_MS = 60_000;

// Sound: the file beside this one; the first test looks at what it names.
const named = JSON.parse(readFileSync(new URL('inapplicable-scenarios.json', import.meta.url), 'utf8')) as Named;

let folder: string;
beforeAll(async () => {
  folder = await mkdtemp(join(tmpdir(), 'conformance-results-'));
});
afterAll(async () => rm(folder, { recursive: true, force: true }));

test('every client scenario of the suite stands in a set or is named, and every named one exists', async () => {
  const listed = await listedScenarios('client');
  expect(listed.length).toBeGreaterThan(40);
  const sets = REVISIONS.flatMap((revision) => scenariosOf(revision, 'client'));
  expect(listed.filter((name) => !sets.includes(name)).toSorted()).toEqual(
    Object.keys(named['in no set'] ?? {}).toSorted(),
  );
  for (const revision of REVISIONS)
    expect(scenariosOf(revision, 'client')).toEqual(expect.arrayContaining(Object.keys(named[revision] ?? {})));
  expect(Object.keys(named).toSorted()).toEqual([...REVISIONS, 'in no set']);
});

describe.each(REVISIONS)('conformance to MCP %s', (revision) => {
  const applicable = scenariosOf(revision, 'client').filter(
    (scenario) => !Object.hasOwn(named[revision] ?? {}, scenario),
  );

  test.each(applicable)(
    '%s',
    async (scenario) => {
      const out = join(folder, revision, scenario);
      // By `--force`, because a scenario of another revision would be left out without a word.
      const options = ['--spec-version', revision, '--force', '--timeout', `${CLIENT_MS}`, '-o', out];
      // The suite splits it at spaces, which the folder of the repository may have, and runs it there.
      const args = programArgs('test/support/conformance/client.ts');
      const command = ['node', ...args.map((arg) => (isAbsolute(arg) ? relative(process.cwd(), arg) : arg))].join(' ');
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
