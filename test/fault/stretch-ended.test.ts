/**
 * A stretch whose run is stopped, cancelled or interrupted while a worker process asks the model or waits for a server
 * (docs/adr/0058): the run ends, or reads the message, and every call that left is in the ledger.
 */
import { beforeAll, expect, jest, test } from '@jest/globals';
import type { RunHandle } from '../../client/index.ts';
import { executionsOf, expectSound, type SoundOptions } from '../support/faults/oracle.ts';
import { heardItsEnd } from '../support/faults/stretches.ts';
import { startTurnProvider } from '../support/faults/turn-provider.ts';
import { startFaultWorld } from '../support/faults/world.ts';
import { startRecordingServer } from '../support/servers/recording-server.ts';
import { until } from '../support/until.ts';
import { codeOf, factsOf, replayOwn } from '../support/world/run-record.ts';
import { during } from '../support/world/during.ts';

jest.setTimeout(120_000);
const REPEATABLE: SoundOptions = { repeatable: ['lookup', 'slow'] };

const WAYS = ['finish', 'cancel', 'cancelled', 'interrupted'] as const;
type Way = (typeof WAYS)[number];

const PLANS = Object.fromEntries(
  WAYS.flatMap((way) => [
    [`step-${way}`, [['shop/lookup'], ['shop/lookup']]],
    [`call-${way}`, [['shop/lookup'], ['shop/slow']]],
  ]),
);

const shop = during(() => startRecordingServer());
const provider = during(() => startTurnProvider(PLANS));
const world = during(() =>
  startFaultWorld({
    config: {
      servers: { shop: { url: shop.url, credentials: { kind: 'none' }, repeatable: ['lookup', 'slow'] } },
      policy: { unknownOutcomes: 'record', servers: { shop: { tools: { lookup: 'allow', slow: 'allow' } } } },
      models: provider.models(),
      // The stretch ends where the scene says, however slow the machine is.
      execution: { stretch: { seconds: 300 } },
    },
  }),
);
beforeAll(async () => {
  await world.startWorker();
});

/** Ends the run, or interrupts it. */
async function end(run: RunHandle, way: Way): Promise<void> {
  if (way === 'cancelled') await run.cancel();
  else if (way === 'interrupted') await run.say({ messageId: 'm1', from: 'ann', text: 'Stop that.', interrupt: true });
  else await run.stop({ by: 'ann', reason: 'enough', inFlight: way });
}

/** Waits for the end, and checks that it is the one that was asked for. */
async function expectEnd(run: RunHandle, way: Way): Promise<void> {
  if (way === 'cancelled') expect(await codeOf(run.result())).toBe('RUN_CANCELLED');
  else expect(await run.result()).toMatchObject({ status: way === 'interrupted' ? 'completed' : 'stopped' });
}

test.each(WAYS)(
  'during a model step of a stretch (%s): the step is given up, and what was done before it is in the ledger',
  async (way) => {
    const name = `step-${way}`;
    provider.hold(name, 2);
    const run = await world.start(name);
    const { left } = await provider.held(name, 2);
    await end(run, way);
    await left;
    provider.release(name, 2);
    await expectEnd(run, way);
    const ledger = await expectSound(run, shop.calls, REPEATABLE);
    const isOver = way !== 'interrupted';
    expect(factsOf(ledger, 'dispatched').map(({ callId }) => callId)).toEqual(['t1.c0', ...(isOver ? [] : ['t2.c0'])]);
    expect(provider.turns(name)).toEqual(isOver ? [1, 2] : [1, 2, 2, 3]);
    if (!isOver) expect(provider.texts(name)).toContainEqual(expect.stringContaining('Stop that.'));
  },
);

test.each(WAYS)(
  'while a call of a stretch is held (%s): the call ends as the sender said, and every call that left is in the ledger',
  async (way) => {
    const name = `call-${way}`;
    const run = await world.start(name);
    await shop.held(name);
    await end(run, way);
    const isGivenUp = way === 'cancel' || way === 'cancelled';
    if (isGivenUp) await until(() => shop.abandoned(name) === 1, { what: 'the call that is given up' });
    else await heardItsEnd(world.client, run);
    shop.release(name);
    await expectEnd(run, way);
    const ledger = await expectSound(run, shop.calls, REPEATABLE);
    expect(factsOf(ledger, 'dispatched').map(({ callId }) => callId)).toEqual(['t1.c0', 't2.c0']);
    expect(factsOf(ledger, 'outcome').map(({ outcome }) => outcome)).toEqual([
      'succeeded',
      isGivenUp ? 'unknown' : 'succeeded',
    ]);
    expect(executionsOf(shop.calls, run, 't2.c0')).toBe(1);
    expect(provider.turns(name)).toEqual(way === 'interrupted' ? [1, 2, 3] : [1, 2]);
  },
);

test('what was left behind replays', async () => {
  await replayOwn(world);
});
