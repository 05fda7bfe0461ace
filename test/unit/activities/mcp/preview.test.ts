/** Previews of large results: bounded, cut between characters, honest about what is missing. */
import { expect, test } from '@jest/globals';
import fc from 'fast-check';
import { previewOf } from '../../../../activities/mcp/classify-result.ts';
import type { ResultPart } from '../../../../contracts/schemas/call.ts';

const full = { sha256: 'a'.repeat(64), bytes: 1, contentType: 'application/json' };
const text = fc.string({ unit: 'binary', maxLength: 3_000 }).map((value) => value.replaceAll(/\p{Surrogate}/gu, ''));
const part: fc.Arbitrary<ResultPart> = fc.oneof(
  text.map((value): ResultPart => ({ type: 'text', text: value })),
  text.map((value): ResultPart => ({ type: 'resource', uri: 'file:///a', text: value })),
  fc.constant<ResultPart>({ type: 'image', mimeType: 'image/png', artifact: full }),
);

test('a preview never takes more bytes than it may, and stays well-formed', () => {
  fc.assert(
    fc.property(
      fc.array(part, { maxLength: 20 }),
      fc.integer({ min: 256, max: 8_192 }),
      fc.boolean(),
      fc.boolean(),
      (content, maxBytes, stored, shared) => {
        const whole = { content, bytes: 10_000_000, ...(stored ? { full } : {}), ...(shared ? { sharedBy: 64 } : {}) };
        const preview = previewOf(whole, maxBytes);
        const json = JSON.stringify(preview);
        expect(Buffer.byteLength(json)).toBeLessThanOrEqual(maxBytes);
        // JSON escapes a lone surrogate, so that one that a cut left would show.
        expect(json).not.toMatch(/\\ud[89a-f]/i);
      },
    ),
  );
});

test('the shown parts are the first parts, in order; at most the last one is cut', () => {
  fc.assert(
    fc.property(
      fc.array(part, { minLength: 1, maxLength: 20 }),
      fc.integer({ min: 256, max: 8_192 }),
      (content, maxBytes) => {
        const shown = previewOf({ content, bytes: 10_000_000, full }, maxBytes).slice(0, -1);
        const whole = shown.slice(0, -1);
        expect(whole).toEqual(content.slice(0, whole.length));
        expect(shown.length).toBeLessThanOrEqual(content.length);
      },
    ),
  );
});

test('an emoji is shown whole or not at all', () => {
  const [first] = previewOf({ content: [{ type: 'text', text: '😀'.repeat(1_000) }], bytes: 4_000, full }, 400);
  if (first?.type !== 'text') throw new Error('a text was expected');
  expect(first.text).toMatch(/^(?:😀)+$/u);
});

test('it says where the whole is, or that it is lost', () => {
  const whole = { content: [{ type: 'text', text: 'x'.repeat(5_000) }] satisfies ResultPart[], bytes: 5_000 };
  expect(JSON.stringify(previewOf({ ...whole, full }, 300).at(-1))).toContain('artifact aaaaaaaaaaaa');
  expect(JSON.stringify(previewOf(whole, 300).at(-1))).toContain('could not be stored');
});

test('neither does one of a result whose size has as many digits as what is shown of it', () => {
  for (let length = 2_000; length < 2_100; length += 1) {
    const content: ResultPart[] = [{ type: 'text', text: 'x'.repeat(length) }];
    const preview = previewOf({ content, bytes: Buffer.byteLength(JSON.stringify({ content })), full }, 2_000);
    expect(Buffer.byteLength(JSON.stringify(preview))).toBeLessThanOrEqual(2_000);
  }
});
