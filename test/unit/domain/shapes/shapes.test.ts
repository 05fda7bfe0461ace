/** The shapes that the sandbox checks by hand are those of the schemas (S2.3: extra fields rejected). */
import { describe, expect, test } from '@jest/globals';
import fc from 'fast-check';
import { Decision, Say, Stop } from '../../../../contracts/schemas/answer.ts';
import type { JsonObject } from '../../../../contracts/schemas/json.ts';
import type { Parsed } from '../../../../domain/shapes/fields.ts';
import { parseDecision, parseSay, parseStop } from '../../../../domain/shapes/messages.ts';
import { anyText, hex64, jsonObject, jsonValue } from '../../../support/builders/arbitraries.ts';
import { answer, approval, edit, extension, rejection, say, stop } from '../../../support/builders/decision.ts';
import { describeShape, type Shape } from '../../../support/shape-suite.ts';

const identifier = fc.stringMatching(/^[\x21-\x7e]{1,200}$/);
const callId = fc.stringMatching(/^t[1-9][0-9]{0,5}\.c[0-9]{1,3}$/);
const approver = fc.record(
  { id: identifier, groups: fc.array(identifier, { maxLength: 3 }) },
  { requiredKeys: ['id'], noNullPrototype: true },
);
const base = {
  decisionId: identifier,
  callId,
  digest: hex64,
  runId: fc.string({ minLength: 1, maxLength: 200 }),
  approver,
};
const sane = { noNullPrototype: true };
const KEYS = ['decisionId', 'callId', 'digest', 'runId', 'approver'] as const;

/** Whatever a person may mean by arguments. */
const plainObject = jsonObject.filter((value) => !JSON.stringify(value).includes('"__proto__":'));

const decision = fc.oneof(
  fc.record({ kind: fc.constant('approve'), ...base }, sane),
  fc.record({ kind: fc.constant('approve'), ...base, comment: anyText() }, sane),
  fc.record({ kind: fc.constant('reject'), ...base, reason: fc.string({ minLength: 1 }) }, sane),
  fc.record(
    { kind: fc.constant('withdraw'), ...base, comment: anyText() },
    { requiredKeys: ['kind', ...KEYS], ...sane },
  ),
  fc.record(
    {
      kind: fc.constant('extend'),
      ...base,
      until: fc
        .date({
          min: new Date('0000-01-01T00:00:00.000Z'),
          max: new Date('9999-12-31T23:59:59.999Z'),
          noInvalidDate: true,
        })
        .map((date) => date.toISOString()),
      comment: anyText(),
    },
    { requiredKeys: ['kind', 'until', ...KEYS], ...sane },
  ),
  fc.record({ kind: fc.constant('approve'), ...base, arguments: plainObject }, sane),
  fc.record(
    { kind: fc.constant('respond'), ...base, answer: fc.string({ minLength: 1 }), comment: anyText() },
    { requiredKeys: ['kind', 'answer', ...KEYS], ...sane },
  ),
);
const message = fc.record(
  {
    messageId: identifier,
    text: fc.string({ minLength: 1 }),
    from: identifier,
    interrupt: fc.constantFrom(true, undefined),
  },
  { requiredKeys: ['messageId', 'text', 'from'], ...sane },
);
const stopping = fc.record(
  { by: identifier, reason: fc.string({ minLength: 1 }), inFlight: fc.constantFrom('finish', 'cancel', undefined) },
  { requiredKeys: ['by', 'reason'], ...sane },
);

