/** What an approver reads in a page is what will be sent: nothing hides, nothing moves, nothing is markup. */
import { describe, expect, test } from '@jest/globals';
import fc from 'fast-check';
import { foreign, rawJson, tree } from '../../../../gateway/page/kit/faithful.ts';
import { forAll } from '../../../support/for-all.ts';

/** The text as a browser reads it out of our markup: tags off, entities back. */
function readOf(text: string): string {
  return text
    .replaceAll(/<[^>]*>/g, '')
    .replaceAll('&lt;', '<')
    .replaceAll('&gt;', '>')
    .replaceAll('&quot;', '"')
    .replaceAll('&#39;', "'")
    .replaceAll('&amp;', '&');
}

const json = fc.dictionary(fc.string({ unit: 'grapheme', maxLength: 12 }), fc.jsonValue({ maxDepth: 4 }), {
  maxKeys: 8,
}) as fc.Arbitrary<Record<string, never>>;

test('no text of a value becomes a tag, an attribute or an entity', () => {
  forAll(fc.string({ unit: fc.constantFrom('<', '>', '"', "'", '&', '=', 'a', ' ', '/', ';') }), (text) => {
    const { text: made } = foreign(text);
    const inner = made.replace(/^<bdi dir="ltr">/, '').replace(/<\/bdi>$/, '');
    expect(inner).not.toMatch(/[<>"']/);
    expect(readOf(inner)).toBe(text);
  });
});

test('no control, bidi, zero-width, private or combining character reaches the page', () => {
  forAll(fc.string({ unit: 'binary' }), (text) => {
    expect(foreign(text).text).not.toMatch(
      /(?![\n\t])[\p{C}\p{Zl}\p{Zp}\p{Me}\p{Default_Ignorable_Code_Point}\u2800]|(?! )\p{Zs}|(?=\p{M})\p{Script=Inherited}|\p{M}{4}/u,
    );
  });
});

test.each([
  ['\u202E', 'U+202E'],
  ['\u200B', 'U+200B'],
  ['\u0336', 'U+0336'],
  ['\u{E0041}', 'U+E0041'],
  ['\u00A0', 'U+00A0'],
  ['\u0000', 'U+0000'],
])('%j stands as its code point', (char, shown) => {
  expect(foreign(`1${char}0`).text).toContain(`1<span class="hidden-char">${shown}</span>0`);
});

test.each(['नमस्ते', 'สวัสดีครับ', 'שָׁלוֹם'])('%s stays readable', (text) => {
  expect(readOf(foreign(text).text)).toBe(text);
});

test('right-to-left letters are isolated from the numbers beside them', () => {
  expect(foreign('100 שלום עולם 200').text).toContain('100 <bdi>שלום עולם</bdi> 200');
});

test('every name and every scalar of the arguments is in the tree, in the order of the data', () => {
  forAll(json, (values) => {
    const { text } = tree(values);
    let from = 0;
    for (const name of Object.keys(values)) {
      const [plain = ''] = name.match(/^[ -~]*/) ?? [];
      const at = readOf(text).indexOf(plain, from);
      expect(at).toBeGreaterThanOrEqual(from);
      from = at;
    }
  });
});

describe('what is long', () => {
  test('folds, and its siblings stay outside of the fold', () => {
    const { text } = tree({ body: 'x'.repeat(100_000), amount: 5 });
    expect(text).toContain('99,600 more characters');
    expect(text.indexOf('amount')).toBeGreaterThan(text.lastIndexOf('</details>'));
  });

  test('in lists and objects, too, with a count', () => {
    const { text } = tree({ all: Array.from({ length: 1_000 }, (_, index) => index), amount: 5 });
    expect(text).toContain('960 more');
    expect(text.indexOf('amount')).toBeGreaterThan(text.lastIndexOf('</details>'));
  });

  test('a deep value ends as JSON', () => {
    let deep: Record<string, unknown> = { end: 'here' };
    for (let level = 0; level < 40; level += 1) deep = { deep };
    const { text } = tree(deep as never);
    expect(text).toContain('here');
    expect(text).toContain('class="raw"');
  });
});

describe('what is shown has a few bytes for each of the data', () => {
  const BYTES = 262_144;
  const nested = (depth: number, leaf: unknown): unknown => (depth === 0 ? leaf : [nested(depth - 1, leaf)]);

  test.each<[string, unknown]>([
    ['one text of marks', '\u0336'.repeat(BYTES / 2)],
    ['marks between letters', 'a\u0336'.repeat(BYTES / 3)],
    ['right-to-left words', '\u05D0 1 '.repeat(BYTES / 5)],
    ['many short texts of marks', Array.from({ length: BYTES / 64 }, () => '\u0336'.repeat(30))],
    ...['\r', '\b', '\f', '\x01', '\uD800'].map((char): [string, unknown] => [
      `texts of ${JSON.stringify(char)}`,
      Array.from({ length: 145 }, () => char.repeat(900)),
    ]),
    [
      'names of control characters',
      Object.fromEntries(Array.from({ length: 145 }, (_, at) => [`${at}${'\r'.repeat(900)}`, 0])),
    ],
    ['values without a text', Array.from({ length: BYTES / 2 }, () => 1)],
    ['objects of one member', Array.from({ length: BYTES / 8 }, () => ({ a: 1 }))],
    ['lists of lists of lists', Array.from({ length: 64 }, () => Array.from({ length: 64 }, () => [1, [2], [[3]]]))],
    ['names', Object.fromEntries(Array.from({ length: BYTES / 12 }, (_, at) => [`n${at}`, 0]))],
    [
      'what is nested deeper than a page goes',
      nested(
        90,
        Array.from({ length: BYTES / 4 }, () => 1),
      ),
    ],
  ])('of %s', (_, value) => {
    // Sound: it is JSON.
    const shown = tree({ value: value as string, last: 'in sight' }).text;
    expect(shown.length).toBeLessThan(5 * BYTES);
    expect(shown.match(/<[a-z]/g)?.length).toBeLessThan(15_000);
    expect(shown.lastIndexOf('in sight')).toBeGreaterThan(shown.lastIndexOf('</details>'));
  });

  test('and all of it is there: code points first, then the text as JSON writes it', () => {
    const text = `${'\u0336\\n'.repeat(700)}end`;
    const shown = readOf(foreign(text).text);
    const [points = '', rest = ''] = shown.split('from here as in JSON');
    expect(points.split('U+0336')).toHaveLength(501);
    expect(rest).toMatch(/^[ -~]*$/);
    expect(`${points.replaceAll('U+0336', '\u0336')}${String(JSON.parse(`"${rest}"`))}` === text).toBe(true);
  });

  test('and all of it is there: the first members of each, and the others as JSON', () => {
    const rows = Array.from({ length: 3_000 }, (_, at) => ({ at, of: [at, [at]] }));
    const { text } = tree({ rows });
    const raw = [...text.matchAll(/<pre[^>]*>([^<]*)<\/pre>/g)].map(
      ([, found = '']) => JSON.parse(readOf(found)) as unknown,
    );
    expect(raw).toEqual([rows.slice(40)]);
    expect(text).toContain('2,960 more, as JSON');
    // Its names and its order are those of the data.
    expect(readOf(text).replaceAll(/\s+/g, ' ')).toContain('at 39 of 39 39 2,960 more');
  });
});

test('the raw form is ASCII and parses to the same value', () => {
  forAll(json, (values) => {
    const raw = readOf(rawJson(values).text);
    expect(raw).toMatch(/^[\n -~]*$/);
    expect(JSON.parse(raw)).toEqual(JSON.parse(JSON.stringify(values)));
  });
});
