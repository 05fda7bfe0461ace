/** What goes wrong in a dispatch before its call has left, and what its run is told of that. */
import { beforeEach, describe, expect, test } from '@jest/globals';
import type { CallToolParts } from '../../../../activities/gate/send.ts';
import { ServerLimits } from '../../../../activities/limits/server-limits.ts';
import { Conditions } from '../../../../activities/policy/condition.ts';
import { CountersignError, type ErrorCode } from '../../../../contracts/errors.ts';
import { Config } from '../../../../contracts/schemas/config.ts';
import { DISPATCH_URL as url, dispatchScene } from '../../../support/activities/dispatch.ts';

const { done, partsWith, dispatched } = dispatchScene();
beforeEach(() => {
  done.length = 0;
});

describe('INV-X1: a fault of ours before a call has left is not taken for a call that may have run', () => {
  const fault = (): never => {
    throw new TypeError('with a secret in it');
  };
  class Unjudged extends Conditions {
    override asked(): never {
      return fault();
    }
  }
  class Unlimited extends ServerLimits {
    readonly #enter: () => never;
    constructor(enter: () => never) {
      super({ configured: new Map(), tell: () => {} });
      this.#enter = enter;
    }
    override enter(): never {
      return this.#enter();
    }
  }
  const asking = Config.parse({
    policy: { strategy: 'never', rules: [{ id: 'never-true', when: 'false', then: 'deny' }] },
    servers: { files: { url, credentials: { kind: 'none' } } },
  });
  const evidence = { strategy: 'none' } as const;
  test.each<[string, Partial<CallToolParts>, string[]]>([
    ['in the store', { loadToolset: async () => fault() }, []],
    ['in the catalog', { readCatalog: async () => fault() }, []],
    ['in policy', { conditions: new Unjudged(), config: asking }, []],
    ['at its limits', { limits: new Unlimited(fault) }, []],
    ['in its list', { liveTools: { current: fault } }, []],
    ['at the issuer', { broker: { mint: fault } }, ['listed']],
    [
      'once there is a token',
      {
        broker: {
          mint: async () => ({
            evidence,
            get secrets(): never {
              return fault();
            },
            release: () => void done.push('released'),
          }),
        },
      },
      ['listed', 'released'],
    ],
  ])('%s', async (_, over, then) => {
    const result = await dispatched(over);
    expect(result).toMatchObject({
      kind: 'not-sent',
      code: 'INTERNAL',
      message: expect.stringMatching(/^This worker failed before the call was sent \(TypeError\)/),
    });
    expect(JSON.stringify(result)).not.toContain('secret');
    expect(done).toEqual(then);
  });

  test('one that has a code keeps it, wherever it comes from', async () => {
    const limitsThat = (code: ErrorCode): ServerLimits =>
      new Unlimited(() => {
        throw new CountersignError(code, 'not today');
      });
    expect(await dispatched({ limits: limitsThat('POLICY_DENIED') })).toMatchObject({
      kind: 'ended',
      outcome: { kind: 'failed', code: 'POLICY_DENIED', executed: false },
    });
    expect(await dispatched({ limits: limitsThat('JUDGE_UNAVAILABLE') })).toMatchObject({
      kind: 'not-sent',
      code: 'JUDGE_UNAVAILABLE',
    });
  });

  test('what was handed to its server may have run: nobody says that it did not', async () => {
    const { server } = partsWith({});
    await expect(dispatched({ server: { ...server, call: async () => fault() } })).rejects.toThrow(TypeError);
  });
});
