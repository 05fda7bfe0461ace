/** The MAC over what workers write (docs/adr/0047): it covers all of it, and nothing that comes in passes for proven. */
import fc from 'fast-check';
import { describe, expect, test } from '@jest/globals';
import type { Payload } from '@temporalio/common';
import {
  type AnswerClaims,
  type CarryClaims,
  CLAIMS_FIELD,
  KEY_FIELD,
  MAC_FIELD,
  PROVEN_FIELD,
  UNKNOWN_KEY_FIELD,
  type ZoneClaims,
} from '../../../../contracts/zone.ts';
import { claimsText, digestOfArguments, digestOfInput, isProven } from '../../../../domain/signing/zone.ts';
import { UncheckedZoneCodec, ZoneCodec } from '../../../../workers/zone.ts';
import { forAll } from '../../../support/for-all.ts';

const keyOf = (id: string, byte: number) => ({ id, key: Buffer.alloc(32, byte).toString('base64') });
const one = new ZoneCodec([keyOf('one', 1)]);

const ANSWER: AnswerClaims = {
  kind: 'result',
  activity: 'modelStep',
  namespace: 'default',
  workflowId: 'run-1',
  chain: '0197a0d2-0000-7000-8000-000000000000',
  place: 3,
  at: 1_780_315_200_000,
  input: 'a'.repeat(64),
};
const CARRY: CarryClaims = {
  kind: 'carry',
  workflow: 'agentRun',
  namespace: 'default',
  workflowId: 'run-1',
  runId: '0197a0d2-0000-7000-8000-000000000000',
  input: 'b'.repeat(64),
};

const text = (bytes: Uint8Array | null | undefined): string | undefined =>
  bytes === null || bytes === undefined ? undefined : Buffer.from(bytes).toString('utf8');
const field = (payload: Payload, name: string): string | undefined => text(payload.metadata?.[name]);

const given = (claims: ZoneClaims, data = '{"a":1}'): Payload => ({
  metadata: { encoding: Buffer.from('json/plain'), [CLAIMS_FIELD]: Buffer.from(claimsText(claims)) },
  data: Buffer.from(data),
});
async function only(payloads: Promise<Payload[]>): Promise<Payload> {
  const [payload] = await payloads;
  if (payload === undefined) throw new Error('no payload');
  return payload;
}
const made = async (payload: Payload): Promise<Payload> => await only(one.encode([payload]));
const read = async (payload: Payload, by: ZoneCodec | UncheckedZoneCodec = one): Promise<Payload> =>
  await only(by.decode([payload]));
const provenIn = async (payload: Payload, by?: ZoneCodec): Promise<string | undefined> =>
  field(await read(payload, by), PROVEN_FIELD);

test.each([ANSWER, CARRY])('what was made is proven, value and encoding are as they were: %o', async (claims) => {
  const sent = await made(given(claims));
  expect(field(sent, 'encoding')).toBe('json/plain');
  expect(text(sent.data)).toBe('{"a":1}');
  expect(isProven(await provenIn(sent), claims)).toBe(true);
  // Nothing of it stays beside the mark, so that nothing is handed on by accident.
  expect(Object.keys((await read(sent)).metadata ?? {}).toSorted()).toEqual([PROVEN_FIELD, 'encoding'].toSorted());
});

test.each([ANSWER, CARRY])(
  'claims that differ in one field are others, and need a MAC of their own: %o',
  async (claims) => {
    const sent = await made(given(claims));
    for (const [name, value] of Object.entries(claims)) {
      const other = { ...claims, [name]: typeof value === 'number' ? value + 1 : `${String(value)}x` } as ZoneClaims;
      expect(isProven(claimsText(claims), other)).toBe(false);
      const swapped = { ...sent, metadata: { ...sent.metadata, [CLAIMS_FIELD]: Buffer.from(claimsText(other)) } };
      expect(await provenIn(swapped)).toBeUndefined();
    }
  },
);

