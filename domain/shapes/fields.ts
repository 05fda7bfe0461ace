/** Checks of single fields, for shapes that the sandbox reads itself (`messages.ts`, `catalog.ts`). */
import { isUndecodable } from '../../contracts/payload-converter.ts';
import type { Approver } from '../../contracts/schemas/answer.ts';

export type Parsed<T> =
  | { readonly kind: 'ok'; readonly value: T }
  | { readonly kind: 'bad'; readonly path: string; readonly reason: string };

export type Fields = Readonly<Record<string, unknown>>;
export type Check = (value: unknown) => string | undefined;

const IDENTIFIER = /^[\x21-\x7e]{1,200}$/;
const CALL_ID = /^t[1-9][0-9]{0,5}\.c[0-9]{1,3}$/;
const SHA256 = /^[0-9a-f]{64}$/;

export const identifier: Check = (value) =>
  typeof value === 'string' && IDENTIFIER.test(value)
    ? undefined
    : 'must be 1 to 200 printable ASCII characters without spaces';
/** Also of a list of tools, which is asked about under turn 0. */
export const anyCallId: Check = (value) =>
  typeof value === 'string' && value.startsWith('t0.') ? callId(value.replace('t0.', 't1.')) : callId(value);

export const callId: Check = (value) =>
  typeof value === 'string' && CALL_ID.test(value)
    ? undefined
    : 'must look like t1.c0; a list of tools (t0.c0) is answered by authorize';
export const digest: Check = (value) =>
  typeof value === 'string' && SHA256.test(value) ? undefined : 'must be 64 lower-case hexadecimal characters';
export const text =
  (least: number, most: number): Check =>
  (value) =>
    typeof value === 'string' && value.length >= least && value.length <= most
      ? undefined
      : `must be text of ${least} to ${most} characters`;
export const optional =
  (check: Check): Check =>
  (value) =>
    value === undefined ? undefined : check(value);
export const oneOf =
  (...words: readonly string[]): Check =>
  (value) =>
    typeof value === 'string' && words.includes(value) ? undefined : `must be ${words.join(' or ')}`;
export const only =
  (wanted: unknown): Check =>
  (value) =>
    value === wanted ? undefined : `must be ${String(wanted)} where it is there`;
const NAME = /^[A-Za-z0-9][A-Za-z0-9._-]{0,63}$/;
export const name: Check = (value) =>
  typeof value === 'string' && NAME.test(value)
    ? undefined
    : 'must be 1 to 64 of A-Z a-z 0-9 . _ - and start with a letter or digit';
/** With milliseconds and in UTC, as `toISOString` writes it: each time has one spelling. */
export const instant: Check = (value) =>
  typeof value === 'string' && value.length === 24 && isoOf(Date.parse(value)) === value
    ? undefined
    : 'must be a time like 2026-01-31T09:00:00.000Z';
const isoOf = (ms: number): string => (Number.isNaN(ms) ? '' : new Date(ms).toISOString());
export const truth: Check = (value) => (typeof value === 'boolean' ? undefined : 'must be true or false');
export const wholeNumber =
  (least: number, most: number): Check =>
  (value) =>
    Number.isSafeInteger(value) && Number(value) >= least && Number(value) <= most
      ? undefined
      : `must be a whole number from ${least} to ${most}`;
export const listOf =
  (check: Check, most: number): Check =>
  (value) =>
    Array.isArray(value) && value.length <= most && value.every((item) => check(item) === undefined)
      ? undefined
      : `must be a list of at most ${most}, each of which ${check(undefined) ?? ''}`;
/** Beyond it, code that walks values by recursion would end with the stack, and a run could not go on. */
const DEEPEST_JSON = 100;
/** `__proto__` as a field of its own is nothing that a person means, and a way to be read in two ways. */
export const jsonObject: Check = (value) =>
  isFields(value) && isJson(value, DEEPEST_JSON)
    ? undefined
    : `must be a JSON object of at most ${DEEPEST_JSON} levels, without fields called __proto__`;

function isJson(value: unknown, levelsLeft: number): boolean {
  if (typeof value === 'number') return Number.isFinite(value);
  if (value === null || typeof value === 'string' || typeof value === 'boolean') return true;
  if (typeof value !== 'object' || levelsLeft === 0 || Object.hasOwn(value, '__proto__')) return false;
  return Object.values(value).every((inner) => isJson(inner, levelsLeft - 1));
}

export const approver: Check = (value) => {
  const problem = problemOf(value, { id: identifier, groups: optional(groups) });
  return problem === undefined ? undefined : `${problem.path === '' ? '' : `${problem.path} `}${problem.reason}`;
};
const groups: Check = (value) =>
  Array.isArray(value) && value.length <= 100 && value.every((group) => identifier(group) === undefined)
    ? undefined
    : 'must be a list of at most 100 group names';

export function withGroups({ id, groups: given }: { readonly id: string; readonly groups?: string[] }): Approver {
  return { id, groups: given ?? [] };
}

export function problemOf(
  value: unknown,
  checks: Readonly<Record<string, Check>>,
): { path: string; reason: string } | undefined {
  if (isUndecodable(value)) return { path: '', reason: value.says };
  if (!isFields(value)) return { path: '', reason: 'must be an object' };
  for (const key of Object.keys(value)) {
    if (!Object.hasOwn(checks, key)) return { path: key, reason: `is no field of this message${hintFor(key, value)}` };
  }
  for (const [key, check] of Object.entries(checks)) {
    const reason = check(value[key]);
    if (reason !== undefined) return { path: key, reason };
  }
  return undefined;
}

/** An approval that rides in another message is refused by name. */
function hintFor(key: string, value: Fields): string {
  const type = value['type'];
  if (/approv|decision/i.test(key) || (typeof type === 'string' && /approv|decision/i.test(type))) {
    return ': approvals count only as a `decide` update';
  }
  return '';
}

/** Bytes are none: as fields they would be millions. */
export function isFields(value: unknown): value is Fields {
  if (typeof value !== 'object' || value === null || Array.isArray(value)) return false;
  return !ArrayBuffer.isView(value) && !isUndecodable(value);
}

export function isFiniteNumber(value: unknown): value is number {
  return typeof value === 'number' && Number.isFinite(value);
}
