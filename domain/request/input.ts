/**
 * Checks answers to a server's questions in mid-call, by the form rules of MCP 2026-07-28 (client/elicitation
 * "Requested Schema"), and matches answers to questions. `domain/request/pause.ts` says who may answer.
 *
 * 1. An answer belongs to one question: the same key, and the same request to the letter. Anything else is another
 *    question, and a person is asked (INV-G4).
 * 2. Each answer is used once in one pass: a server that repeats a question has not taken the answer.
 * 3. A problem names its field, never its value: values may be personal data.
 * 4. Every check costs time linear in the value.
 */
import type {
  FormField,
  FormRequest,
  InputAnswer,
  InputRequest,
  InputRequests,
  InputResponse,
} from '../../contracts/schemas/input.ts';
import { isFields } from '../shapes/inputs.ts';
import { type CallState, isAsking, isDispatched, type Run } from '../state/run.ts';
import { byteLength, canonicalJson } from '../text/canonical.ts';

/** Most rounds of questions in one call; the default of the MCP SDK. */
export const MOST_ROUNDS = 10;

/** Bytes of all answers in one message as canonical JSON: they are carried as long as the call is open. */
const MOST_ANSWER_BYTES = 32_768;

/** Returns the first problem of answers to all of `requests`; undefined if the answers may be taken. */
export function problemInResponses(requests: InputRequests, given: unknown): Problem | undefined {
  if (!isFields(given)) return { path: '', reason: 'must be an object with an answer for each request' };
  for (const key of Object.keys(given)) {
    if (!Object.hasOwn(requests, key)) return { path: key, reason: 'is not among the requests' };
  }
  for (const [key, request] of Object.entries(requests)) {
    if (!Object.hasOwn(given, key)) return { path: key, reason: 'has no answer' };
    const problem = problemInResponse(request, given[key]);
    if (problem !== undefined) return { ...problem, path: problem.path === '' ? key : `${key}.${problem.path}` };
  }
  if (byteLength(canonicalJson(given)) > MOST_ANSWER_BYTES)
    return { path: '', reason: `must have at most ${MOST_ANSWER_BYTES} bytes` };
  return undefined;
}

function problemInResponse(request: InputRequest, response: unknown): Problem | undefined {
  if (!isFields(response)) return { path: '', reason: 'must be an object with an action' };
  const { action, content, ...others } = response;
  const [other] = Object.keys(others);
  if (other !== undefined) return { path: other, reason: 'is no field of an answer' };
  if (action !== 'accept' && action !== 'decline' && action !== 'cancel')
    return { path: 'action', reason: 'must be accept or decline or cancel' };
  if (action === 'accept' && request.kind === 'form') {
    const problem = problemInForm(request, content);
    return problem && { ...problem, path: problem.path === '' ? 'content' : `content.${problem.path}` };
  }
  if (content !== undefined) return { path: 'content', reason: 'goes only with an accepted form' };
  return undefined;
}

/** Matches answers to requests, without those already used in this pass; `missing` has the keys without an answer. */
export function answersTo(
  requests: Readonly<Record<string, Pick<InputRequest, 'hash'>>>,
  answers: readonly InputAnswer[],
  used: readonly string[] = [],
): { readonly responses: Readonly<Record<string, InputResponse>>; readonly missing: readonly string[] } {
  const found: [string, InputResponse][] = [];
  const missing: string[] = [];
  for (const [key, { hash }] of Object.entries(requests)) {
    const answer = used.includes(hash) ? undefined : answers.find((each) => each.hash === hash);
    if (answer === undefined) missing.push(key);
    else found.push([key, answer.response]);
  }
  return { responses: Object.fromEntries(found), missing };
}

/** Adds answers; each replaces an earlier one to the same question. */
export function withAnswers(
  answers: readonly InputAnswer[],
  requests: InputRequests,
  responses: Readonly<Record<string, InputResponse>>,
): readonly InputAnswer[] {
  const fresh = Object.entries(requests).flatMap(([key, { hash }]): InputAnswer[] => {
    const response = responses[key];
    return response === undefined ? [] : [{ hash, response }];
  });
  const hashes = new Set(fresh.map(({ hash }) => hash));
  return [...answers.filter(({ hash }) => !hashes.has(hash)), ...fresh];
}

interface Problem {
  readonly path: string;
  readonly reason: string;
}

/** UTF-16 units. A form is no place for documents. */
export const LONGEST_TEXT = 10_000;

export function problemInForm({ fields, required }: FormRequest, content: unknown): Problem | undefined {
  if (!isFields(content)) return { path: '', reason: 'must be an object with the fields of the form' };
  for (const name of Object.keys(content)) {
    if (!Object.hasOwn(fields, name)) return { path: name, reason: 'is no field of the form' };
  }
  for (const [name, field] of Object.entries(fields)) {
    const value = content[name];
    if (value === undefined) {
      if (required.includes(name)) return { path: name, reason: 'is required' };
      continue;
    }
    const reason = whyNot(field, value);
    if (reason !== undefined) return { path: name, reason };
  }
  return undefined;
}

