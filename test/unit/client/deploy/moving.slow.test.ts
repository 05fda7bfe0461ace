/** `drain --move` moves no run to a build that replays it and takes from it what every build must refuse (INV-G2). */
import { expect, test } from '@jest/globals';
import type { WorkflowBundle } from '../../../../workers/bundle.ts';
import { takeoverFault } from '../../../../workers/replay/refusals.ts';
import { bundleForReading } from '../../../../workers/replay/replayed-run.ts';
import { compareHistories } from '../../../../workers/replay/semantics.ts';
import { BREAKS } from '../../../replay/breaks.ts';
import { CONFIG, recorded } from '../../../replay/corpus.ts';
import { bundleMutant } from '../../../replay/mutant.ts';
import { sharedBundle } from '../../../support/shared-bundle.ts';

const WAITING = 'agent-run.pending';

async function faultsWith(bundle: WorkflowBundle): Promise<(Error | undefined)[]> {
  const faults: (Error | undefined)[] = [];
  for await (const history of recorded([WAITING]))
    faults.push(await takeoverFault(history, { bundle, config: CONFIG }));
  return faults;
}

test('a build with a weakened validator replays the run, and may not have it; this build may', async () => {
  const weakened = BREAKS.find(({ name }) => name === 'approve: anybody may decide')?.change;
  if (weakened === undefined) throw new Error('the break has another name');
  const bundle = await bundleMutant(weakened, bundleForReading);
  for await (const { error } of compareHistories(recorded([WAITING]), { bundle, config: CONFIG }))
    expect(error).toBeUndefined();
  const told = /takes what every build must refuse: .* by a stranger/;
  expect(await faultsWith(bundle)).toEqual([expect.objectContaining({ message: expect.stringMatching(told) })]);
  expect(await faultsWith(await sharedBundle(bundleForReading))).toEqual([undefined]);
}, 240_000);
