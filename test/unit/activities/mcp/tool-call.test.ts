/** A call under way: its time, its legs, and what Temporal is told of it. */
import { afterEach, beforeEach, describe, expect, jest, test } from '@jest/globals';
import { createMemoryStore } from '../../../../activities/artifacts/memory.ts';
import { toolResultOf } from '../../../../activities/mcp/classify-result.ts';
import { createMcpToolServer, sendLegs, startDeadline } from '../../../../activities/mcp/mcp-server.ts';
import type { CallProgress, ResumePoint, ToolCall, ToolInput } from '../../../../activities/mcp/port.ts';
import { pulsing, startPulse } from '../../../../activities/mcp/pulse.ts';
import type { RawAnswer } from '../../../../activities/mcp/session.ts';
import { createScrubber } from '../../../../activities/scrubbing/scrubber.ts';
import type { SealedState } from '../../../../contracts/schemas/input.ts';
import { aCall, aConnection } from '../../../support/activities/tool-call.ts';
import { BUT_INTERVALS } from '../../../support/activities/clock.ts';
import { loopbackEgress } from '../../../support/egress.ts';
import { startRawServer } from '../../../support/servers/raw-server.ts';

describe('the time of a call, which stands still while people are asked', () => {
  let passed: number;
  beforeEach(() => {
    jest.useFakeTimers();
    passed = 0;
  });
  afterEach(() => {
    jest.restoreAllMocks();
    jest.useRealTimers();
  });

  const start = (ms: number) => startDeadline(ms, () => (passed += 1));

  test('it passes once, when its time is over', () => {
    start(100);
    jest.advanceTimersByTime(99);
    expect(passed).toBe(0);
    jest.advanceTimersByTime(1_000);
    expect(passed).toBe(1);
  });

  test('held, it stands still, and what was left is left afterwards', () => {
    const deadline = start(100);
    jest.advanceTimersByTime(60);
    const goOn = deadline.hold();
    jest.advanceTimersByTime(10_000);
    goOn();
    jest.advanceTimersByTime(39);
    expect(passed).toBe(0);
    jest.advanceTimersByTime(1);
    expect(passed).toBe(1);
  });

  test('held twice, it runs when both have let go; letting go twice is letting go once', () => {
    const deadline = start(100);
    const [one, other] = [deadline.hold(), deadline.hold()];
    one();
    one();
    jest.advanceTimersByTime(10_000);
    expect(passed).toBe(0);
    other();
    jest.advanceTimersByTime(100);
    expect(passed).toBe(1);
  });

  test('held again and again without a moment between, it passes all the same', () => {
    // The clock goes on, and no timer has its turn.
    let now = 0;
    jest.spyOn(performance, 'now').mockImplementation(() => now);
    const deadline = start(100);
    for (let ms = 0; ms < 200; ms += 1) {
      deadline.hold()();
      now += 1;
    }
    expect(passed).toBe(1);
  });

  test('it knows for how long it stood still, and tells when it goes on', () => {
    let times = 0;
    const deadline = startDeadline(
      100,
      () => (passed += 1),
      () => (times += 1),
    );
    jest.advanceTimersByTime(60);
    expect(deadline.heldMs()).toBe(0);
    const [one, other] = [deadline.hold(), deadline.hold()];
    jest.advanceTimersByTime(1_000);
    expect(deadline.heldMs()).toBe(1_000);
    one();
    expect(times).toBe(0);
    jest.advanceTimersByTime(500);
    other();
    jest.advanceTimersByTime(20);
    expect(deadline.heldMs()).toBe(1_500);
    deadline.hold()();
    expect(times).toBe(2);
    const late = deadline.hold();
    deadline.stop();
    late();
    expect(times).toBe(2);
  });

  test('stopped, it passes no more, not even where it is let go afterwards', () => {
    const deadline = start(100);
    const goOn = deadline.hold();
    deadline.stop();
    goOn();
    jest.advanceTimersByTime(10_000);
    expect(passed).toBe(0);
  });
});

// Leg after leg of a call that a server answers with questions: what is taken for a refused state, and what never is
// (INV-X1).

