// Negative controls: workflows that would break waiting runs do not pass. A replay suite that cannot fail proves nothing.
import { expect, jest, test } from '@jest/globals';
import { bundleMutant } from './mutant.ts';
import { OTHER_COMMANDS } from './mutations.ts';
import { named, NOTICING_MS, replayFailures } from './noticing.ts';
import { PAUSE_COMMANDS } from './pause-mutations.ts';
import { SIGNED_COMMANDS, SIGNED_QUESTIONS } from './signed-mutations.ts';
import { TASK_COMMANDS } from './task-mutations.ts';

jest.setTimeout(NOTICING_MS);

test.each(named([...OTHER_COMMANDS, ...PAUSE_COMMANDS, ...SIGNED_COMMANDS, ...TASK_COMMANDS]))(
  'Temporal notices: %s (INV-D1)',
  async (_, mutation) => {
    const errors = await replayFailures(await bundleMutant(mutation.change), mutation.noticedIn);
    expect(errors.map(({ name }) => name)).toEqual(['DeterminismViolationError']);
  },
);

test.each(named(SIGNED_QUESTIONS))('the proof of an answer notices: %s (INV-D1)', async (_, mutation) => {
  const errors = await replayFailures(await bundleMutant(mutation.change), mutation.noticedIn);
  expect(errors.map(({ message }) => message)).toEqual([expect.stringContaining('or this build asks something else')]);
});
