/**
 * The steps of deploy/pipeline/github-actions.yml with commands that end as they may: nothing is deployed by guess, no
 * build is forgotten, and each end but a good one goes back.
 */
import { mkdtemp, rm } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { afterAll, beforeAll, expect, test } from '@jest/globals';
import { playPipeline } from '../../../support/package/played-pipeline.ts';

const NEW = 'build-new';
const OLD = 'build-old';

let folder: string;

beforeAll(async () => void (folder = await mkdtemp(join(tmpdir(), 'countersign-pipeline-'))));
afterAll(async () => await rm(folder, { recursive: true }));

interface Playing {
  /** Exit codes of commands that do not end well, by their first words. */
  readonly codes?: Readonly<Record<string, number>>;
  readonly cancelledIn?: string;
  readonly status?: object;
  /** The status once the new build takes all runs. */
  readonly after?: object;
}

const STATUS = { current: OLD, builds: [{ build: OLD, runs: 0 }] };

/** Returns how each step ended, and what was asked of the deployment. */
async function played({ codes = {}, cancelledIn, status = STATUS, after = STATUS }: Playing) {
  const asked: string[] = [];
  const answer = (args: readonly string[]) => {
    const words = args.join(' ');
    asked.push(words);
    const [, exitCode = 0] = Object.entries(codes).find(([start]) => words.startsWith(start)) ?? [];
    if (exitCode !== 0) return { exitCode, out: '', err: '' };
    const now = asked.includes(`deploy promote ${NEW}`) ? after : status;
    const outs: Readonly<Record<string, string>> = { 'deploy id': NEW, 'deploy status --json': JSON.stringify(now) };
    return { exitCode, out: outs[words] ?? '', err: '' };
  };
  const steps = await playPipeline('pipeline/github-actions.yml', {
    folder,
    vars: { TEMPORAL_ADDRESS: 'nowhere', TEMPORAL_NAMESPACE: 'agents', START_WORKERS: 'true' },
    env: {},
    answer,
    ...(cancelledIn === undefined ? {} : { cancelledIn }),
  });
  return { ends: Object.fromEntries(steps.map(({ name, status: end }) => [name, end])), asked };
}

test.each([3, 6, 70])(
  'a status that ends with %i is no first deploy: the job ends before it deploys anything',
  async (code) => {
    const { ends, asked } = await played({ codes: { 'deploy status': code } });
    expect(ends).toMatchObject({ 'Name the builds': 'failed', 'Start workers of the new build': 'skipped' });
    expect(asked).toEqual(['replay --live', 'deploy id', 'deploy status --json']);
  },
);

test.each<readonly [string, Playing]>([
  ['a deployment that nobody knows', { codes: { 'deploy status': 4 } }],
  ['one without a current build', { status: { builds: [] } }],
])('%s is a first deploy, which takes all runs at once, and has nothing to go back to', async (_, playing) => {
  const { ends, asked } = await played(playing);
  expect(ends).toMatchObject({ 'Send it a share of new runs': 'skipped', 'Send it all new runs': 'passed' });
  expect(asked).toContain(`deploy promote ${NEW}`);
  const { ends: failing, asked: tried } = await played({ ...playing, codes: { ...playing.codes, 'deploy watch': 7 } });
  expect(failing).toMatchObject({ 'Watch it again': 'failed', 'Go back': 'skipped' });
  expect(tried.filter((words) => words.includes('rollback'))).toEqual([]);
});

test('a job that is cancelled, or whose time is over, goes back', async () => {
  const { ends, asked } = await played({ cancelledIn: 'Watch it again' });
  expect(ends).toMatchObject({
    'Send it all new runs': 'passed',
    'Watch it again': 'cancelled',
    'Move the runs that wait': 'skipped',
    'Go back': 'passed',
  });
  expect(asked.at(-1)).toBe(`deploy rollback --to ${OLD}`);
});

/** As after a promotion: some runs are with the build before, and some with one of which a deploy has left some. */
const AFTER = {
  current: NEW,
  ramping: { build: 'build-share', percent: 5 },
  builds: [
    { build: NEW, runs: 9 },
    { build: 'build-share', runs: 1 },
    { build: OLD, runs: 3 },
    { build: 'build-empty', runs: 0 },
    { build: 'build-older', runs: 1 },
  ],
};

test('each build that takes no new runs and has some is drained, whatever the others leave, and what moved is watched', async () => {
  const { ends, asked } = await played({ codes: { 'deploy drain': 6 }, after: AFTER });
  expect(ends).toMatchObject({ 'Move the runs that wait': 'passed', 'Watch the runs that moved': 'passed' });
  const drained = asked.filter((words) => words.startsWith('deploy drain')).map((words) => words.split(' ')[2]);
  expect(drained).toEqual([OLD, 'build-older']);
  expect(asked.findLastIndex((words) => words.startsWith('deploy watch'))).toBe(asked.length - 1);
  expect(ends['Go back']).toBe('skipped');
});

test('a drain that finds runs that do not replay goes back', async () => {
  const { ends, asked } = await played({ codes: { 'deploy drain': 7 }, after: AFTER });
  expect(ends).toMatchObject({ 'Move the runs that wait': 'failed', 'Go back': 'passed' });
  expect(asked.filter((words) => words.startsWith('deploy drain'))).toHaveLength(1);
});
