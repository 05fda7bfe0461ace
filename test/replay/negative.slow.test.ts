// Negative controls: workflows that would break waiting runs do not pass. A replay suite that cannot fail proves nothing.
import { expect, jest, test } from '@jest/globals';
import { bundleMutant } from './mutant.ts';
import { OTHER_COMMANDS, OTHER_CONTENT, OTHER_REFUSALS } from './mutations.ts';
import { changedAnswers, differences, named, NOTICING_MS, replayFailures } from './noticing.ts';
import { PAUSE_COMMANDS, PAUSE_CONTENT, PAUSE_REFUSALS } from './pause-mutations.ts';
import { SIGNED_COMMANDS, SIGNED_CONTENT, SIGNED_QUESTIONS, SIGNED_REFUSALS } from './signed-mutations.ts';
import { STRETCH_COMMANDS, STRETCH_CONTENT } from './stretch-mutations.ts';
import { TASK_COMMANDS, TASK_CONTENT } from './task-mutations.ts';

jest.setTimeout(NOTICING_MS);

test.each(named([...OTHER_COMMANDS, ...PAUSE_COMMANDS, ...SIGNED_COMMANDS, ...TASK_COMMANDS, ...STRETCH_COMMANDS]))(
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

// Negative controls: workflows that would break waiting runs do not pass. A replay suite that cannot fail proves nothing.

test.each(named([...OTHER_CONTENT, ...SIGNED_CONTENT, ...PAUSE_CONTENT, ...TASK_CONTENT, ...STRETCH_CONTENT]))(
  'the comparison notices, and Temporal does not: %s (INV-D1)',
  async (_, mutation) => {
    const bundle = await bundleMutant(mutation.change);
    expect(await replayFailures(bundle, mutation.noticedIn)).toEqual([]);
    const messages = (await differences(bundle, mutation.noticedIn)).map(({ message }) => message);
    expect(messages).not.toEqual([]);
    // Where, and never what: values are prompts and arguments.
    for (const message of messages)
      expect(message).toMatch(
        /^Event \d+, [a-zA-Z -]+, differs at [\w./[\]]+: this code would do otherwise than the run has done\.$/,
      );
  },
);

// Negative controls: workflows that would break waiting runs do not pass. A replay suite that cannot fail proves nothing.

test.each(named([...OTHER_REFUSALS, ...SIGNED_REFUSALS, ...PAUSE_REFUSALS]))(
  'asking again notices, and no replay does: %s (INV-D1)',
  async (_, mutation) => {
    const bundle = await bundleMutant(mutation.change);
    expect(await differences(bundle, mutation.noticedIn)).toEqual([]);
    expect(await changedAnswers(bundle, mutation.noticedIn)).not.toEqual([]);
  },
);
