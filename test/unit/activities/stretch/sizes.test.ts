/** Temporal takes a payload of 2 MiB: what a stretch may have on record, and what may come on top, fit together. */
import { expect, test } from '@jest/globals';
import { MOST_RESULT_BYTES } from '../../../../activities/models/model-step.ts';
import { TURN_BYTES } from '../../../../activities/run/prepare-run.ts';
import { MOST_BEGUN_BYTES } from '../../../../activities/stretch/begin.ts';
import { Config } from '../../../../contracts/schemas/config.ts';
import { MOST_CALLS_PER_TURN } from '../../../../contracts/schemas/run-spec.ts';

/** `limit.blobSize.error` of Temporal's server. */
const PAYLOAD_BYTES = 2_097_152;
/** What a codec adds. */
const CODEC_BYTES = 4_096;
/** Ids, digests, times, message and token of a call, beside its arguments and its result. */
const CALL_BYTES = 2_048;

/** The most that a configuration may say, as its schema has it. */
function mostBytes(): number {
  const takes = (bytes: number): boolean => Config.safeParse({ execution: { stretch: { bytes } } }).success;
  let [taken, refused] = [16_384, PAYLOAD_BYTES];
  while (refused - taken > 1) {
    const middle = Math.floor((taken + refused) / 2);
    if (takes(middle)) taken = middle;
    else refused = middle;
  }
  return taken;
}

test.each([
  ['a further model step, with its verdicts', MOST_RESULT_BYTES],
  ['the results of a turn', TURN_BYTES + MOST_CALLS_PER_TURN * CALL_BYTES],
])('a full record of a first stretch has room for %s, whatever execution.stretch.bytes says', (_what, bytes) => {
  expect(mostBytes()).toBeGreaterThan(16_384);
  expect(MOST_BEGUN_BYTES + mostBytes() + bytes + CODEC_BYTES).toBeLessThan(PAYLOAD_BYTES);
});
