// Each break of `breaks.ts` is stopped by the layer that its row names, and by none before it (INV-D1, INV-G2).
import { execFile } from 'node:child_process';
import { readFile } from 'node:fs/promises';
import { join } from 'node:path';
import { beforeAll, expect, jest, test } from '@jest/globals';
import { bundleWorkflowCode, DefaultLogger } from '@temporalio/worker';
import { JEST } from '../../scripts/jest.mjs';
import { assertMadeHere, type WorkflowBundle, workflowFile } from '../../workers/bundle.ts';
import { bundleForReading } from '../../workers/replay/replayed-run.ts';
import { sharedBundle } from '../support/shared-bundle.ts';
import { type Break, BREAKS, type Layer } from './breaks.ts';
import { bundleMutants, withCheckout } from './mutant.ts';
import { changedAnswers, differences, mistakenAnswers, NOTICING_MS, replayFailures } from './noticing.ts';

jest.setTimeout(NOTICING_MS);

let mutantOf: Awaited<ReturnType<typeof bundleMutants>>;
beforeAll(async () => {
  const changes = BREAKS.flatMap(({ change, file }) => (change === undefined || file !== undefined ? [] : [change]));
  mutantOf = await bundleMutants(changes, bundleForReading);
});

test.each(BREAKS.map((row) => [row.name, row] as const))('%s', async (_, row) => {
  const bundle = await bundleOf(row);
  const failures = await replayFailures(bundle, row.noticedIn);
  expect(failures.map(({ message }) => shapeOf(message))).toEqual(row.temporal === undefined ? [] : [row.temporal]);
  expect(await stoppedBy(row, bundle, failures.length > 0)).toBe(row.caughtBy);
});

async function bundleOf({ change, file }: Break): Promise<WorkflowBundle> {
  if (change === undefined) return await bundledElsewhere();
  // The change is in no workflow.
  if (file !== undefined) return await sharedBundle(bundleForReading);
  return mutantOf(change);
}

/** As somebody bundles who knows Temporal's SDK alone; what shows its commands belongs to the replay. */
async function bundledElsewhere(): Promise<WorkflowBundle> {
  const { code } = await bundleWorkflowCode({
    workflowsPath: workflowFile('index'),
    workflowInterceptorModules: ['interceptors/replay-inspector', 'interceptors/replay-reader'].map(workflowFile),
    logger: new DefaultLogger('ERROR'),
  });
  return { code, buildId: 'elsewhere' };
}

/** Asks one layer after another, as a build passes them. */
async function stoppedBy(row: Break, bundle: WorkflowBundle, isReplayFailing: boolean): Promise<Layer | undefined> {
  if (isReplayFailing) return 'replay';
  if ((await differences(bundle, row.noticedIn)).length > 0) return 'comparison';
  if ((await mistakenAnswers(bundle, row.noticedIn)).length > 0) return 'questions';
  if ((await changedAnswers(bundle, row.noticedIn)).length > 0) return 'refusals';
  if (await isNoticedByTest(row)) return 'tests';
  return row.change === undefined && isRefusedAtStart(bundle) ? 'start' : undefined;
}

function isRefusedAtStart(bundle: WorkflowBundle): boolean {
  try {
    assertMadeHere(bundle);
    return false;
  } catch (error) {
    expect(error).toMatchObject({ code: 'BUNDLE_INCOMPLETE' });
    return true;
  }
}

/** Runs the test of the row in a checkout that has the change. */
async function isNoticedByTest({ change, file, test: path }: Break): Promise<boolean> {
  if (change === undefined || path === undefined) return false;
  return await withCheckout(change, file, async (folder) => {
    const report = join(folder, 'report.json');
    const args = [...JEST, path, '--json', `--outputFile=${report}`, '--runInBand'];
    await new Promise<void>((resolve) => {
      execFile(process.execPath, args, { cwd: folder }, () => resolve());
    });
    // Sound: jest writes it in this shape.
    const told = JSON.parse(await readFile(report, 'utf8')) as Record<'numPassedTests' | 'numFailedTests', number>;
    // The file was loaded and run: what fails is a claim of it, not the checkout.
    expect(told.numPassedTests).toBeGreaterThan(0);
    return told.numFailedTests > 0;
  });
}

/** Returns what Temporal says, without what it is wrapped in and without event ids. */
function shapeOf(message: string): string | undefined {
  return /\[TMPRL1100\] Nondeterminism error: ([^"]*)"/.exec(message)?.[1]?.replaceAll(/\d+/g, 'N');
}
