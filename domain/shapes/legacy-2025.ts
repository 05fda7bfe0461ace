/**
 * The shape in which the dispatch of a call tells of questions (`HeldQuestions`). Any namespace writer can send it.
 * Written by hand as those of `messages.ts`, and held equal to its schema by a property test.
 */
import type { HeldQuestions } from '../../contracts/wire/legacy-2025.ts';
import {
  callId,
  type Check,
  digest,
  type Fields,
  isFields,
  listOf,
  oneOf,
  only,
  optional,
  type Parsed,
  problemOf,
  truth,
  wholeNumber,
} from './fields.ts';

const anyText: Check = (value) => (typeof value === 'string' ? undefined : 'must be text');
const anyNumber: Check = (value) => (Number.isFinite(value) ? undefined : 'must be a number');
const count = optional(wholeNumber(0, Number.MAX_SAFE_INTEGER));
const ordinal = wholeNumber(1, Number.MAX_SAFE_INTEGER);
const anyList = (check: Check): Check => listOf(check, Number.MAX_SAFE_INTEGER);

function shaped(checks: Readonly<Record<string, Check>>): Check {
  return (value) => {
    const problem = problemOf(value, checks);
    return problem && `${problem.path === '' ? '' : `has ${problem.path}, which `}${problem.reason}`;
  };
}

function eachOf(check: Check): Check {
  return (value) => {
    if (!isFields(value) || Object.hasOwn(value, '__proto__')) return 'must be an object';
    for (const inner of Object.values(value)) {
      const reason = check(inner);
      if (reason !== undefined) return reason;
    }
    return undefined;
  };
}

const label = { title: optional(anyText), description: optional(anyText) };
const options = anyList(shaped({ value: anyText, title: optional(anyText) }));
const format = oneOf('email', 'uri', 'date', 'date-time');
const number = { minimum: optional(anyNumber), maximum: optional(anyNumber), default: optional(anyNumber) };

/** Of each kind of field, what it has besides its label. */
const FIELDS: Readonly<Record<string, Readonly<Record<string, Check>>>> = {
  text: { minLength: count, maxLength: count, format: optional(format), default: optional(anyText) },
  number,
  integer: number,
  boolean: { default: optional(truth) },
  choice: { options, default: optional(anyText) },
  choices: { options, minItems: count, maxItems: count, default: optional(anyList(anyText)) },
};

const field = ofKind('type', FIELDS, label);

const REQUESTS: Readonly<Record<string, Readonly<Record<string, Check>>>> = {
  form: { fields: eachOf(field), required: anyList(anyText) },
  url: { url: anyText, host: anyText },
};

const request = ofKind('kind', REQUESTS, { message: anyText, hash: digest });

function ofKind(
  key: string,
  kinds: Readonly<Record<string, Readonly<Record<string, Check>>>>,
  common: Readonly<Record<string, Check>>,
): Check {
  return (value) => {
    const { [key]: kind }: Fields = isFields(value) ? value : {};
    if (typeof kind !== 'string' || !Object.hasOwn(kinds, kind)) return `must have a known ${key}`;
    return shaped({ [key]: only(kind), ...common, ...kinds[kind] })(value);
  };
}

export function parseHeldQuestions(value: unknown): Parsed<HeldQuestions> {
  const problem = problemOf(value, { callId, attempt: ordinal, round: ordinal, requests: eachOf(request) });
  // Sound: every field was checked above, and no other field is there.
  return problem === undefined ? { kind: 'ok', value: value as HeldQuestions } : { kind: 'bad', ...problem };
}
