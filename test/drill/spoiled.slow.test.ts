/** A small drill that goes wrong on purpose: it counts what the servers have done, from the release to this source. */
import { expect, test } from '@jest/globals';
import { ends, LIMIT_MS, lineOf, packFirst } from './played.ts';

packFirst();

test(
  'a call that is made twice fails the drill, which names its run',
  async () => {
    const { status, said } = await ends('--runs', '2', '--only', 'approval', '--spoil');
    expect({ status, said }).toMatchObject({
      status: 1,
      said: expect.stringContaining('approval-1 is doubled: 2 of 1'),
    });
    expect(lineOf(said, 'approval').slice(-3)).toEqual([0, 1, 0]);
  },
  LIMIT_MS,
);
