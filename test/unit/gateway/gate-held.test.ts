/** A call is held for its outcome while the token of its client counts, and no longer: its end is told to nobody then. */
import { expect, test } from '@jest/globals';
import { SKEW_SECONDS } from '../../../gateway/identity/keys.ts';
import { type Caller, type Exchange, GateCalls, type GateCallsParts } from '../../../gateway/gate/calls.ts';
import { statusOf } from '../../../gateway/gate/replies.ts';

const RUN = 'gate-00000000-0000-0000-0000-000000000001';
const HOLD_SECONDS = 3_600;
const END_MS = 60_000;

/** @param until end of the token, epoch ms */
function heldFor(until: number) {
  const ends: number[] = [];
  // Sound: these are what a call that is found by its reference uses.
  const parts = {
    tickets: {
      starterOf: async () => ({
        startedAt: new Date(),
        initiator: 'ann',
        tenant: 'default',
        servers: [],
        ticketId: 'x',
      }),
      take: async () => undefined,
    },
    outcomes: {
      endOf: async (_runId: string, { deadlineMs }: { readonly deadlineMs: number }) => {
        ends.push(Date.now() + deadlineMs);
        return undefined;
      },
      pendingOf: async () => ({ reference: RUN, status: 'running' }),
    },
    waiters: { hold: async (_person: string, wait: () => Promise<unknown>) => await wait() },
    present: async () => undefined,
  } as unknown as GateCallsParts;
  const calls = new GateCalls(parts, { holdSeconds: HOLD_SECONDS, dispatch: 'on-approval' });
  const caller: Caller = {
    asker: { id: 'ann', groups: [], tenant: 'default', may: new Set(['start']), seesAll: false, until },
    client: 'token/coder',
  };
  const exchange: Exchange = {
    gone: new AbortController().signal,
    hasLeft: () => false,
    delivered: Promise.resolve(true),
  };
  return { ends, told: async () => await calls.result(caller, RUN, exchange) };
}

test('a call is held until its token counts no more, and its client is then told that it goes on', async () => {
  const end = Date.now() + END_MS;
  const { ends, told } = heldFor(end);
  expect(statusOf((await told()).reply)).toBe('running');
  expect(ends).toHaveLength(1);
  expect(ends[0]).toBeGreaterThanOrEqual(end);
  expect(ends[0]).toBeLessThanOrEqual(end + (SKEW_SECONDS + 1) * 1_000);
});

test('a key, which has no end, is held for the whole time that the gateway states', async () => {
  const before = Date.now();
  const { ends, told } = heldFor(Number.POSITIVE_INFINITY);
  await told();
  expect(ends[0]).toBeGreaterThanOrEqual(before + HOLD_SECONDS * 1_000);
});