/** Values that are nearly right: the edges of each check, and what other languages send in place of nothing. */
const nearMiss = fc.oneof(
  fc.constantFrom<unknown>(
    undefined,
    null,
    '',
    ' ',
    'a b',
    'é',
    'x\n',
    'approve',
    'reject',
    'finish',
    't0.c0',
    't1.c0',
    't1.c0000',
    't1234567.c0',
    'T1.c0',
    '2026-02-29T00:00:00.000Z',
    '2024-02-29T24:00:00.000Z',
    '2026-01-01T00:00:00Z',
    '+12026-01-01T00:00:00.000Z',
    '2026-01-01T01:00:00.000+01:00',
    'Thu, 01 Jan 1970 00:00:0',
  ),
  fc.constantFrom<unknown>(
    'A'.repeat(64),
    'a'.repeat(64),
    'a'.repeat(63),
    `${'a'.repeat(64)}\n`,
    [],
    {},
    0,
    true,
    ['a'],
    ['a b'],
    { id: 'ann' },
  ),
  fc
    .constantFrom(199, 200, 201, 1_024, 1_025, 4_096, 4_097, 131_072, 131_073)
    .map((length): unknown => 'x'.repeat(length)),
  fc.constantFrom(99, 100, 101).map((length): unknown => Array.from({ length }, () => 'ops')),
  fc.record({ id: identifier, extra: fc.constant(1) }, sane),
  jsonValue,
);
const fieldName = fc.constantFrom(
  'kind',
  'decisionId',
  'callId',
  'digest',
  'runId',
  'approver',
  'comment',
  'reason',
  'answer',
  'arguments',
  'messageId',
  'text',
  'from',
  'by',
  'inFlight',
  'until',
  'interrupt',
  'constructor',
  'toString',
  'type',
  'approved',
);

/** One field changed, added or taken away; sometimes inside `approver`. */
function mutated(valid: fc.Arbitrary<object>): fc.Arbitrary<unknown> {
  return fc
    .tuple(valid, fieldName, nearMiss, fc.constantFrom('put', 'drop', 'put into approver'))
    .map(([value, key, odd, how]) => {
      const fields: Record<string, unknown> = { ...value };
      if (how === 'put') return { ...fields, [key]: odd };
      if (how === 'drop') {
        const { [key]: _dropped, ...rest } = fields;
        return rest;
      }
      return { ...fields, approver: { ...Object(fields['approver']), [key === 'by' ? 'groups' : 'id']: odd } };
    });
}

const SHAPES: readonly Pick<Shape, 'name' | 'parse' | 'schema' | 'valid'>[] = [
  { name: 'decision', parse: parseDecision, schema: Decision, valid: decision },
  { name: 'say', parse: parseSay, schema: Say, valid: message },
  { name: 'stop', parse: parseStop, schema: Stop, valid: stopping },
];
/** A schema drops a field called __proto__, which is refused here. */
function hidesField(value: unknown): boolean {
  const parsed = parseDecision(value);
  return parsed.kind === 'bad' && parsed.path === 'arguments' && /"__proto__":/.test(JSON.stringify(value));
}
for (const shape of SHAPES) {
  const besides = shape.name === 'decision' ? { refusedBesides: hidesField } : {};
  describeShape({ ...shape, nearly: mutated(shape.valid), ...besides });
}

describe('what is taken', () => {
  test('is the message itself, with groups and the way to stop filled in', () => {
    const { approver: _approver, ...rest } = approval({ comment: 'fine' });
    expect(parseDecision({ ...rest, approver: { id: 'ann' } })).toEqual({
      kind: 'ok',
      value: approval({ comment: 'fine' }),
    });
    const inGroups = rejection({ approver: { id: 'ann', groups: ['ops', 'sec'] } });
    expect(parseDecision(inGroups)).toEqual({ kind: 'ok', value: inGroups });
    expect(parseSay(say())).toEqual({ kind: 'ok', value: say() });
    expect(parseStop({ by: 'ann', reason: 'done' })).toEqual({ kind: 'ok', value: stop({ reason: 'done' }) });
    expect(parseStop(stop({ inFlight: 'cancel' }))).toEqual({ kind: 'ok', value: stop({ inFlight: 'cancel' }) });
  });
});

/** F23: deep enough to end the stack of code that walks it. */
function nested(levels: number): unknown {
  let value: unknown = 1;
  for (let level = 0; level < levels; level += 1) value = { a: value };
  return value;
}

test('F23: arguments of 100 levels are taken, and of 100,000 are refused', () => {
  expect(parseDecision(edit({ a: nested(99) as JsonObject })).kind).toBe('ok');
  expect(parseDecision({ ...approval(), arguments: nested(100_000) }).kind).toBe('bad');
});

