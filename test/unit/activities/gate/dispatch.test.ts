/** The dispatch activity as Temporal sees it, from its first attempt to its last sign of life. */
import { afterEach, beforeEach, describe, expect, jest, test } from '@jest/globals';
import type { CallToolParts } from '../../../../activities/gate/send.ts';
import { ServerLimits } from '../../../../activities/limits/server-limits.ts';
import { ListingFailure } from '../../../../activities/mcp/listing.ts';
import type { CallProgress, ServerConnection } from '../../../../activities/mcp/port.ts';
import { Conditions } from '../../../../activities/policy/condition.ts';
import type { MintedToken, TokenRequest } from '../../../../activities/tokens/port.ts';
import { CountersignError, type ErrorCode } from '../../../../contracts/errors.ts';
import { Config, ServerLimits as Limits } from '../../../../contracts/schemas/config.ts';
import type { DispatchResult } from '../../../../contracts/wire/tools.ts';
import { dispatchScene, DISPATCH_URL as url } from '../../../support/activities/dispatch.ts';
import { fakeRun } from '../../../support/activities/held-run.ts';

// A dispatch that Temporal was made to hand out again: whoever has it now cannot know whether it has left (INV-X1).

const AT = 1_700_000_000_000;

test('control: however long it has waited for a worker, the first attempt is sent', async () => {
  const { dispatched, done } = dispatchScene();
  const tried = { attempt: 1, scheduledAt: AT, attemptAt: AT };
  expect(await dispatched({}, {}, tried)).toMatchObject({ kind: 'ended', outcome: { kind: 'succeeded' } });
  expect(done).toContain('called');
});

test.each([
  ['a later attempt', { attempt: 2, scheduledAt: AT, attemptAt: AT + 1_000 }],
  ['a later attempt of the same time', { attempt: 2, scheduledAt: AT, attemptAt: AT }],
  ['an activity that was reset, which counts its attempts anew', { attempt: 1, scheduledAt: AT, attemptAt: AT + 1 }],
])('%s is sent by nobody, and nobody is told that it did not run', async (_what, tried) => {
  const { dispatched, done } = dispatchScene();
  expect(await dispatched({}, {}, tried)).toEqual({
    kind: 'ended',
    outcome: { kind: 'unknown', code: 'OUTCOME_UNKNOWN', message: expect.stringContaining('not sent') },
  });
  expect(done).toEqual([]);
});

test('in a run that was reset it is asked anew, as each that was scheduled before: Temporal has set its time anew', async () => {
  const { dispatched, done } = dispatchScene();
  const tried = { attempt: 1, scheduledAt: AT, attemptAt: AT + 1_000 };
  const stale = { runId: 'before', decidedIn: ['before'] };
  expect(await dispatched({}, stale, tried)).toMatchObject({ kind: 'reopen', code: 'DISPATCH_STALE_RUN' });
  expect(done).toEqual([]);
});

describe.each(['stretch', 'prepareRun'])('a call that its stretch takes for repeatable (activity %s)', (activity) => {
  const config = (repeatable: string[]) =>
    Config.parse({
      policy: { strategy: 'never' },
      servers: { files: { url, credentials: { kind: 'none' }, repeatable } },
    });

  test('leaves where this worker calls it repeatable', async () => {
    const { dispatched, done } = dispatchScene();
    const tried = { attempt: 1, activity };
    expect(await dispatched({ config: config(['write_file']) }, {}, tried)).toMatchObject({ kind: 'ended' });
    expect(done).toContain('called');
  });

  test('does not leave where it does not: Temporal tries a stretch again, and the call may run only once (INV-X1)', async () => {
    const { dispatched, done } = dispatchScene();
    expect(await dispatched({ config: config([]) }, {}, { attempt: 1, activity })).toEqual({
      kind: 'not-sent',
      code: 'TOOL_UNAVAILABLE',
      message: expect.stringContaining('not called repeatable by this worker'),
    });
    expect(done).toEqual([]);
    // Nor in a later attempt, which would be sent otherwise.
    const again = { attempt: 2, scheduledAt: AT, attemptAt: AT + 1_000, activity };
    expect(await dispatched({ config: config([]) }, {}, again)).toMatchObject({ kind: 'not-sent' });
    expect(done).toEqual([]);
  });
});

describe('what goes wrong in a dispatch before its call has left, and what its run is told of that', () => {
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
});

