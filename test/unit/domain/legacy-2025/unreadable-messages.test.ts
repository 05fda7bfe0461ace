/** Whatever bytes somebody sends as a message: it is read as one, or refused with a reason; nothing throws. */
import fc from 'fast-check';
import * as messages from '../../../../domain/shapes/inputs.ts';
import { expect, test } from '@jest/globals';
import type { Payload } from '@temporalio/common';
import {
  isUndecodable,
  payloadConverter,
  Undecodable,
  UNDECODABLE,
  type UndecodableReason,
} from '../../../../contracts/payload-converter.ts';
import { heldWord } from '../../../../domain/legacy-2025/open-question.ts';
import { lostAnswer } from '../../../../domain/legacy-2025/resumption.ts';
import { isFields } from '../../../../domain/shapes/inputs.ts';
import { openMessage } from '../../../../domain/signing/message.ts';
import { startRun } from '../../../../domain/state/run.ts';
import { forMany } from '../../../support/for-all.ts';

const PARSERS: readonly ((value: unknown) => messages.Parsed<unknown>)[] = [
  messages.parseAuthorization,
  messages.parseCatalogDecision,
  messages.parseClaims,
  messages.parseConnect,
  messages.parseDecision,
  messages.parseDisconnect,
  messages.parseForget,
  messages.parseHeldQuestions,
  messages.parsePolicies,
  messages.parseProvision,
  messages.parseRefresh,
  messages.parseResolution,
  messages.parseSay,
  messages.parseStop,
];
// Sound: each key of the table is one.
const REASONS = Object.keys(UNDECODABLE) as UndecodableReason[];

test.each(REASONS)('what cannot be read (%s) is refused for that, by every parser', (reason) => {
  const unread = new Undecodable(reason);
  for (const parse of PARSERS) expect(parse(unread)).toEqual({ kind: 'bad', path: '', reason: UNDECODABLE[reason] });
  expect(openMessage(unread)).toEqual({ message: unread });
  expect(heldWord(startRun(0), unread)).toEqual({ kind: 'closed' });
  expect(lostAnswer('Lost.', unread)).toEqual(lostAnswer('Lost.', undefined));
});

test('bytes are no fields, however many', () => {
  const bytes = new Uint8Array(3_000_000);
  expect(isFields(bytes)).toBe(false);
  expect(openMessage(bytes)).toEqual({ message: bytes });
  for (const parse of PARSERS) expect(parse(bytes)).toMatchObject({ kind: 'bad', reason: 'must be an object' });
});

const names = fc.constantFrom(
  'kind',
  'approver',
  'by',
  'arguments',
  'responses',
  'grant',
  'signature',
  '__proto__',
  'a',
);
const { message } = fc.letrec<{ readonly message: unknown }>((tie) => ({
  message: fc.oneof(
    { depthSize: 'small' },
    fc.constantFrom('approve', 'provide', 'grant', 'accept', 't1.c0'),
    fc.jsonValue(),
    fc.array(tie('message'), { maxLength: 4 }),
    fc.dictionary(names, tie('message'), { maxKeys: 8 }),
  ),
}));
const data = fc.oneof(
  message.map((value) => new TextEncoder().encode(JSON.stringify(value))),
  fc.uint8Array({ maxLength: 60 }),
);
const encoding = fc.oneof(
  { weight: 8, arbitrary: fc.constant('json/plain') },
  fc.constantFrom('binary/plain', 'binary/null', 'countersign/undecodable', 'binary/encrypted', ''),
);

test('no payload makes a parser throw', () => {
  forMany({ numRuns: 1_000 }, encoding, data, (named, bytes) => {
    const payload: Payload = { metadata: { encoding: new TextEncoder().encode(named) }, data: bytes };
    const value = payloadConverter.fromPayload<unknown>(payload);
    const { message: opened } = openMessage(value);
    for (const parse of PARSERS) {
      const kinds = [parse(value).kind, parse(opened).kind];
      if (isUndecodable(value)) expect(kinds).toEqual(['bad', 'bad']);
    }
    expect(heldWord(startRun(0), value)).toEqual({ kind: 'closed' });
    expect(lostAnswer('Lost.', value)).toMatchObject({ kind: 'ended', outcome: { kind: 'unknown' } });
  });
});
