/** Who replays from a folder without recorded histories, as outside of a clone, is told what to name. */
import { join } from 'node:path';
import { tmpdir } from 'node:os';
import { expect, test } from '@jest/globals';
import { historyFiles } from '../../../../workers/replay/recorded-history.ts';

test('a path that is not there is named, with what may stand in its place', async () => {
  const path = join(tmpdir(), 'no-such-histories');
  await expect(historyFiles([path])).rejects.toMatchObject({
    code: 'USAGE',
    message: expect.stringMatching(/no-such-histories\. .*temporal workflow show.*countersign replay --live$/),
  });
});
