/**
 * What the sandbox itself must refuse by shape: update and signal inputs, which any namespace writer can send.
 * Written by hand because zod in a workflow bundle doubles its cost; a property test holds each equal to its schema.
 */
import type { Approver, Decision, Say, Stop } from '../contracts/schemas/decision.ts';

export type Parsed<T> =
  | { readonly kind: 'ok'; readonly value: T }
  | { readonly kind: 'bad'; readonly path: string; readonly reason: string };

type Fields = Readonly<Record<string, unknown>>;
type Check = (value: unknown) => string | undefined;

const IDENTIFIER = /^[\x21-\x7e]{1,200}$/;
const CALL_ID = /^t[1-9][0-9]{0,5}\.c[0-9]{1,3}$/;
const SHA256 = /^[0-9a-f]{64}$/;

const identifier: Check = (value) =>
  typeof value === 'string' && IDENTIFIER.test(value)
    ? undefined
    : 'must be 1 to 200 printable ASCII characters without spaces';
const callId: Check = (value) =>
  typeof value === 'string' && CALL_ID.test(value) ? undefined : 'must look like t1.c0';
const digest: Check = (value) =>
  typeof value === 'string' && SHA256.test(value) ? undefined : 'must be 64 lower-case hexadecimal characters';
const text =
  (least: number, most: number): Check =>
  (value) =>
    typeof value === 'string' && value.length >= least && value.length <= most
      ? undefined
      : `must be text of ${least} to ${most} characters`;
const optional =
  (check: Check): Check =>
  (value) =>
    value === undefined ? undefined : check(value);
const oneOf =
  (...words: readonly string[]): Check =>
  (value) =>
    typeof value === 'string' && words.includes(value) ? undefined : `must be ${words.join(' or ')}`;
const approver: Check = (value) => {
  const problem = problemOf(value, { id: identifier, groups: optional(groups) });
  return problem === undefined ? undefined : `${problem.path === '' ? '' : `${problem.path} `}${problem.reason}`;
};
const groups: Check = (value) =>
  Array.isArray(value) && value.length <= 100 && value.every((group) => identifier(group) === undefined)
    ? undefined
    : 'must be a list of at most 100 group names';

const decisionFields = {
  kind: oneOf('approve', 'reject'),
  decisionId: identifier,
  callId,
  digest,
  runId: text(1, 200),
  approver,
};

export function parseDecision(value: unknown): Parsed<Decision> {
  const kind = isFields(value) ? value['kind'] : undefined;
  const own = kind === 'reject' ? { reason: text(1, 4_096) } : { comment: optional(text(0, 4_096)) };
  const problem = problemOf(value, { ...decisionFields, ...own });
  if (problem !== undefined) return { kind: 'bad', ...problem };
  // Sound: every field was checked above, and no other field is there.
  const decision = value as Decision & { approver: { id: string; groups?: string[] } };
  return { kind: 'ok', value: { ...decision, approver: withGroups(decision.approver) } };
}

export function parseSay(value: unknown): Parsed<Say> {
  const problem = problemOf(value, { messageId: identifier, text: text(1, 131_072), from: identifier });
  // Sound: every field was checked above.
  return problem === undefined ? { kind: 'ok', value: value as Say } : { kind: 'bad', ...problem };
}

export function parseStop(value: unknown): Parsed<Stop> {
  const problem = problemOf(value, {
    by: identifier,
    reason: text(1, 1_024),
    inFlight: optional(oneOf('finish', 'cancel')),
  });
  if (problem !== undefined) return { kind: 'bad', ...problem };
  // Sound: every field was checked above; only `inFlight` may be missing.
  const stop = value as Omit<Stop, 'inFlight'> & Partial<Pick<Stop, 'inFlight'>>;
  return { kind: 'ok', value: { ...stop, inFlight: stop.inFlight ?? 'finish' } };
}

function withGroups({ id, groups: given }: { readonly id: string; readonly groups?: string[] }): Approver {
  return { id, groups: given ?? [] };
}

function problemOf(
  value: unknown,
  checks: Readonly<Record<string, Check>>,
): { path: string; reason: string } | undefined {
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

function isFields(value: unknown): value is Fields {
  return typeof value === 'object' && value !== null && !Array.isArray(value);
}
