// Negative controls: workflows that would break waiting runs do not pass. A replay suite that cannot fail proves nothing.
import { expect, jest, test } from '@jest/globals';
import { bundleMutant } from './mutant.ts';
import { OTHER_CONTENT } from './mutations.ts';
import { differences, named, NOTICING_MS, replayFailures } from './noticing.ts';
import { PAUSE_CONTENT } from './pause-mutations.ts';
import { SIGNED_CONTENT } from './signed-mutations.ts';
import { TASK_CONTENT } from './task-mutations.ts';

jest.setTimeout(NOTICING_MS);

test.each(named([...OTHER_CONTENT, ...SIGNED_CONTENT, ...PAUSE_CONTENT, ...TASK_CONTENT]))(
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
