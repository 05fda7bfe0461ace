/** A payload that cannot be read is a value, whatever its bytes: a converter that throws would stop a run for good. */
import { expect, test } from '@jest/globals';
import { ApplicationFailure, defaultPayloadConverter, type Payload } from '@temporalio/common';
import fc from 'fast-check';
import { defined } from '../../../contracts/defined.ts';
import { codedFailureIn, failureConverter, failureOf } from '../../../contracts/failure.ts';
import {
  isUndecodable,
  payloadConverter,
  UNDECODABLE,
  undecodablePayload,
} from '../../../contracts/payload-converter.ts';
import { forAll, forMany } from '../../support/for-all.ts';

const bytes = (text: string): Uint8Array => new TextEncoder().encode(text);
const json = (data: string): Payload => ({ metadata: { encoding: bytes('json/plain') }, data: bytes(data) });
const sent = (encoding: string, data?: Uint8Array): Payload => ({
  metadata: { encoding: bytes(encoding) },
  ...defined({ data }),
});

test('what can be read is written and read as the SDK does it, byte for byte', () => {
  forAll(fc.oneof(fc.jsonValue(), fc.constant(undefined), fc.uint8Array()), (value) => {
    const payload = payloadConverter.toPayload(value);
    expect(payload).toEqual(defaultPayloadConverter.toPayload(value));
    expect(payloadConverter.fromPayload(payload)).toEqual(defaultPayloadConverter.fromPayload(payload));
  });
});

test.each([
  ['no metadata', {}, 'metadata'],
  ['metadata that is null', { metadata: null }, 'metadata'],
  ['no encoding', { metadata: { other: bytes('x') }, data: bytes('{}') }, 'metadata'],
  ['an encoding without end', { metadata: { encoding: new Uint8Array(1_000) }, data: bytes('{}') }, 'metadata'],
  ['another encoding', sent('binary/encrypted', bytes('x')), 'encoding'],
  ['protobuf', sent('json/protobuf', bytes('{}')), 'encoding'],
  ['what was encrypted', sent('binary/countersign-aes256gcm', bytes('x')), 'sealed'],
  ['no data', sent('json/plain'), 'data'],
  ['no bytes', sent('json/plain', new Uint8Array()), 'json'],
  ['a brace', json('{'), 'json'],
  ['bytes that are no UTF-8', sent('json/plain', Uint8Array.of(0xff, 0xfe, 0xc0)), 'json'],
  ['too many levels', json(`${'['.repeat(1_001)}${']'.repeat(1_001)}`), 'depth'],
  ['a mark of its own', sent('countersign/undecodable', bytes('{"kind":"approve"}')), 'encoding'],
  [
    'a mark with a reason of its own',
    { metadata: { encoding: bytes('countersign/undecodable'), reason: bytes('toString') } },
    'encoding',
  ],
  ['the mark of a codec', undecodablePayload('sealed'), 'sealed'],
])('%s is a value that says why', (_what, payload, reason) => {
  const value = payloadConverter.fromPayload<unknown>(payload);
  expect(isUndecodable(value) && value.reason).toBe(reason);
  expect(isUndecodable(value) && value.says).toBe(UNDECODABLE[reason as keyof typeof UNDECODABLE]);
  // What is handed on is no more readable.
  expect(payloadConverter.fromPayload(payloadConverter.toPayload(value))).toEqual(value);
});

test('levels are counted outside of texts, and no more than are allowed are read', () => {
  expect(payloadConverter.fromPayload(json(`["${'[\\"'.repeat(2_000)}"]`))).toEqual(['["'.repeat(2_000)]);
  expect(isUndecodable(payloadConverter.fromPayload(json(`${'['.repeat(1_000)}${']'.repeat(1_000)}`)))).toBe(false);
  expect(payloadConverter.fromPayload(json(JSON.stringify(Array(2_000).fill([]))))).toHaveLength(2_000);
});

test('nothing of a payload passes for the mark', () => {
  const spoken = payloadConverter.fromPayload(json('{"reason":"sealed","Symbol(countersign.undecodable)":true}'));
  expect(isUndecodable(spoken)).toBe(false);
  const value = payloadConverter.fromPayload<object>(json('{'));
  expect(isUndecodable({ ...value })).toBe(false);
});

const metadata = fc.dictionary(
  fc.constantFrom('encoding', 'reason', 'key-id', 'messageType', '__proto__'),
  fc.oneof(
    fc.uint8Array(),
    fc.constantFrom('json/plain', 'binary/null', 'binary/plain', 'countersign/undecodable').map(bytes),
  ),
);
const payloads = fc.record(
  {
    metadata: fc.oneof(metadata, fc.constant(null)),
    data: fc.oneof(fc.uint8Array({ maxLength: 200 }), fc.json().map(bytes), fc.constant(null)),
  },
  { requiredKeys: [] },
);

test('no bytes and no metadata make it throw', () => {
  forMany({ numRuns: 2_000 }, payloads, (payload) => {
    const value = payloadConverter.fromPayload<unknown>(payload);
    if (isUndecodable(value)) expect(Object.hasOwn(UNDECODABLE, value.reason)).toBe(true);
  });
});

test.each([
  ['a child without attributes', { childWorkflowExecutionFailureInfo: {} }],
  ['an activity without a name', { activityFailureInfo: {} }],
  ['an enumeration that is none', { timeoutFailureInfo: { timeoutType: 'x' } }],
])('of %s a failure is left, at its place in the chain', (_what, broken) => {
  const read = failureConverter.failureToError(
    // Sound: the wire may bring any of it, whatever the type says.
    { message: 'outer', applicationFailureInfo: { type: 'INTERNAL' }, cause: broken as object },
    payloadConverter,
  );
  expect(read).toBeInstanceOf(ApplicationFailure);
  expect(read).toMatchObject({ type: 'INTERNAL', cause: { message: 'A failure that cannot be read.' } });
});

test('details that cannot be read leave the code, and no fact', () => {
  const wire = failureConverter.errorToFailure(failureOf('RUN_CLOSED', 'It ends.', { runId: 'r' }), payloadConverter);
  const details = { payloads: [undecodablePayload('sealed')] };
  const read = failureConverter.failureToError(
    { ...wire, applicationFailureInfo: { ...wire.applicationFailureInfo, details } },
    payloadConverter,
  );
  expect(codedFailureIn(read)).toEqual({ code: 'RUN_CLOSED', message: 'It ends.', facts: {} });
});
