/** What the sandbox takes for a server's question on an open connection (S2.3). */
import { expect, test } from '@jest/globals';
import fc from 'fast-check';
import { HeldQuestions } from '../../../../contracts/schemas/legacy-2025.ts';
import { isFields } from '../../../../domain/shapes/fields.ts';
import { parseHeldQuestions } from '../../../../domain/shapes/legacy-2025.ts';
import { heldQuestions } from '../../../support/builders/held-input.ts';
import { NAME, PAGE } from '../../../support/builders/provision.ts';
import { describeShape } from '../../../support/shape-suite.ts';

const label = { title: 'T', description: 'D' };
const options = [{ value: 'a', title: 'A' }, { value: 'b' }];
const FIELDS = {
  plain: { type: 'text' },
  text: { type: 'text', ...label, minLength: 1, maxLength: 2, format: 'date-time', default: 'x' },
  number: { type: 'number', minimum: 0.5, maximum: 2, default: 1 },
  integer: { type: 'integer', ...label },
  boolean: { type: 'boolean', default: false },
  choice: { type: 'choice', options, default: 'a' },
  choices: { type: 'choices', options, minItems: 0, maxItems: 2, default: ['a'] },
} as const;
const FORM = { ...NAME, fields: FIELDS, required: ['text'] };

const valid = fc.constantFrom(
  heldQuestions(),
  heldQuestions({ requests: { page: PAGE } }),
  // Sound: a form of every kind of field.
  heldQuestions({ attempt: 5, round: 10, requests: { form: FORM, page: PAGE } as HeldQuestions['requests'] }),
  heldQuestions({ requests: {} }),
);
const odd = fc.constantFrom<unknown>(
  undefined,
  null,
  '',
  'form',
  'constructor',
  [],
  {},
  1,
  0,
  -1,
  1.5,
  true,
  [{}],
  Number.NaN,
);
const place = fc.constantFrom(
  ['callId'],
  ['attempt'],
  ['round'],
  ['requests'],
  ['note'],
  ['requests', 'who'],
  ['requests', '__proto__'],
  ...['kind', 'message', 'hash', 'fields', 'required', 'url', 'host'].map((key) => ['requests', 'who', key]),
  ...Object.entries(FIELDS).flatMap(([name, field]) =>
    [...Object.keys(field), 'options', 'note'].map((key) => ['requests', 'who', 'fields', name, key]),
  ),
  ['requests', 'who', 'fields', 'choice', 'options', '0', 'value'],
  ['requests', 'who', 'fields', 'choice', 'options', '0', 'title'],
);

/** A copy, with one thing in it as given. */
function changed(value: unknown, path: readonly string[], wrong: unknown): unknown {
  const [key, ...rest] = path;
  if (key === undefined) return wrong;
  // Sound: only places in objects and lists are named.
  const copy = (Array.isArray(value) ? [...value] : { ...(value as object) }) as Record<string, unknown>;
  Object.defineProperty(copy, key, {
    value: changed(copy[key], rest, wrong),
    enumerable: true,
    configurable: true,
    writable: true,
  });
  return copy;
}

describeShape({
  name: 'a question on an open connection',
  parse: parseHeldQuestions,
  schema: HeldQuestions,
  valid,
  nearly: fc
    .tuple(place, odd)
    .map(([path, wrong]) =>
      changed(heldQuestions({ requests: { who: FORM } as HeldQuestions['requests'] }), path, wrong),
    ),
  // A schema leaves the name out, or takes it for another thing.
  refusedBesides: (value) =>
    isFields(value) && isFields(value['requests']) && Object.hasOwn(value['requests'], '__proto__'),
});

test.each([
  ['a call of no turn', { callId: 't0.c0' }, 'callId'],
  ['no round', { round: 0 }, 'round'],
  ['a question of another kind', { requests: { who: { ...NAME, kind: 'sampling' } } }, 'requests'],
  ['an approval beside it', { approved: true }, 'approved'],
])('%s is refused by name', (_what, over, path) => {
  expect(parseHeldQuestions({ ...heldQuestions(), ...over })).toMatchObject({ kind: 'bad', path });
});
