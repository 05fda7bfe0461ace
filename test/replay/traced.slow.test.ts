/** Tracing may be switched on and off while runs wait: both bundles replay every recorded history (docs/adr/0065). */
import { beforeAll, expect, test } from '@jest/globals';
import { replayHistories, type ReplayOutcome } from '../../workers/replay/replay.ts';
import { bundleTraced, sharedBundle } from '../support/shared-bundle.ts';
import { CONFIG, HISTORIES, recorded } from './corpus.ts';

/** A class of OpenTelemetry's SDK that makes spans. */
const MAKES_SPANS = 'class SpanImpl';

const replayed = new Map<string, ReplayOutcome>();

beforeAll(async () => {
  const bundle = await sharedBundle(bundleTraced);
  for await (const outcome of replayHistories(recorded(), { bundle, config: CONFIG }))
    replayed.set(outcome.name, outcome);
}, 300_000);

test('one of them makes spans, and the other does not', async () => {
  expect((await sharedBundle(bundleTraced)).code).toContain(MAKES_SPANS);
  expect((await sharedBundle()).code).not.toContain(MAKES_SPANS);
});

test.each(HISTORIES)('%s replays on the bundle that makes spans', (name) => {
  expect(replayed.get(name)).toBeDefined();
  expect(replayed.get(name)?.error?.message).toBeUndefined();
});