test('a byte more, less or changed anywhere, and it is not proven', async () => {
  const sent = await made(given(ANSWER));
  const places = [CLAIMS_FIELD, MAC_FIELD, 'encoding', 'data'] as const;
  await fc.assert(
    fc.asyncProperty(fc.constantFrom(...places), fc.nat(), fc.integer({ min: 1, max: 255 }), async (place, at, by) => {
      const bytes = Buffer.from((place === 'data' ? sent.data : sent.metadata?.[place]) ?? []);
      const changed = Buffer.from(bytes);
      changed[at % bytes.length] = (changed[at % bytes.length] ?? 0) ^ by;
      for (const other of [changed, bytes.subarray(1), Buffer.concat([bytes, Buffer.from([by])])]) {
        const altered =
          place === 'data' ? { ...sent, data: other } : { ...sent, metadata: { ...sent.metadata, [place]: other } };
        expect(await provenIn(altered)).toBeUndefined();
      }
    }),
  );
});

test('a byte that moves from one part to the next is seen', async () => {
  const sent = await made(given(ANSWER));
  const claims = Buffer.from(sent.metadata?.[CLAIMS_FIELD] ?? []);
  const encoding = Buffer.concat([claims.subarray(-1), Buffer.from('json/plain')]);
  const moved = { ...sent, metadata: { ...sent.metadata, [CLAIMS_FIELD]: claims.subarray(0, -1), encoding } };
  expect(await provenIn(moved)).toBeUndefined();
});

test('marks that come in are taken off, whatever else comes', async () => {
  const mark = Buffer.from(claimsText(ANSWER));
  const plain: Payload = {
    metadata: { encoding: Buffer.from('json/plain'), [PROVEN_FIELD]: mark },
    data: Buffer.from('1'),
  };
  expect(await provenIn(plain)).toBeUndefined();
  expect(field(await read({ ...plain, metadata: { [UNKNOWN_KEY_FIELD]: mark } }), UNKNOWN_KEY_FIELD)).toBeUndefined();
  // On the way out, too: what was read is not written on as a mark.
  expect(field(await made(plain), PROVEN_FIELD)).toBeUndefined();
});

test('only what has claims is given a MAC, and nothing that was given one elsewhere keeps it', async () => {
  const plain: Payload = { metadata: { encoding: Buffer.from('json/plain') }, data: Buffer.from('1') };
  expect(await made(plain)).toBe(plain);
  const sent = await made(given(ANSWER));
  const again = await made({ ...given(CARRY), metadata: { ...sent.metadata, ...given(CARRY).metadata } });
  expect(await provenIn(again)).toBe(claimsText(CARRY));
});

test('keys rotate: the first makes, all verify; of one that is not here that is said', async () => {
  const sent = await made(given(ANSWER));
  const rotated = new ZoneCodec([keyOf('two', 2), keyOf('one', 1)]);
  expect(await provenIn(sent, rotated)).toBe(claimsText(ANSWER));
  const next = await only(rotated.encode([given(ANSWER)]));
  expect(field(next, KEY_FIELD)).toBe('two');
  const marked = await read(next);
  expect([field(marked, PROVEN_FIELD), field(marked, UNKNOWN_KEY_FIELD)]).toEqual([undefined, 'two']);
  // Another key of that name is none.
  expect(await provenIn(sent, new ZoneCodec([keyOf('one', 3)]))).toBeUndefined();
});

test('a worker without keys proves nothing and believes nothing; a replay without keys takes what has a MAC', async () => {
  const none = new ZoneCodec([]);
  const bare = await only(none.encode([given(ANSWER)]));
  expect(Object.keys(bare.metadata ?? {})).toEqual(['encoding']);
  expect(await provenIn(await made(given(ANSWER)), none)).toBeUndefined();
  const unchecked = new UncheckedZoneCodec();
  expect(field(await read(await made(given(ANSWER)), unchecked), PROVEN_FIELD)).toBe(claimsText(ANSWER));
  expect(field(await read(given(ANSWER), unchecked), PROVEN_FIELD)).toBeUndefined();
});

