/** Payload encryption: what is written is read by whoever has a key, and what is not read is a mark, never an exception. */
import { expect, test } from '@jest/globals';
import type { Payload } from '@temporalio/common';
import { loadDataConverter } from '@temporalio/common/lib/internal-non-workflow/index.js';
import fc from 'fast-check';
import { codedFailureIn } from '../../../contracts/failure.ts';
import { isUndecodable, payloadConverter } from '../../../contracts/payload-converter.ts';
import { Config } from '../../../contracts/schemas/config.ts';
import { createDataConverter, createWorkerDataConverter, EncryptionCodec } from '../../../workers/codec.ts';

const KEY = Buffer.alloc(32, 7);
const codec = new EncryptionCodec([{ id: 'one', key: KEY }]);
const bytes = (text: string): Uint8Array => new TextEncoder().encode(text);

async function readBy(reader: EncryptionCodec, payload: Payload): Promise<unknown> {
  const [decoded] = await reader.decode([payload]);
  return payloadConverter.fromPayload(decoded ?? {});
}

async function sealed(value: unknown): Promise<Payload> {
  const [payload] = await codec.encode([payloadConverter.toPayload(value)]);
  return payload ?? {};
}

test('what was sealed is read with its key, also after another one came first', async () => {
  const payload = await sealed({ to: 'ann' });
  expect(Buffer.from(payload.data ?? []).includes('ann')).toBe(false);
  expect(await readBy(codec, payload)).toEqual({ to: 'ann' });
  const rotated = new EncryptionCodec([
    { id: 'two', key: Buffer.alloc(32, 8) },
    { id: 'one', key: KEY },
  ]);
  expect(await readBy(rotated, payload)).toEqual({ to: 'ann' });
});

test('what has no key here, or was changed, is told apart', async () => {
  const payload = await sealed({ to: 'ann' });
  const data = Buffer.from(payload.data ?? []);
  expect(await readBy(new EncryptionCodec([]), payload)).toMatchObject({ reason: 'sealed' });
  const flipped = Buffer.from(data);
  flipped[40] = (flipped[40] ?? 0) ^ 1;
  const changed = [flipped, data.subarray(0, 20), data.subarray(0, 3), Buffer.alloc(0)];
  for (const each of changed)
    expect(await readBy(codec, { ...payload, data: each })).toMatchObject({ reason: 'changed' });
  expect(await readBy(codec, { metadata: payload.metadata ?? {} })).toMatchObject({ reason: 'changed' });
  expect(await readBy(new EncryptionCodec([{ id: 'one', key: Buffer.alloc(32, 9) }]), payload)).toMatchObject({
    reason: 'changed',
  });
});

test('no payload makes it throw, and those of others pass unchanged', async () => {
  const anything = fc.record(
    {
      metadata: fc.oneof(
        fc.constant(null),
        fc.record(
          {
            encoding: fc.oneof(fc.uint8Array(), fc.constant(bytes('binary/countersign-aes256gcm'))),
            'key-id': fc.oneof(fc.uint8Array(), fc.constant(bytes('one'))),
          },
          { requiredKeys: [] },
        ),
      ),
      data: fc.oneof(fc.uint8Array({ maxLength: 100 }), fc.constant(null)),
    },
    { requiredKeys: [] },
  );
  await fc.assert(
    fc.asyncProperty(anything, async (payload) => {
      const [decoded] = await codec.decode([payload]);
      const isOurs = new TextDecoder().decode(payload.metadata?.encoding) === 'binary/countersign-aes256gcm';
      if (!isOurs) expect(decoded).toBe(payload);
      else expect(isUndecodable(payloadConverter.fromPayload(decoded ?? {}))).toBe(true);
    }),
  );
});

test('a client that has not the key is told which setting is missing, and is still told refusals', async () => {
  const { payloadConverter: strict, failureConverter, payloadCodecs } = createDataConverter(Config.parse({}));
  const [decoded = {}] = (await payloadCodecs[0]?.decode([await sealed('secret')])) ?? [];
  expect.assertions(4);
  try {
    strict.fromPayload(decoded);
  } catch (error) {
    expect(codedFailureIn(error)).toMatchObject({ code: 'CONFIG_INVALID', facts: { path: 'encryption.keys' } });
    expect(String(error)).toContain('is encrypted, and encryption.keys does not have its key');
    expect(String(error)).not.toContain('secret');
  }
  const failure = { message: 'No.', applicationFailureInfo: { type: 'RUN_CLOSED', details: { payloads: [decoded] } } };
  expect(codedFailureIn(failureConverter.failureToError(failure, strict))).toEqual({
    code: 'RUN_CLOSED',
    message: 'No.',
    facts: {},
  });
});

test('workers load the converters that the bundle has, by path', () => {
  const loaded = loadDataConverter(createWorkerDataConverter(Config.parse({})));
  expect(isUndecodable(loaded.payloadConverter.fromPayload({}))).toBe(true);
  expect(loaded.failureConverter.failureToError({ activityFailureInfo: {} }, loaded.payloadConverter).message).toBe(
    'A failure that cannot be read.',
  );
});
