/** What the adapter does with time and with faults of its own. */
import { afterEach, expect, jest, test } from '@jest/globals';
import { createMemoryStore } from '../../../../activities/artifacts/memory.ts';
import { createScrubber } from '../../../../activities/scrubbing/scrubber.ts';
import { toolResultOf } from '../../../../activities/mcp/classify-result.ts';
import { createMcpToolServer } from '../../../../activities/mcp/mcp-server.ts';
import { loopbackEgress } from '../../../support/egress.ts';
import { aCall, aConnection } from '../../../support/activities/tool-call.ts';
import { startRawServer } from '../../../support/servers/raw-server.ts';

afterEach(() => {
  jest.useRealTimers();
});

test('while a server is silent, heartbeats go on with the last progress (F7)', async () => {
  jest.useFakeTimers({
    doNotFake: [
      'Date',
      'nextTick',
      'queueMicrotask',
      'setImmediate',
      'clearImmediate',
      'setTimeout',
      'clearTimeout',
      'performance',
      'hrtime',
    ],
  });
  const call = aCall();
  const server = await startRawServer({
    era: 'modern',
    onCall: ({ result }) => {
      jest.advanceTimersByTime(60_000);
      result({ content: [] });
    },
  });
  await createMcpToolServer({ artifacts: createMemoryStore(), egress: loopbackEgress() }).call(
    aConnection({ url: server.url }),
    call,
  );
  await server.close();
  expect(call.beats.filter(({ phase }) => phase === 'sent').length).toBeGreaterThanOrEqual(3);
  // And they end with the call.
  const before = call.beats.length;
  jest.advanceTimersByTime(60_000);
  expect(call.beats.length).toBe(before);
});

test('whatever goes wrong while a result is read, the tool has run', async () => {
  const hostile = new Proxy(
    {},
    {
      get: () => {
        throw new Error('unreadable');
      },
    },
  );
  const result = await toolResultOf(hostile, {
    artifacts: createMemoryStore(),
    scrub: createScrubber([]),
    signal: new AbortController().signal,
    maxBytes: 1_000,
  });
  expect(result.warnings).toEqual(['the result could not be read']);
});

test('no timer but the deadline ends a call: not the 60 s of the SDK, not the 300 s of undici (typescript-sdk#2250, LibreChat#9476)', async () => {
  jest.useFakeTimers({ doNotFake: ['Date', 'nextTick', 'queueMicrotask', 'setImmediate', 'clearImmediate'] });
  const server = await startRawServer({
    era: 'modern',
    onCall: ({ result }) => {
      // Several ticks, since a timer may be set anew by the one before it.
      for (let minute = 0; minute < 30; minute += 1) jest.advanceTimersByTime(60_000);
      setImmediate(() => result({ content: [{ type: 'text', text: 'done at last' }] }));
    },
  });
  const call = aCall({ timeoutMs: 3_600_000 });
  const ending = await createMcpToolServer({ artifacts: createMemoryStore(), egress: loopbackEgress() }).call(
    aConnection({ url: server.url }),
    call,
  );
  jest.useRealTimers();
  await server.close();
  expect(ending).toMatchObject({ kind: 'executed', isError: false });
});
