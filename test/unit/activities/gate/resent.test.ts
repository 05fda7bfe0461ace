/** A call that may have run leaves again by itself only if its tool is repeatable when it leaves (INV-X1). */
import { describe, expect, test } from '@jest/globals';
import { Config } from '../../../../contracts/schemas/config.ts';
import { dispatchScene, DISPATCH_URL as url } from '../../../support/activities/dispatch.ts';

const AT = 1_700_000_000_000;

describe('a call that its run sends again by itself, since it was repeatable when it was judged', () => {
  const config = (repeatable: string[]) =>
    Config.parse({
      policy: { strategy: 'never' },
      servers: { files: { url, credentials: { kind: 'none' }, repeatable } },
    });
  const first = { attempt: 1, scheduledAt: AT, attemptAt: AT };

  test('leaves where the tool is repeatable', async () => {
    const { dispatched, done } = dispatchScene();
    const parts = { config: config(['write_file']) };
    expect(await dispatched(parts, { mayHaveRun: true }, first)).toMatchObject({ outcome: { kind: 'succeeded' } });
    expect(done).toContain('called');
  });

  test('does not leave where it is not any more: people are asked what became of it (INV-X1)', async () => {
    const { dispatched, done } = dispatchScene();
    expect(await dispatched({ config: config([]) }, { mayHaveRun: true }, first)).toEqual({
      kind: 'ended',
      outcome: {
        kind: 'unknown',
        code: 'OUTCOME_UNKNOWN',
        message: expect.stringContaining('not called repeatable any more'),
      },
      notRepeated: true,
    });
    expect(done).not.toContain('called');
    // Nor is that said of a call that leaves for the first time.
    expect(await dispatched({ config: config([]) }, {}, first)).toMatchObject({ outcome: { kind: 'succeeded' } });
  });
});