describe('what is refused', () => {
  const bad = (parsed: Parsed<unknown>): string => (parsed.kind === 'bad' ? `${parsed.path}: ${parsed.reason}` : 'ok');

  test('S3.9: nothing, a list and a text are no messages', () => {
    for (const value of [undefined, null, [], 'approve', 7])
      expect(bad(parseDecision(value))).toBe(': must be an object');
  });

  test.each<[string, unknown, string]>([
    ['a kind', { ...approval(), kind: 'maybe' }, 'kind: must be approve or reject or withdraw or extend or respond'],
    [
      'an id',
      { ...approval(), decisionId: 'a b' },
      'decisionId: must be 1 to 200 printable ASCII characters without spaces',
    ],
    [
      'a call id, as of a list of tools',
      { ...approval(), callId: 't0.c0' },
      'callId: must look like t1.c0; a list of tools (t0.c0) is answered by authorize',
    ],
    ['a digest', { ...approval(), digest: 'A'.repeat(64) }, 'digest: must be 64 lower-case hexadecimal characters'],
    ['a run id', { ...approval(), runId: '' }, 'runId: must be text of 1 to 200 characters'],
    ['an approver', { ...approval(), approver: 'ann' }, 'approver: must be an object'],
    [
      "an approver's id",
      { ...approval(), approver: { id: 'a b' } },
      'approver: id must be 1 to 200 printable ASCII characters without spaces',
    ],
    [
      "an approver's groups",
      { ...approval(), approver: { id: 'ann', groups: 'ops' } },
      'approver: groups must be a list of at most 100 group names',
    ],
    ['a comment', { ...approval(), comment: 7 }, 'comment: must be text of 0 to 4096 characters'],
    ['a reason', { ...rejection(), reason: '' }, 'reason: must be text of 1 to 4096 characters'],
    ['no new deadline', { ...extension(), until: undefined }, 'until: must be a time like 2026-01-31T09:00:00.000Z'],
    [
      'a day that is none',
      { ...extension(), until: '2026-13-01T00:00:00.000Z' },
      'until: must be a time like 2026-01-31T09:00:00.000Z',
    ],
    ['a field of the other kind', { ...approval(), reason: 'no' }, 'reason: is no field of this message'],
    ['an answer', { ...answer(), answer: '' }, 'answer: must be text of 1 to 16384 characters'],
    ['arguments of another kind', { ...answer(), arguments: {} }, 'arguments: is no field of this message'],
    ...[[], 'x', { a: undefined }, { a: Number.NaN }, { a: [JSON.parse('{"__proto__":1}')] }, nested(101)].map(
      (odd): [string, unknown, string] => [
        'arguments',
        { ...approval(), arguments: odd },
        'arguments: must be a JSON object of at most 100 levels, without fields called __proto__',
      ],
    ),
    ['an unknown field', { ...approval(), note: 1 }, 'note: is no field of this message'],
  ])('%s is named with what it must be', (_what, value, reason) => {
    expect(bad(parseDecision(value))).toBe(reason);
  });

  test('S4.4: an approval that rides in another message is refused by name', () => {
    const hint = 'is no field of this message: approvals count only as a `decide` update';
    expect(bad(parseSay({ ...say(), approved: true }))).toBe(`approved: ${hint}`);
    expect(bad(parseSay({ ...say(), type: 'mcp_approval_response' }))).toBe(`type: ${hint}`);
    expect(bad(parseStop({ ...stop(), decision: 'approve' }))).toBe(`decision: ${hint}`);
    expect(bad(parseSay({ ...say(), type: 'text' }))).toBe('type: is no field of this message');
  });

  test('a field called __proto__, as only JSON can hold it, is an unknown field', () => {
    const value: unknown = JSON.parse(JSON.stringify(approval()).replace('{', '{"__proto__":{"kind":"approve"},'));
    expect(bad(parseDecision(value))).toBe('__proto__: is no field of this message');
  });

  test('a field that is there without a value is like one that is not there', () => {
    expect(parseStop({ by: 'ann', reason: 'x', inFlight: undefined })).toEqual({
      kind: 'ok',
      value: { by: 'ann', reason: 'x', inFlight: 'finish' },
    });
  });
});
