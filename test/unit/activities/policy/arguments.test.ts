/** Arguments against input schemas, which are a server's text: in bounded time, and never unseen (INV-G4). */
import { describe, expect, test } from '@jest/globals';
import { ArgumentChecker } from '../../../../activities/policy/judge.ts';
import { LONGEST_SCHEMA_PATTERN, MOST_SCHEMA_BYTES } from '../../../../activities/kit/json-schema.ts';
import type { JsonObject, JsonValue } from '../../../../contracts/schemas/json.ts';
import { doublingSchema } from '../../../support/doubling-schema.ts';

const SCHEMA: JsonObject = { type: 'object', properties: { n: { type: 'number' } }, required: ['n'] };
const of = (n: JsonObject): JsonObject => ({ type: 'object', properties: { n } });

const check = (schema: JsonObject, n: JsonValue) => new ArgumentChecker().check('a', schema, { n });

describe('arguments', () => {
  test('that fit have no problems; others are named with their place', () => {
    expect(check(SCHEMA, 1)).toEqual({ problems: [] });
    expect(check(SCHEMA, 'x').problems).toContainEqual(expect.stringMatching(/^#\/n: .*[^.]$/));
  });

  test.each<[string, JsonObject, readonly JsonValue[], readonly JsonValue[]]>([
    ['a pattern', { pattern: '^[a-z]+$' }, ['abc', 7], ['Abc', '']],
    ['a pattern that is found inside', { pattern: 'b' }, ['abc'], ['ac']],
    ['an escape of ECMAScript', { pattern: '^\\u00e9$' }, ['é'], ['e']],
    ['a pattern beside a format', { pattern: '^2', format: 'date' }, ['2026-01-31'], ['1999-01-31', '2026-13-01']],
    ['a pattern in a choice', { anyOf: [{ pattern: '^a' }, { pattern: '^b' }] }, ['a', 'b'], ['c']],
    ['a pattern that is not to match', { not: { type: 'string', pattern: '^a' } }, ['b'], ['a']],
    ['a pattern behind a reference', { $ref: '#/$defs/p' }, ['a'], ['b']],
    [
      'a date and time',
      { format: 'date-time' },
      ['2026-01-31T23:59:60Z', '2026-01-31t00:00:00.5+01:00'],
      ['2026-01-31', 'x'],
    ],
    ['an e-mail address', { format: 'email' }, ['ann@example.com', 'jürgen@example.com'], ['ann']],
    ['a duration', { format: 'duration' }, ['PT1.5S', 'P1Y2D', 'P3W'], ['1h', 'P1H']],
    ['a URI', { format: 'uri' }, ['https://example.com/a?b', 'urn:a:b'], ['/a', 'a b']],
    ['a UUID', { format: 'uuid' }, ['01a20aa7-0441-7cd2-b50b-4e4e46a38fd8'], ['01a20aa7']],
    ['addresses', { anyOf: [{ format: 'ipv4' }, { format: 'ipv6' }] }, ['10.0.0.1', '::1'], ['10.0.0.256']],
    ['a format that is not known', { format: 'colour' }, ['red'], []],
    ['a format with the name of a method', { format: 'hasOwnProperty' }, ['red'], []],
    [
      'patterns of names',
      { type: 'object', patternProperties: { '^x-': { type: 'number' } }, additionalProperties: false },
      [{}, { 'x-a': 1 }],
      [{ 'x-a': 'b' }, { y: 1 }],
    ],
    [
      'two patterns of one name',
      { patternProperties: { '^a': { minimum: 2 }, z$: { maximum: 3 } } },
      [{ az: 2 }],
      [{ az: 1 }, { az: 4 }],
    ],
    [
      'names that are no pattern',
      { patternProperties: { '^.$': { type: 'number' } } },
      [{ '.': 1, 'a.': 'x' }],
      [{ '.': 'x' }, { b: 'x' }],
    ],
    [
      'a name like a keyword',
      { properties: { pattern: { type: 'number' }, format: { type: 'number' } } },
      [{ pattern: 1 }],
      [{ pattern: 'x' }],
    ],
    [
      'a name like a reference',
      { properties: { $dynamicRef: { type: 'number' }, $vocabulary: {}, examples: { type: 'number' } } },
      [{ $dynamicRef: 1, $vocabulary: 1, examples: 2 }],
      [{ $dynamicRef: 'x' }, { examples: 'x' }],
    ],
    [
      'a schema with a known vocabulary',
      { $vocabulary: { 'https://json-schema.org/draft/2020-12/vocab/core': true }, pattern: '^a' },
      ['a'],
      ['b'],
    ],
    [
      'a name that depends on another',
      { dependencies: { a: { required: ['b'] }, c: ['a'] } },
      [{ a: 1, b: 1 }],
      [{ a: 1 }, { c: 1 }],
    ],
    [
      'dependencies of names like keywords',
      { dependencies: { pattern: ['b'], format: ['b'], examples: ['b'], $dynamicRef: ['b'], c: { pattern: '^a' } } },
      [{ pattern: 1, b: 1 }, {}],
      [{ pattern: 1 }, { format: 1 }, { examples: 1 }, { $dynamicRef: 1 }],
    ],
    [
      'names like keywords that are required of one another',
      { dependentRequired: { pattern: ['b'], format: ['b'], examples: ['b'], patternProperties: ['b'] } },
      [{ pattern: 1, b: 1 }, {}],
      [{ pattern: 1 }, { format: 1 }, { examples: 1 }, { patternProperties: 1 }],
    ],
    ['no pattern of names', { patternProperties: {}, required: ['a'] }, [{ a: 1 }], [{}]],
    ['white space as ECMAScript has it', { pattern: '^\\s$' }, [' ', '\v', '\u00a0', '\u2028', '\ufeff'], ['a', '']],
    ['what is no white space', { pattern: '^\\S$' }, ['a', '\u200b', '\u{1f600}'], ['\u00a0', '\u3000', '\v']],
    ['white space in a class', { pattern: '^[\\s_-]+$' }, ['\u00a0_-', ' '], ['a']],
    ['what is no white space in a class', { pattern: '^[^\\S]$' }, ['\u2003'], ['a', '\u200b']],
    [
      'any character of a line',
      { pattern: '^.$' },
      ['a', '.', '\u0085', '\u{1f600}'],
      ['\r', '\n', '\u2028', '\u2029'],
    ],
    ['a point in a class', { pattern: '^[.]$' }, ['.'], ['a']],
    ['a code point in two halves', { pattern: '^[\\ud83d\\ude00-\\ud83d\\ude02]$' }, ['\u{1f601}'], ['\u{1f603}', 'u']],
    ['groups', { pattern: '^(?:a|(?<name>b))[[\\]a-c-]$' }, ['a[', 'b]', 'a-', 'bc'], ['ad', 'c-']],
    ['classes without and of all characters', { pattern: '^[^]$' }, ['a', '\n'], ['', 'ab']],
    ['a pattern with lookaround', { pattern: '^(?=a)[a-z]' }, ['ab'], ['ba']],
    ['a pattern that refers back', { pattern: '^(a|b)\\1$' }, ['aa', 'bb'], ['ab']],
    ['data like a keyword', { const: { pattern: '(' } }, [{ pattern: '(' }], [{}]],
  ])('%s is checked', (_what, schema, fitting, others) => {
    const whole = { ...of(schema), $defs: { p: { pattern: '^a' } } };
    for (const n of fitting) expect([n, check(whole, n)]).toEqual([n, { problems: [] }]);
    for (const n of others) {
      const { problems, unchecked } = check(whole, n);
      expect([n, unchecked]).toEqual([n, undefined]);
      expect([n, problems.length > 0]).toEqual([n, true]);
    }
  });

  test.each([
    'http://json-schema.org/draft-07/schema#',
    'http://json-schema.org/draft-04/schema',
    'https://json-schema.org/draft/2019-09/schema',
    'https://json-schema.org/draft/2020-12/schema',
    'https://json-schema.org/draft/2020-12/schema#',
    'https://json-schema.org/draft-07/schema#',
  ])('the dialect %s is known', ($schema) => {
    expect(check({ $schema, ...of({ pattern: '^a' }) }, 'b').problems).not.toEqual([]);
    expect(check({ $schema, ...of({ pattern: '^a' }) }, 'a')).toEqual({ problems: [] });
  });

  test.each<[string, JsonObject, string]>([
    ['references to nowhere', { type: 'object', $ref: '#/$defs/nothing' }, 'cannot be applied'],
    ['references that double at each level', { type: 'object', ...doublingSchema(40) }, 'takes too long'],
    ['a broken pattern', of({ pattern: '(' }), 'cannot be applied'],
    ['a pattern that is no text', of({ pattern: 7 }), 'no text'],
    ['patterns of names that are no map', of({ patternProperties: [] }), 'no map'],
    ['a pattern that is too long', of({ pattern: 'a'.repeat(LONGEST_SCHEMA_PATTERN + 1) }), 'characters'],
    ['one of names', of({ patternProperties: { [`^${'a'.repeat(LONGEST_SCHEMA_PATTERN)}`]: {} } }), 'characters'],
    [
      'one where only a reference finds it',
      { $defs: {}, examples: [{ pattern: `[${'\\p{L}'.repeat(10_000)}]` }], ...of({ $ref: '#/examples/0' }) },
      'characters',
    ],
    ['dependencies that are no map', of({ dependencies: ['a'] }), 'dependencies'],
    ['a dependency that is neither names nor a schema', of({ dependencies: { a: 'b' } }), 'dependencies'],
    ['a pattern of another language', of({ pattern: '(?P<a>b)' }), 'cannot be applied'],
    ['too many bytes', of({ description: 'a'.repeat(MOST_SCHEMA_BYTES) }), 'bytes'],
    ['a dialect that is not known', { $schema: 'https://example.com/dialect', ...SCHEMA }, 'dialect'],
    ['a reference that the value resolves', of({ $dynamicRef: '#p' }), '$dynamicRef'],
    ['a recursive reference to another place', of({ $recursiveRef: '#/$defs/p' }), '$recursiveRef'],
    ['a vocabulary that is not known', { $vocabulary: { 'https://example.com/v': true }, ...SCHEMA }, '$vocabulary'],
    ['a vocabulary that is no map', { $vocabulary: 7, ...SCHEMA }, '$vocabulary'],
    ...['draft-constructor', 'draft/toString', 'draft-07/hyper', 'draft-2020-12', 'draft-'].map(
      (name): [string, JsonObject, string] => [
        `a dialect that is like one: ${name}`,
        { $schema: `http://json-schema.org/${name}/schema#`, ...SCHEMA },
        'dialect',
      ],
    ),
    ['a dialect that is no text', { $schema: 7, ...SCHEMA }, 'dialect'],
  ])('a schema with %s checks nothing, and says so', (_what, schema, reason) => {
    const { problems, unchecked } = check(schema, `${'a'.repeat(60)}!`);
    expect(problems).toEqual([]);
    expect(unchecked).toContain(reason);
  });

  test('a schema that took too long is not tried again for some minutes, and others are checked as before', () => {
    let now = 1;
    const checker = new ArgumentChecker(() => now);
    const slow: JsonObject = { type: 'object', ...doublingSchema(40) };
    checker.check('slow', slow, {});
    // The hash stands for the schema: were it tried again, this would be found.
    expect(checker.check('slow', SCHEMA, {})).toMatchObject({ problems: [], unchecked: 'takes too long' });
    expect(checker.check('other', SCHEMA, {}).problems).not.toEqual([]);
    now += 299_000;
    expect(checker.check('slow', SCHEMA, {})).toMatchObject({ problems: [], unchecked: 'takes too long' });
    // What was asked meanwhile does not put the end off.
    now += 2_000;
    expect(checker.check('slow', SCHEMA, {}).problems).not.toEqual([]);
  });

  test('large arguments that took too long go unchecked alone: those of other calls are checked', () => {
    const checker = new ArgumentChecker();
    const schema = of({ type: 'array', uniqueItems: true });
    const many = Array.from({ length: 40_000 }, (_, index) => index);
    expect(checker.check('a', schema, { n: many })).toMatchObject({ problems: [], unchecked: 'takes too long' });
    expect(checker.check('a', schema, { n: [1, 1] }).problems).not.toEqual([]);
    expect(checker.check('a', schema, { n: [1, 2] })).toEqual({ problems: [] });
  });
});

describe('a pattern that would take for ever', () => {
  const CATASTROPHIC = ['^(a+)+$', '^(a|a)*$', '^(.*a){20}$', '^([a-z]+)*[0-9]$'] as const;
  const text = `${'a'.repeat(5_000)}!`;
  const ended = { problems: [], unchecked: 'takes too long' };

  test.each(CATASTROPHIC)('%s is ended, checks nothing, and says so', (pattern) => {
    expect(check(of({ pattern }), text)).toEqual(ended);
    expect(check(of({ patternProperties: { [pattern]: false } }), { [text]: 1 })).toEqual(ended);
  });

  const [hostile] = CATASTROPHIC;
  const names = { patternProperties: { [hostile]: false } };
  test.each<[string, JsonObject, JsonValue]>([
    ['examples/x', { examples: { x: { type: 'string', pattern: hostile } } }, text],
    ['examples/x', { examples: { x: names } }, { [text]: 1 }],
    ['default', { default: { pattern: hostile } }, text],
    ['dependencies', { dependencies: { pattern: hostile } }, text],
    ['dependencies', { dependencies: names }, { [text]: 1 }],
  ])('so is one behind a reference to %s', (place, m, n) => {
    const { problems, unchecked } = check({ properties: { n: { $ref: `#/properties/m/${place}` }, m } }, n);
    expect(problems).toEqual([]);
    expect(unchecked).toEqual(expect.any(String));
  });
});
