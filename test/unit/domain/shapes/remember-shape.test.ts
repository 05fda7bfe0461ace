/** What the sandbox takes for a remembered approval, and for one that is taken back (S2.3). */
import { expect, test } from '@jest/globals';
import fc from 'fast-check';
import { Decision, Forget } from '../../../../contracts/schemas/answer.ts';
import { parseDecision, parseForget } from '../../../../domain/shapes/messages.ts';
import { approval } from '../../../support/builders/decision.ts';
import { describeShape } from '../../../support/shape-suite.ts';

const sane = { noNullPrototype: true };
const until = fc.constantFrom('2026-01-01T02:00:00.000Z', '2999-12-31T23:59:59.999Z');
const name = fc.string({ minLength: 1, maxLength: 200 });
const remember = fc.oneof(
  fc.record({ scope: fc.constantFrom('call', 'tool'), until }, { requiredKeys: ['scope'], ...sane }),
  fc.record(
    { scope: fc.constant('arguments'), names: fc.array(name, { minLength: 1, maxLength: 20 }), until },
    { requiredKeys: ['scope', 'names'], ...sane },
  ),
);
const odd = fc.constantFrom<unknown>(undefined, null, '', 'call', 'tool', [], ['a'], [''], [1], {}, 'soon', 1, true, [
  'x'.repeat(201),
]);
const valid = remember.map((value) => ({ ...approval(), remember: value }));
const nearly = fc
  .tuple(remember, fc.constantFrom('scope', 'names', 'until', 'arguments'), odd)
  .map(([value, key, wrong]) => ({ ...approval(), remember: { ...value, [key]: wrong } }));

describeShape({ name: 'a remembered approval', parse: parseDecision, schema: Decision, valid, nearly });

const identifier = fc.stringMatching(/^[\x21-\x7e]{1,200}$/);
const forgotten = fc.record(
  { standing: identifier, by: fc.record({ id: identifier }, sane), comment: fc.string() },
  { requiredKeys: ['standing', 'by'], ...sane },
);
describeShape({
  name: 'what is taken back',
  parse: parseForget,
  schema: Forget,
  valid: forgotten,
  nearly: fc
    .tuple(forgotten, fc.constantFrom('standing', 'by', 'comment', 'callId'), odd)
    .map(([value, key, wrong]) => ({ ...value, [key]: wrong })),
});

test('the field that is wrong is named', () => {
  const wrong = (value: unknown) => parseDecision({ ...approval(), remember: value });
  expect(wrong({ scope: 'call', names: ['a'] })).toMatchObject({
    path: 'remember',
    reason: 'names is no field of this message',
  });
  expect(wrong({ scope: 'arguments', names: [] })).toMatchObject({ reason: 'names must not be empty' });
  expect(wrong('call')).toMatchObject({ path: 'remember', reason: 'must be an object' });
});
