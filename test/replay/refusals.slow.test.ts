// Whatever a run refused when it was recorded, it refuses today, with the same code; what it took, it takes (INV-G2).
//
// A refused update never enters history, so no replay sees a validator: a build that lets everything pass replays
// green. Here each recorded input is put to the recorded run again: the history, one task longer, in which the update
// arrives (`ask-again.ts`). This asks the validator of this code, in the state, the Temporal run and at the time of the
// recording, with the digests of the recording. It proves that waiting runs go on refusing after a deploy. It does not
// prove that the server drops what is refused; that was seen when the inputs were recorded, and is tested on a live run
// in test/workflow/.
import { beforeAll, expect, test } from '@jest/globals';
import { bundleForReading } from '../../workers/replay/replayed-run.ts';
import { sharedBundle } from '../support/shared-bundle.ts';
import { type Answered, askAgain } from './ask-again.ts';
import { HISTORIES, inputsOf } from './corpus.ts';

/** With which a run that goes on refuses a message. */
const CODES = [
  'ALREADY_DECIDED',
  'APPROVER_NOT_ENTITLED',
  'ARGUMENTS_TOO_LARGE',
  'CALL_UNKNOWN',
  'CATALOG_FORBIDDEN',
  'CATALOG_INVALID',
  'CATALOG_VERSION_CONFLICT',
  'DECISION_EXPIRED',
  'DECISION_INVALID',
  'DECISION_NOT_PERMITTED',
  'DECISION_STALE_RUN',
  'DIGEST_MISMATCH',
  'EXTENSION_FORBIDDEN',
  'LIMIT_REACHED',
  'MESSAGE_INVALID',
  'REQUEST_NOT_OPEN',
  'RUN_CLOSED',
  'SIGNATURE_INVALID',
  'SIGNATURE_MISSING',
  'SIGNER_NOT_ENTITLED',
  'STANDING_UNKNOWN',
  'TRUST_KEY_UNKNOWN',
];

const answers: Answered[] = [];

beforeAll(async () => {
  for await (const answer of askAgain(HISTORIES, await sharedBundle(bundleForReading))) answers.push(answer);
  // Every history once more with each of its inputs: minutes on a busy machine.
}, 300_000);

test.each(HISTORIES)('%s: answers are those of the recording', async (name) => {
  const { refused, accepted } = await inputsOf(name);
  const own = answers.filter(({ history }) => history === name);
  expect(own).toHaveLength(refused.filter(({ answeredBy }) => answeredBy === 'run').length + accepted.length);
  expect(own.filter(({ expected, answer }) => expected !== answer)).toEqual([]);
});

test('each of these codes is given somewhere in the corpus, and no other', () => {
  const codes = new Set(answers.map(({ expected }) => expected));
  codes.delete('accepted');
  expect([...codes].sort()).toEqual(CODES);
});

test('a run that is over refuses, too', async () => {
  const over = (await Promise.all(HISTORIES.map(inputsOf))).flatMap(({ refused }) =>
    refused.filter(({ answeredBy }) => answeredBy === 'engine'),
  );
  expect(new Set(over.map(({ code }) => code))).toEqual(new Set(['RUN_CLOSED']));
});
