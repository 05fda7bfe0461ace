/**
 * Outside input becomes a typed value or a coded error in this one way.
 *
 * 1. A reason never repeats a value of the input, which may be a secret in the wrong field. Names of fields and classes
 *    are shown, cut and without control characters.
 */
import type { z } from 'zod';
import { CountersignError, type ErrorCode } from '../errors.ts';
import { MOST_LEVELS } from '../payload-converter.ts';

const SHOWN_PROBLEMS = 3;

/**
 * Parses a value with a schema.
 * @param what names the input in the message: `run spec`, `decision`, `configuration file countersign.yaml`
 * @throws CountersignError with `code`. The message names path and reason of the first problems and holds no value of
 * the input; `facts.path` is the first path. There is no cause, since zod's error could be shown with more than that.
 */
export function parseAs<T>(schema: z.ZodType<T>, value: unknown, code: ErrorCode, what: string): T {
  // First: of what holds itself, zod would list each way to each wrong field.
  assertEnds(value, code, what, STATING_RULES.has(code));
  const parsed = schema.safeParse(value);
  if (parsed.success) return parsed.data;
  throw notValid(problemsOf(parsed.error, value), code, what);
}

/**
 * Refuses what holds itself or nests too deeply, before anything looks into it: a search in it never ends, or overflows
 * the stack.
 * @param statesRules a field called `__proto__` is refused, too: a schema of a map drops it without a word, and with it
 * the rule that somebody meant to state
 * @throws CountersignError with `code`
 */
export function assertEnds(value: unknown, code: ErrorCode, what: string, statesRules = false): void {
  const unsaid = unsaidIn(value, statesRules);
  if (unsaid !== undefined) throw notValid([unsaid], code, what);
}

function notValid(problems: readonly Problem[], code: ErrorCode, what: string): CountersignError {
  const shown = problems.slice(0, SHOWN_PROBLEMS).map(({ path, reason }) => `${path === '' ? 'it' : path} ${reason}`);
  const more = problems.length > shown.length ? `; and ${problems.length - shown.length} more` : '';
  const first = problems[0]?.path;
  const message = `The ${what} is not valid: ${shown.join('; ')}${more}. Correct it and try again.`;
  return new CountersignError(code, message, first === undefined || first === '' ? {} : { path: first });
}

/** Codes of input that holds policy, in which no name may be lost. */
const STATING_RULES: ReadonlySet<ErrorCode> = new Set(['SPEC_INVALID', 'CONFIG_INVALID', 'USAGE']);

/** Steps of a path that people read. */
const MOST_STEPS = 32;

export const TOO_DEEP = `nests deeper than ${MOST_LEVELS} levels; write it flatter`;

/** Finds what schemas overlook: a value that holds itself or nests too deeply and, if `statesRules`, a `__proto__`. */
function unsaidIn(input: unknown, statesRules: boolean): Problem | undefined {
  const path: PropertyKey[] = [];
  const within: object[] = [];
  const seen = new Set<object>();
  const here = (reason: string, ...more: readonly string[]): Problem => ({
    path: pathText([...path.slice(0, MOST_STEPS), ...more]),
    reason,
  });
  const look = (value: unknown): Problem | undefined => {
    if (value === null || typeof value !== 'object') return undefined;
    if (within.length === MOST_LEVELS) return here(TOO_DEEP);
    // A value that merely stands in two places has been looked at.
    if (seen.has(value)) return within.includes(value) ? here('holds itself, which no JSON can say') : undefined;
    seen.add(value);
    if (statesRules && Object.hasOwn(value, '__proto__')) return here(UNKNOWN_FIELD, '__proto__');
    within.push(value);
    for (const [key, inner] of Object.entries(value)) {
      if (typeof inner !== 'object') continue;
      path.push(Array.isArray(value) ? Number(key) : key);
      const found = look(inner);
      if (found !== undefined) return found;
      path.pop();
    }
    within.pop();
    return undefined;
  };
  return look(input);
}

export interface Problem {
  /** `servers.notes.url`, `grants[0].jwe`, `["odd name"].x`; empty for the whole value. */
  readonly path: string;
  readonly reason: string;
}

export const UNKNOWN_FIELD = 'is not a known field';

type Issue = z.core.$ZodIssue;
type Path = readonly PropertyKey[];

/** Bound of listed problems: a message may hold a million wrong fields, and people read three. */
const MOST = 100;

export function problemsOf(error: z.core.$ZodError, input: unknown): Problem[] {
  return error.issues
    .slice(0, MOST)
    .flatMap((issue) => explain(issue, [], input))
    .map(({ path, reason }) => ({ path: pathText(path), reason }));
}

/** Writes a path as a person would. */
export function pathText(path: Path): string {
  return path.reduce<string>((text, step) => {
    if (typeof step === 'number') return `${text}[${step}]`;
    const name = shownName(String(step));
    if (/^[A-Za-z_$][\w$-]*$/.test(name)) return text === '' ? name : `${text}.${name}`;
    return `${text}[${JSON.stringify(name)}]`;
  }, '');
}

const LONGEST_NAME = 40;

function shownName(name: string): string {
  // Control and format characters hide or reorder what a person reads.
  const plain = name.replaceAll(/[\p{Cc}\p{Cf}\p{Zl}\p{Zp}]/gu, '?');
  return plain.length > LONGEST_NAME ? `${plain.slice(0, LONGEST_NAME / 2)}…` : plain;
}

