// `countersign replay --live` of a checkout with a breaking change stops the build before a worker of it takes a task
// (INV-D1, INV-G2).
import { execFile } from 'node:child_process';
import { afterAll, beforeAll, expect, jest, test } from '@jest/globals';
import { type CliWorld, pay, startCliWorld } from '../support/scenes/cli-world.ts';
import { ROOT } from '../support/syntax.ts';
import { until } from '../support/until.ts';
import { BREAKS, type Layer } from './breaks.ts';
import { withCheckout } from './mutant.ts';

// Each makes a checkout and a bundle in another process.
jest.setTimeout(240_000);

let service: CliWorld;
/** Runs that wait: one has asked twice, one has had an answer. */
const RUNS = ['asks', 'answered'];

beforeAll(async () => {
  service = await startCliWorld();
  await service.waiting('asks', [pay('rent'), pay('power')]);
  await service.waiting('answered', [pay('rent'), pay('power')]);
  await service.approve('answered', 't1.c0');
  for (const id of RUNS) await until(async () => (await isAtRest(id)) || undefined, { what: `rest of ${id}` });
}, 120_000);
afterAll(async () => service.stop());

interface Replayed {
  readonly exitCode: number;
  readonly results: readonly { readonly workflowId: string; readonly ok: boolean; readonly error?: string }[];
}

test('control: this checkout passes', async () => {
  const { exitCode, results } = await replayedBy(ROOT);
  expect(results.map(({ workflowId }) => workflowId).toSorted()).toEqual(['answered', 'asks']);
  expect(results.filter(({ ok }) => !ok)).toEqual([]);
  expect(exitCode).toBe(0);
});

const STOPPED: readonly (readonly [name: string, by: Layer, error: RegExp, runs: readonly string[]])[] = [
  ['two commands change places: memo before search attributes', 'replay', /TMPRL1100/, ['answered', 'asks']],
  [
    'another payload of an answer: it names somebody else',
    'comparison',
    /answer to an update, differs at answer\[0\]\.decidedBy/,
    ['answered'],
  ],
  [
    'approve: anybody may decide',
    'questions',
    /takes what every build must refuse: .* by a stranger/,
    ['answered', 'asks'],
  ],
];

test.each(STOPPED)('%s', async (name, by, error, runs) => {
  const row = BREAKS.find((each) => each.name === name && each.caughtBy === by);
  if (row?.change === undefined) throw new Error(`no break is named ${name}`);
  const before = await Promise.all(RUNS.map(eventsOf));
  const { exitCode, results } = await withCheckout(row.change, row.file, replayedBy);
  expect(exitCode).toBe(7);
  const failed = results.filter(({ ok }) => !ok);
  expect(failed.map(({ workflowId }) => workflowId).toSorted()).toEqual(runs);
  for (const each of failed) expect(each.error).toMatch(error);
  // Nobody has taken a task, and nothing was sent to the runs.
  expect(await Promise.all(RUNS.map(eventsOf))).toEqual(before);
});

/** Runs the command of that checkout, in its own process and folder. */
async function replayedBy(folder: string): Promise<Replayed> {
  const { address, namespace } = service.world.engine.server;
  const command = ['scripts/run.mjs', 'cli/main.ts', 'replay', '--live', '--json'];
  const where = ['--address', address, '--namespace', namespace];
  return await new Promise((resolve, reject) => {
    const child = execFile(process.execPath, [...command, ...where], { cwd: folder }, (_error, out, err) => {
      if (!out.startsWith('{')) return reject(new Error(`${out}${err}`));
      // Sound: the one document that --json promises.
      const { results } = JSON.parse(out) as Pick<Replayed, 'results'>;
      return resolve({ exitCode: child.exitCode ?? -1, results });
    });
  });
}

async function eventsOf(id: string): Promise<number> {
  const { events } = await service.world.client.workflow.getHandle(id).fetchHistory();
  return events?.length ?? 0;
}

async function isAtRest(id: string): Promise<boolean> {
  const { raw } = await service.world.client.workflow.getHandle(id).describe();
  return !raw.pendingWorkflowTask && (raw.pendingActivities ?? []).length === 0;
}
