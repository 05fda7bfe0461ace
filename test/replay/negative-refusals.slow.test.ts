// Negative controls: workflows that would break waiting runs do not pass. A replay suite that cannot fail proves nothing.
import { expect, jest, test } from '@jest/globals';
import { bundleMutant } from './mutant.ts';
import { OTHER_REFUSALS } from './mutations.ts';
import { changedAnswers, differences, named, NOTICING_MS } from './noticing.ts';
import { PAUSE_REFUSALS } from './pause-mutations.ts';
import { SIGNED_REFUSALS } from './signed-mutations.ts';

jest.setTimeout(NOTICING_MS);

test.each(named([...OTHER_REFUSALS, ...SIGNED_REFUSALS, ...PAUSE_REFUSALS]))(
  'asking again notices, and no replay does: %s (INV-D1)',
  async (_, mutation) => {
    const bundle = await bundleMutant(mutation.change);
    expect(await differences(bundle, mutation.noticedIn)).toEqual([]);
    expect(await changedAnswers(bundle, mutation.noticedIn)).not.toEqual([]);
  },
);