const GOES_ON: ToolInput = {
  answers: [],
  dispatch: '1.2',
  leg: { responses: {}, state: 'state-of-the-server', used: [] },
};
const DONE: RawAnswer = { kind: 'result', result: { content: [] } };

/** A leg that brings the server's state, and what follows where the server says this of it. */
async function legsAfter(error: Omit<Extract<RawAnswer, { kind: 'error' }>, 'kind'>): Promise<readonly string[]> {
  const legs: string[] = [];
  const answers: RawAnswer[] = [{ kind: 'error', ...error }, DONE];
  await sendLegs(aCall({ input: GOES_ON }), {
    names: { server: 'shop', tool: 'order', quote: (text) => text },
    told: [],
    scrubber: () => createScrubber([]),
    send: async ({ input }: ToolCall) => {
      legs.push(input?.begunAnew === true ? 'anew' : 'leg');
      const answer = answers.shift();
      if (answer === undefined) throw new Error('one leg too many');
      return { kind: 'answered', answer };
    },
  });
  return legs;
}

const refused = (message: string): Promise<readonly string[]> => legsAfter({ code: -32_602, message });

describe('a state that is refused', () => {
  test.each([
    'Invalid or expired requestState',
    'request state has expired',
    'unknown request_state',
    'MCP error -32602: bad request-state',
  ])('%s: the call begins anew', async (message) => {
    expect(await refused(message)).toEqual(['leg', 'anew']);
  });

  test('a message of megabytes is not searched through: what is said far from its beginning is not heard', async () => {
    expect(await refused(`${'invalid '.repeat(100)} requestState`)).toEqual(['leg']);
  });

  test('of another code: it does not', async () => {
    expect(await legsAfter({ code: -32_603, message: 'Invalid requestState' })).toEqual(['leg']);
  });
});

describe('INV-X1: what may be said after the tool has run begins nothing anew', () => {
  test.each([
    'Output validation error: Invalid structured content for tool order: data/state must be string',
    'Output validation error: data/requestState must be string',
    'Invalid structured content for tool order: unknown property request_state',
    'Invalid value for field state',
    'The order is in an unknown state',
  ])('%s', async (message) => {
    expect(await refused(message)).toEqual(['leg']);
  });
});