function whyNot(field: FormField, value: unknown): string | undefined {
  switch (field.type) {
    case 'text':
      return typeof value === 'string' ? whyNotText(field, value) : 'must be text';
    case 'number':
    case 'integer':
      return whyNotNumber(field, value);
    case 'boolean':
      return typeof value === 'boolean' ? undefined : 'must be true or false';
    case 'choice':
      return isOption(field, value) ? undefined : `must be one of ${field.options.length} options`;
    case 'choices':
      return whyNotChoices(field, value);
  }
}

type Of<T extends FormField['type']> = Extract<FormField, { type: T }>;

function whyNotText(
  { minLength = 0, maxLength = LONGEST_TEXT, format }: Of<'text'>,
  value: string,
): string | undefined {
  if (value.length > LONGEST_TEXT) return `must have at most ${LONGEST_TEXT} characters`;
  // JSON Schema counts characters, not UTF-16 units (2020-12, validation §6.3).
  const length = [...value].length;
  if (length < minLength) return `must have at least ${minLength} characters`;
  if (length > maxLength) return `must have at most ${maxLength} characters`;
  return format === undefined || FORMATS[format].test(value) ? undefined : `must be ${FORMATS[format].says}`;
}

const FORMATS = {
  email: { says: 'an e-mail address', test: (text: string) => /^[^\s@]+@[^\s@]+$/.test(text) },
  uri: { says: 'a URI with its scheme', test: (text: string) => /^[A-Za-z][A-Za-z0-9+.-]*:[\x21-\x7e]+$/.test(text) },
  date: { says: 'a date like 2026-01-31', test: isDate },
  'date-time': {
    says: 'a time like 2026-01-31T09:00:00Z',
    test: (text: string) =>
      /^[0-9-]{10}[Tt][0-9]{2}:[0-9]{2}:[0-9]{2}(?:\.[0-9]{1,9})?(?:[Zz]|[+-][0-9]{2}:[0-9]{2})$/.test(text) &&
      isDate(text.slice(0, 10)) &&
      !Number.isNaN(Date.parse(text)),
  },
} as const;

function isDate(text: string): boolean {
  const ms = /^[0-9]{4}-[0-9]{2}-[0-9]{2}$/.test(text) ? Date.parse(text) : Number.NaN;
  // `Date.parse` reads 30 February as 2 March, so the text is compared too.
  return !Number.isNaN(ms) && new Date(ms).toISOString().startsWith(text);
}

function whyNotNumber({ type, minimum, maximum }: Of<'number' | 'integer'>, value: unknown): string | undefined {
  if (typeof value !== 'number' || !Number.isFinite(value)) return 'must be a number';
  if (type === 'integer' && !Number.isInteger(value)) return 'must be a whole number';
  if (minimum !== undefined && value < minimum) return `must be at least ${minimum}`;
  if (maximum !== undefined && value > maximum) return `must be at most ${maximum}`;
  return undefined;
}

function whyNotChoices(field: Of<'choices'>, value: unknown): string | undefined {
  const { minItems = 0, maxItems = field.options.length, options } = field;
  if (!Array.isArray(value) || !value.every((item) => isOption(field, item)))
    return `must be a list of some of ${options.length} options`;
  if (new Set(value).size !== value.length) return 'must name each option once';
  if (value.length < minItems) return `must name at least ${minItems} options`;
  if (value.length > maxItems) return `must name at most ${maxItems} options`;
  return undefined;
}

function isOption({ options }: Of<'choice' | 'choices'>, value: unknown): boolean {
  return options.some((option) => option.value === value);
}

// Questions and answers travel from execution to execution and with each dispatch, of which Temporal takes 2 MiB.

/** Bound over all open calls of questions, states and answers as canonical JSON; a question beyond it is not asked. */
export const MOST_ASKED_BYTES = 393_216;
/** Room above that bound, so that every question that was asked can be answered. */
export const ANSWER_ROOM_BYTES = 65_536;

export function askedBytes({ calls }: Run): number {
  return calls.reduce((sum, state) => sum + bytesOf(state), 0);
}

function bytesOf(state: CallState): number {
  if (state.status === 'settled' || state.status === 'proposed') return 0;
  const about = isAsking(state) ? state.request.about : undefined;
  const held = isDispatched(state) ? state.questions : undefined;
  const kept = [
    ...(about?.kind === 'input' ? [about] : []),
    ...[state.input, held].filter((each) => each !== undefined),
  ];
  return kept.length === 0 ? 0 : byteLength(canonicalJson(kept));
}