describe('the dispatch activity as Temporal sees it: alive from first to last, and what leaves within the time in which somebody waits for it', () => {
  const { beats, done, partsWith, dispatched } = dispatchScene();

  beforeEach(() => {
    beats.length = 0;
    done.length = 0;
    // Timers and the clock; promises and all else are real.
    const doNotFake = ['nextTick', 'queueMicrotask', 'setImmediate', 'clearImmediate'] as const;
    jest.useFakeTimers({ doNotFake: [...doNotFake, 'performance', 'hrtime'] });
  });
  afterEach(() => {
    jest.useRealTimers();
  });

  /** Half a minute, in which a worker that says nothing is taken for dead; answers how often it said something. */
  function halfAMinute(): number {
    const before = beats.length;
    jest.advanceTimersByTime(29_999);
    return beats.length - before;
  }

  describe('F7, INV-X1: Temporal hears of a dispatch all the time, or it would call unknown what was never sent', () => {
    const { loadToolset, liveTools, broker } = partsWith({});
    let heard: number;
    test.each<[string, Partial<CallToolParts>]>([
      ['the store', { loadToolset: async (refs) => ((heard = halfAMinute()), await loadToolset(refs)) }],
      ['the catalog', { readCatalog: async () => void (heard = halfAMinute()) }],
      [
        'the list',
        { liveTools: { current: async (...asked) => ((heard = halfAMinute()), await liveTools.current(...asked)) } },
      ],
      ['the issuer', { broker: { mint: async (request) => ((heard = halfAMinute()), await broker.mint(request)) } }],
    ])('while %s takes its time', async (_, over) => {
      heard = 0;
      expect(await dispatched(over)).toMatchObject({ kind: 'ended', outcome: { kind: 'succeeded' } });
      expect(heard).toBeGreaterThanOrEqual(5);
    });

    test('what it hears last is how far the call came, and nothing once the dispatch is over', async () => {
      let last: CallProgress | undefined;
      await dispatched({
        server: {
          list: () => Promise.reject(new Error('not here')),
          call: async (_, { heartbeat }) => {
            heartbeat({ phase: 'sent', sentAt: '2026-01-01T00:00:00.000Z' });
            halfAMinute();
            last = beats.at(-1);
            return { kind: 'executed', isError: false, result: { content: [] } };
          },
        },
      });
      expect(last).toEqual({ callId: 't1.c0', phase: 'sent', sentAt: '2026-01-01T00:00:00.000Z' });
      expect(halfAMinute()).toBe(0);
    });
  });

  describe('INV-X1: nothing leaves when nobody would wait for its answer', () => {
    const after = (ms: number): Partial<CallToolParts> => ({
      broker: {
        mint: async (request) => {
          jest.advanceTimersByTime(ms);
          return await partsWith({}).broker.mint(request);
        },
      },
    });

    test('45 s after the dispatch began it is not sent, its token ends, and it may be tried again', async () => {
      expect(await dispatched(after(45_001))).toMatchObject({
        kind: 'not-sent',
        code: 'TOOL_UNAVAILABLE',
        message: expect.stringContaining('"write_file" was not called'),
      });
      expect(done).toEqual(['listed', 'minted', 'released']);
    });

    test('until then it is', async () => {
      expect(await dispatched(after(45_000))).toMatchObject({ kind: 'ended' });
      expect(done).toEqual(['listed', 'minted', 'called', 'released']);
    });

    test('a fresh token after a 401 that comes later is for another attempt', async () => {
      let tokens = 0;
      const result = await dispatched({
        broker: {
          mint: async () => {
            tokens += 1;
            if (tokens === 2) jest.advanceTimersByTime(45_001);
            return { accessToken: `token-${tokens}`, evidence: { strategy: 'none' }, secrets: [] };
          },
        },
        server: {
          list: () => Promise.reject(new Error('not here')),
          call: async () => {
            done.push('called');
            return { kind: 'refused', code: 'TOOL_UNAUTHORIZED', message: '401' };
          },
        },
      });
      expect(result).toMatchObject({ kind: 'not-sent', code: 'TOOL_UNAVAILABLE' });
      expect(tokens).toBe(2);
      expect(done).toEqual(['listed', 'called']);
    });
  });

  test('a refused token for which there is no other: the refusal and the reason are two sentences', async () => {
    const refusal = 'Server "files" refused tool "write_file" before it ran: the token was not accepted (HTTP 401)';
    const reason = 'No token for files: its authorization server gives none.';
    const token: MintedToken = { accessToken: 'token-1', evidence: { strategy: 'none' }, secrets: [] };
    const none = new CountersignError('TOKEN_REFUSED', reason);
    const mint = async ({ refused }: TokenRequest) => await (refused ? Promise.reject(none) : Promise.resolve(token));
    const list = async () => await Promise.reject(new Error('not here'));
    const refused = { kind: 'refused', code: 'TOOL_UNAUTHORIZED', message: refusal } as const;
    const call = async () => await Promise.resolve(refused);
    const outcome = { kind: 'failed', code: 'TOOL_UNAUTHORIZED', message: `${refusal}. ${reason}` };
    expect(await dispatched({ broker: { mint }, server: { list, call } })).toMatchObject({ kind: 'ended', outcome });
  });

  describe('behind the limits of its server', () => {
    const limitsOf = (limits: (typeof Limits)['_zod']['input']): ServerLimits =>
      new ServerLimits({
        configured: new Map([[url, { name: 'files', limits: Limits.parse(limits) }]]),
        tell: () => {},
      });

    test('INV-S2, INV-X1: while its breaker is open a call waits: nothing is listed, no token is obtained, no attempt is lost', async () => {
      const limits = limitsOf({ breaker: { failures: 1, openSeconds: 60 } });
      const down = { kind: 'not-sent', code: 'TOOL_UNAVAILABLE', message: 'no connection', fault: 'failure' } as const;
      const { server } = partsWith({});
      expect(await dispatched({ limits, server: { ...server, call: async () => down } })).toMatchObject({
        kind: 'not-sent',
        code: 'TOOL_UNAVAILABLE',
      });
      done.length = 0;
      const list = jest.fn<CallToolParts['liveTools']['current']>();
      list.mockRejectedValue(new CountersignError('TOOL_UNAVAILABLE', 'the list cannot be had'));
      expect(await dispatched({ limits, liveTools: { current: list } })).toMatchObject({
        kind: 'not-sent',
        held: { by: 'breaker' },
      });
      expect(list).not.toHaveBeenCalled();
      expect(done).toEqual([]);
    });

    test('the list before a call goes by the way that they watch: a server that cannot be listed opens its breaker', async () => {
      const limits = limitsOf({ breaker: { failures: 1, openSeconds: 60 } });
      const { server } = partsWith({});
      const away = async (): Promise<never> =>
        await Promise.reject(new ListingFailure('TOOL_UNAVAILABLE', 'no connection', {}, { health: 'down' }));
      const list: CallToolParts['liveTools']['current'] = async (
        principal,
        tool,
        _shown,
        _catalog,
        signal,
        through,
      ) => {
        const { name, url: at } = principal.server;
        await through?.list({ name, url: at, headers: {}, protocol: 'auto', secrets: [] }, signal);
        return { tool, secrets: [] };
      };
      const parts = { limits, liveTools: { current: list }, server: { ...server, list: away } };
      expect(await dispatched(parts)).toMatchObject({ kind: 'not-sent', code: 'TOOL_UNAVAILABLE' });
      expect(await dispatched(parts)).toMatchObject({ kind: 'not-sent', held: { by: 'breaker' } });
    });

    test('what may not be called is refused, and waits for nobody', async () => {
      const limits = limitsOf({ concurrency: 1 });
      const config = Config.parse({
        policy: { strategy: 'always' },
        servers: { files: { url, credentials: { kind: 'none' } } },
      });
      let refused: DispatchResult | undefined;
      await dispatched({
        limits,
        liveTools: {
          current: async (_, known) => ((refused = await dispatched({ limits, config })), { tool: known, secrets: [] }),
        },
      });
      expect(refused).toMatchObject({ kind: 'reopen', code: 'VERDICT_STRICTER' });
    });
  });

  describe('INV-S1, INV-S2: a call whose server may ask people brings a way to another token', () => {
    const config = Config.parse({
      policy: { strategy: 'never' },
      servers: { files: { url, credentials: { kind: 'given' }, elicitation: { holdSeconds: 60 } } },
    });
    const wanted: TokenRequest[] = [];
    const broker: CallToolParts['broker'] = {
      mint: (request) => {
        wanted.push(request);
        const accessToken = `token-${wanted.length}`;
        const minted: MintedToken = {
          accessToken,
          evidence: { strategy: 'given' },
          secrets: [],
          release: () => done.push(`${accessToken} released`),
        };
        return Promise.resolve(minted);
      },
    };
    const connections: ServerConnection[] = [];
    const server: CallToolParts['server'] = {
      list: () => Promise.reject(new Error('the list is asked for elsewhere')),
      call: async (connection) => {
        connections.push(connection);
        await connection.renewal?.mint('token-1');
        done.push(`called with ${connection.renewal?.secrets().join()}`);
        return { kind: 'executed', isError: false, result: { content: [] } };
      },
    };

    test('asked for as the call’s own, without what is proven of the call; both end with it, and the evidence is that of the call', async () => {
      const held = { hold: { seconds: 60 } };
      expect(await dispatched({ config, broker, server, heldRun: fakeRun() }, held)).toMatchObject({ kind: 'ended' });
      const [own, next] = wanted;
      expect(own?.call).toBeDefined();
      const { call: _, signal: __, ...rest } = own ?? {};
      expect(next).toEqual({ ...rest, signal: expect.anything(), refused: 'token-1' });
      expect(done).toEqual(['listed', 'called with token-2', 'token-2 released', 'token-1 released']);
    });

    test('any other call does not', async () => {
      connections.length = 0;
      await dispatched({ config, broker, server, heldRun: fakeRun() });
      expect(connections.map(({ renewal }) => renewal)).toEqual([undefined]);
    });
  });
});
