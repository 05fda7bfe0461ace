/** A dispatch within the limits of its server: nothing of it begins while it is held back, and its place is given back whatever happens. */
import { describe, expect, test } from '@jest/globals';
import { ServerLimits, withinLimits } from '../../../../activities/limits/server-limits.ts';
import { ListingFailure } from '../../../../activities/mcp/listing.ts';
import type { CallEnding, ToolListing, ToolServer } from '../../../../activities/mcp/port.ts';
import { ServerLimits as Limits } from '../../../../contracts/schemas/config.ts';
import type { DispatchInput, DispatchResult } from '../../../../contracts/wire/tools.ts';
import { aCall, aConnection } from '../../../support/activities/tool-call.ts';

const URL = 'https://files.example/mcp';
const DONE: DispatchResult = { kind: 'ended', outcome: { kind: 'cancelled', reason: 'of the test' } };

function desk(
  limits: (typeof Limits)['_zod']['input'],
  ending: CallEnding = { kind: 'executed', isError: false, result: { content: [] } },
  list: () => Promise<ToolListing> = async () => ({ tools: [], refused: [] }),
) {
  const gate = new ServerLimits({
    configured: new Map([[URL, { name: 'files', limits: Limits.parse(limits) }]]),
    tell: () => {},
  });
  const server: ToolServer = { call: async () => ending, list: async () => await list() };
  let dispatches = 0;
  const through = async (send: (server: ToolServer) => Promise<DispatchResult>, callTimeoutSeconds = 120) => {
    dispatches += 1;
    const input: Pick<DispatchInput, 'run' | 'server' | 'idempotencyKey' | 'attempt' | 'limits'> = {
      run: {
        namespace: 'default',
        workflowId: 'run',
        initiator: { id: 'ann', groups: [], tenant: 'acme' },
        specHash: '',
      },
      server: { name: 'files', url: URL },
      idempotencyKey: `run/${dispatches}`,
      attempt: 1,
      limits: { resultBytes: 1_024, callTimeoutSeconds },
    };
    // Sound: nothing else of a dispatch is read.
    return await withinLimits(gate, server, input as DispatchInput, send);
  };
  const call = async (callTimeoutSeconds?: number) =>
    await through(async (limited) => {
      await limited.call(aConnection({ url: URL }), aCall());
      return DONE;
    }, callTimeoutSeconds);
  return { through, call };
}

test('held back, nothing begins: no token is obtained for it (INV-S2), and it says that nothing was sent (INV-X1)', async () => {
  const { through } = desk({ concurrency: 1, waitSeconds: 60 });
  let begun = 0;
  const results = await Promise.all([
    through(async () => {
      begun += 1;
      await Promise.resolve();
      return DONE;
    }),
    through(async () => {
      begun += 1;
      return DONE;
    }),
  ]);
  expect(begun).toBe(1);
  expect(results).toMatchObject([
    DONE,
    { kind: 'not-sent', code: 'TOOL_RATE_LIMITED', held: { by: 'concurrency', atMostSeconds: 60 } },
  ]);
});

test('a dispatch that throws, or ends before it calls, gives its place back and tells nothing of the server', async () => {
  const { through, call } = desk({ concurrency: 1, breaker: { failures: 1 } });
  await expect(through(() => Promise.reject(new Error('a fault of ours')))).rejects.toThrow('a fault of ours');
  expect(
    await through(async (limited) => (await limited.list(aConnection({ url: URL }), AbortSignal.abort()), DONE)),
  ).toBe(DONE);
  expect(await call()).toBe(DONE);
});

test('of a server that fails the breaker hears, also where the call had no time only if it had enough', async () => {
  const failing = desk(
    { breaker: { failures: 1 } },
    { kind: 'unknown', code: 'OUTCOME_UNKNOWN', message: '', fault: 'failure' },
  );
  expect(await failing.call()).toBe(DONE);
  expect(await failing.call()).toMatchObject({ held: { by: 'breaker' } });
  const silent = desk(
    { breaker: { failures: 1 } },
    { kind: 'unknown', code: 'OUTCOME_UNKNOWN', message: '', fault: 'timeout' },
  );
  for (const _ of [1, 2]) expect(await silent.call(5)).toBe(DONE);
  expect(await silent.call(60)).toBe(DONE);
  expect(await silent.call(60)).toMatchObject({ held: { by: 'breaker' } });
});

describe('the list before a call', () => {
  const listed = async (server: ToolServer) =>
    await server.list(aConnection({ url: URL }), new AbortController().signal);
  const both = async (server: ToolServer): Promise<DispatchResult> => {
    await listed(server);
    await server.call(aConnection({ url: URL }), aCall());
    return DONE;
  };

  test('leaves from the place of its call, which does not wait for it; the rate counts both', async () => {
    const { through, call } = desk({ concurrency: 1, perSecond: 0.001 });
    expect(await through(both)).toBe(DONE);
    expect(await call()).toMatchObject({ held: { by: 'rate' } });
    // Two of two were used: a call of its own finds none left.
    const two = desk({ perSecond: 2 });
    expect(await two.through(both)).toBe(DONE);
    expect(await two.call()).toMatchObject({ held: { by: 'rate' } });
    // Control: without a list there is room for a second one.
    const single = desk({ perSecond: 2 });
    for (const _ of [1, 2]) expect(await single.call()).toBe(DONE);
  });

  test('tells the breaker of its server, and holds others back for the time that it asked for', async () => {
    const broken = (asked?: { code: 'TOOL_RATE_LIMITED'; ms: number }) => () =>
      Promise.reject(new ListingFailure('DISCOVERY_FAILED', 'HTTP 500', {}, { health: 'down', asked }));
    const down = desk({ breaker: { failures: 1 } }, undefined, broken());
    await expect(down.through(both)).rejects.toThrow('HTTP 500');
    expect(await down.call()).toMatchObject({ held: { by: 'breaker' } });
    const asks = desk({}, undefined, broken({ code: 'TOOL_RATE_LIMITED', ms: 60_000 }));
    await expect(asks.through(both)).rejects.toThrow('HTTP 500');
    expect(await asks.call()).toMatchObject({ held: { by: 'retry-after' } });
  });
});
