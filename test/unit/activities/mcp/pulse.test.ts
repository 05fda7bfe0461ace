/** What Temporal is told while a call is under way. */
import { afterEach, expect, jest, test } from '@jest/globals';
import type { CallProgress, ResumePoint } from '../../../../activities/mcp/port.ts';
import { startPulse } from '../../../../activities/mcp/pulse.ts';
import type { SealedState } from '../../../../contracts/schemas/input.ts';

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