test('no payload makes it throw', async () => {
  const bytes = fc.option(fc.uint8Array({ maxLength: 40 }), { nil: null });
  const metadata = fc.option(fc.dictionary(fc.constantFrom('encoding', CLAIMS_FIELD, MAC_FIELD, KEY_FIELD), bytes), {
    nil: null,
  });
  await fc.assert(
    fc.asyncProperty(fc.record({ metadata, data: bytes }, { requiredKeys: [] }), async (payload) => {
      // Sound: whatever comes over the wire.
      expect(await provenIn(payload as Payload)).toBeUndefined();
    }),
  );
});

test('a digest is of what was given, as JSON, and the same once it was read (INV-D4: but for what a reset changes)', () => {
  forAll(fc.array(fc.jsonValue(), { maxLength: 3 }), (args) => {
    const copy = JSON.parse(JSON.stringify(args)) as unknown[];
    expect(digestOfInput(copy)).toBe(digestOfInput(args));
    expect(digestOfArguments(copy)).toBe(digestOfArguments(args));
  });
  expect(digestOfInput([{ a: 1, runId: 'x', decidedIn: ['x'] }])).toBe(
    digestOfInput([{ a: 1, runId: 'y', decidedIn: [] }]),
  );
  expect(digestOfInput([{ a: 1, b: { runId: 'x' } }])).not.toBe(digestOfInput([{ a: 1, b: { runId: 'y' } }]));
  expect(digestOfArguments([{ runId: 'x' }])).not.toBe(digestOfArguments([{ runId: 'y' }]));
});

/** A value counts for one place alone: claims that differ in any field are the claims of something else (INV-G1, ADR 0047). */
describe('claims', () => {
  describe('a value that is proven', () => {
    test('counts where it was made for', () => {
      for (const claims of [ANSWER, CARRY]) expect(isProven(claimsText(claims), { ...claims })).toBe(true);
    });

    test.each<readonly [string, ZoneClaims]>([
      ['as a failure', { ...ANSWER, kind: 'failure' }],
      ['of another activity', { ...ANSWER, activity: 'callTool' }],
      ['in another namespace', { ...ANSWER, namespace: 'other' }],
      ['in another run', { ...ANSWER, workflowId: 'run-2' }],
      ['in another execution', { ...ANSWER, chain: 'chain-2' }],
      ['at another place', { ...ANSWER, place: 4 }],
      ['at a place that a reset has made anew', { ...ANSWER, at: ANSWER.at + 1 }],
      ['for another question', { ...ANSWER, input: 'c'.repeat(64) }],
      ['as what an execution hands on', CARRY],
    ])('does not count %s', (_, other) => {
      expect(isProven(claimsText(ANSWER), other)).toBe(false);
    });

    test('does not count where nothing proves it', () => {
      expect(isProven(undefined, ANSWER)).toBe(false);
    });
  });

  test('claims are one text of ASCII, whatever names stand in them, and no two claims have the same', () => {
    forAll(fc.string({ unit: 'binary' }), fc.string({ unit: 'binary' }), (id, other) => {
      const said = claimsText({ ...ANSWER, workflowId: id });
      expect(said).toMatch(/^[\x20-\x7e]*$/);
      expect(JSON.parse(said)).toEqual({ ...ANSWER, workflowId: id });
      expect(said === claimsText({ ...ANSWER, workflowId: other })).toBe(id === other);
    });
  });

  describe('the digest of what an activity is given', () => {
    test('leaves out which Temporal run asks: an answer of before a reset still counts (INV-D4)', () => {
      const input = { callId: 't1.c0', arguments: { to: 'ann' } };
      const asked = digestOfInput([{ ...input, runId: 'one', decidedIn: ['one'] }]);
      expect(digestOfInput([{ ...input, runId: 'two', decidedIn: ['one', 'two'] }])).toBe(asked);
      expect(digestOfInput([{ ...input, arguments: { to: 'bob' }, runId: 'one', decidedIn: ['one'] }])).not.toBe(asked);
    });

    test('is of all that is given', () => {
      expect(digestOfInput(['acme'])).toBe(digestOfArguments(['acme']));
      expect(digestOfInput(['acme'])).not.toBe(digestOfInput(['other']));
      expect(digestOfInput([{}, 'more'])).not.toBe(digestOfInput([{}]));
    });
  });
});