describe('what Temporal is told while a call is under way', () => {
  afterEach(() => void jest.useRealTimers());

  const SENT: CallProgress = { phase: 'sent', sentAt: '2026-01-01T00:00:00.000Z' };
  const pointAt = (eventId: string): ResumePoint => ({
    sessionId: 'session-1',
    protocolVersion: '2025-11-25',
    requestId: 1,
    eventId,
    sentAt: '2026-01-01T00:00:00.000Z',
  });
  const sealedAs = (tag: string): SealedState => ({ protected: 'p', iv: 'i', ciphertext: 'c', tag });

  /** A seal whose answers come when the test says so. */
  function slowSeal() {
    const asked: { eventId: string; answer: (sealed: SealedState) => void; fail: () => void }[] = [];
    const seal = ({ eventId }: ResumePoint): Promise<SealedState> =>
      new Promise((answer, reject) => void asked.push({ eventId, answer, fail: () => reject(new Error('no key')) }));
    return { asked, seal };
  }

  const settle = async (): Promise<void> => void (await new Promise((resolve) => setImmediate(resolve)));

  test('the last word is repeated, where the answer comes with it', async () => {
    jest.useFakeTimers({ doNotFake: ['setImmediate'] });
    const beats: CallProgress[] = [];
    const pulse = startPulse({ heartbeat: (beat) => beats.push(beat), seal: async () => sealedAs('one') });
    pulse.say(SENT);
    pulse.keep(pointAt('e1'));
    await settle();
    pulse.say({ ...SENT, progress: 1 });
    jest.advanceTimersByTime(5_000);
    pulse.stop();
    jest.advanceTimersByTime(60_000);
    const resume = sealedAs('one');
    expect(beats).toEqual([
      { phase: 'connecting' },
      SENT,
      { ...SENT, resume },
      { ...SENT, progress: 1, resume },
      { ...SENT, progress: 1, resume },
    ]);
  });

  test('a call that ends within a second costs no heartbeat; of a longer one the newest word is told then', async () => {
    jest.useFakeTimers();
    const beats: unknown[] = [];
    let end = (): void => undefined;
    const call = pulsing(
      (beat) => beats.push(beat),
      async (_: { readonly callId: string }, pulse) => {
        pulse.say(SENT);
        await new Promise<void>((resolve) => (end = resolve));
      },
    );
    const short = call({ callId: 't1.c0' });
    jest.advanceTimersByTime(999);
    end();
    await short;
    jest.advanceTimersByTime(60_000);
    expect(beats).toEqual([]);
    const long = call({ callId: 't1.c1' });
    jest.advanceTimersByTime(1_000);
    end();
    await long;
    expect(beats).toEqual([{ ...SENT, callId: 't1.c1' }]);
  });

  test('an earlier place never takes the place of a later one; those between are not sealed at all', async () => {
    const beats: CallProgress[] = [];
    const { asked, seal } = slowSeal();
    const pulse = startPulse({ heartbeat: (beat) => beats.push(beat), seal });
    for (const eventId of ['e1', 'e2', 'e3']) pulse.keep(pointAt(eventId));
    asked[0]?.answer(sealedAs('one'));
    await settle();
    asked[1]?.answer(sealedAs('three'));
    await settle();
    pulse.stop();
    expect(asked.map(({ eventId }) => eventId)).toEqual(['e1', 'e3']);
    expect(beats.map(({ resume }) => resume?.tag)).toEqual([undefined, 'one', 'three']);
  });

  test('INV-S1: where what is sealed with it has changed, the last place is sealed anew', async () => {
    const beats: CallProgress[] = [];
    const { asked, seal } = slowSeal();
    const pulse = startPulse({ heartbeat: (beat) => beats.push(beat), seal });
    pulse.keepAgain();
    pulse.keep(pointAt('e1'));
    asked[0]?.answer(sealedAs('one'));
    await settle();
    pulse.keepAgain();
    asked[1]?.answer(sealedAs('one, with another token'));
    await settle();
    pulse.stop();
    expect(asked.map(({ eventId }) => eventId)).toEqual(['e1', 'e1']);
    expect(beats.at(-1)).toMatchObject({ resume: sealedAs('one, with another token') });
  });

  test('what cannot be sealed is not said, and the next is tried', async () => {
    const beats: CallProgress[] = [];
    const { asked, seal } = slowSeal();
    const pulse = startPulse({ heartbeat: (beat) => beats.push(beat), seal });
    pulse.keep(pointAt('e1'));
    asked[0]?.fail();
    await settle();
    pulse.keep(pointAt('e2'));
    asked[1]?.answer(sealedAs('two'));
    await settle();
    pulse.stop();
    expect(beats.map(({ resume }) => resume?.tag)).toEqual([undefined, 'two']);
  });

  test('nothing is said after the end, nor of a place that is too long, nor without a seal', async () => {
    const beats: CallProgress[] = [];
    const heartbeat = (beat: CallProgress): void => void beats.push(beat);
    const { asked, seal } = slowSeal();
    const over = startPulse({ heartbeat, seal });
    over.keep(pointAt('e1'));
    over.stop();
    asked[0]?.answer(sealedAs('one'));
    const long = startPulse({ heartbeat, seal });
    long.keep(pointAt('e'.repeat(2_048)));
    long.stop();
    const unsealed = startPulse({ heartbeat });
    unsealed.keep(pointAt('e1'));
    unsealed.stop();
    await settle();
    expect(asked).toHaveLength(1);
    expect(beats).toEqual([{ phase: 'connecting' }, { phase: 'connecting' }, { phase: 'connecting' }]);
  });
});

describe('what the adapter does with time and with faults of its own', () => {
  afterEach(() => {
    jest.useRealTimers();
  });

  test('while a server is silent, heartbeats go on with the last progress (F7)', async () => {
    jest.useFakeTimers({ doNotFake: ['Date', ...BUT_INTERVALS] });
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
});