interface Explained {
  readonly path: Path;
  readonly reason: string;
}

function explain(issue: Issue, base: Path, input: unknown): Explained[] {
  const path = [...base, ...issue.path];
  const at = valueAt(input, path);
  switch (issue.code) {
    case 'unrecognized_keys':
      return issue.keys.slice(0, MOST).map((key) => ({ path: [...path, key], reason: UNKNOWN_FIELD }));
    case 'invalid_type':
    case 'invalid_value':
      return [{ path, reason: mismatch(expectedOf(issue), at) }];
    case 'invalid_key':
      return [{ path, reason: `is no legal name here: ${issue.issues.map(plainReason).join(', ')}` }];
    case 'invalid_union':
      return explainUnion(issue, path, input, at);
    case 'too_big':
      return [{ path, reason: ownReason(issue) ?? bounded('at most', issue.maximum, issue.origin) }];
    case 'too_small':
      return [{ path, reason: ownReason(issue) ?? bounded('at least', issue.minimum, issue.origin) }];
    default:
      return [{ path, reason: plainReason(issue) }];
  }
}

function explainUnion(issue: z.core.$ZodIssueInvalidUnion, path: Path, input: unknown, at: unknown): Explained[] {
  if (issue.errors.length === 0) {
    // Sound: zod adds this field to issues of discriminated unions without typing it; it is read as unknown.
    const { options } = issue as { options?: unknown };
    return [{ path, reason: Array.isArray(options) ? mismatch(oneOf(options), at) : plainReason(issue) }];
  }
  // The branch probably meant does not expect another type altogether, and has the fewest problems.
  const meant = issue.errors
    .filter((branch) => !branch.some(isWholeMismatch))
    .toSorted((one, other) => one.length - other.length)[0];
  if (meant !== undefined) return meant.slice(0, MOST).flatMap((inner) => explain(inner, path, input));
  const wanted = issue.errors.flatMap((branch) => branch.slice(0, MOST).filter(isWholeMismatch).map(expectedOf));
  return [{ path, reason: mismatch([...new Set(wanted)].join(' or '), at) }];
}

/** zod's own words, in its language and without one. */
const OF_ZOD = /^(Too |Invalid input)/;

/** Returns the schema's own words for a bound; undefined if the schema leaves them to zod. */
function ownReason(issue: Issue): string | undefined {
  return OF_ZOD.test(issue.message) ? undefined : plainReason(issue);
}

const COUNTED: Readonly<Record<string, string>> = { string: 'characters', array: 'entries' };

function bounded(how: string, bound: number | bigint, origin: string): string {
  const counted = COUNTED[origin];
  return counted === undefined ? `must be ${how} ${bound}` : `must have ${how} ${bound} ${counted}`;
}

function isWholeMismatch(issue: Issue): boolean {
  return issue.path.length === 0 && (issue.code === 'invalid_type' || issue.code === 'invalid_value');
}

function expectedOf(issue: Issue): string {
  if (issue.code === 'invalid_type') return typeName(issue.expected);
  return issue.code === 'invalid_value' ? oneOf(issue.values) : 'something else';
}

function mismatch(expected: string, at: unknown): string {
  return at === undefined ? `is missing; it must be ${expected}` : `must be ${expected}, not ${kindOf(at)}`;
}

function oneOf(values: readonly unknown[]): string {
  const shown = values.map((value) => (typeof value === 'string' ? JSON.stringify(value) : String(value)));
  return shown.length === 1 ? (shown[0] ?? '') : `one of ${shown.join(', ')}`;
}

function typeName(expected: string): string {
  const names: Record<string, string> = {
    record: 'an object',
    object: 'an object',
    array: 'a list',
    int: 'a whole number',
  };
  return names[expected] ?? (expected === 'null' ? 'null' : `a ${expected}`);
}

function kindOf(value: unknown): string {
  if (value === null) return 'null';
  if (Array.isArray(value)) return 'a list';
  // JSON has no word for these three, and `typeof` calls them numbers.
  if (typeof value === 'number' && !Number.isFinite(value)) return String(value);
  if (typeof value === 'object') return kindOfObject(value);
  return typeof value === 'string' ? 'this text' : `a ${typeof value}`;
}

/** Names the class of an object that a program hands over: where an object is wanted, "an object" says nothing. */
function kindOfObject(value: object): string {
  // The prototype is asked, since a field of the input may be called `constructor`. Sound: the name is looked at below.
  const prototype = Object.getPrototypeOf(value) as { readonly constructor?: { readonly name?: unknown } } | null;
  const name = prototype?.constructor?.name;
  return typeof name === 'string' && !['', 'Object'].includes(name) ? `an instance of ${shownName(name)}` : 'an object';
}

/** zod's own words name limits and patterns but no input: schemas here are made without `reportInput`. */
function plainReason(issue: { readonly code?: string | undefined; readonly message: string }): string {
  const { message } = issue;
  return /^[A-Z][a-z]/.test(message) ? `${message.charAt(0).toLowerCase()}${message.slice(1)}` : message;
}

function valueAt(input: unknown, path: Path): unknown {
  let at = input;
  for (const step of path) {
    if (at === null || typeof at !== 'object' || !Object.hasOwn(at, step)) return undefined;
    // Sound: an object may be read at any of its own keys; what comes out is unknown.
    at = (at as Record<PropertyKey, unknown>)[step];
  }
  return at;
}
