/**
 * Reads the input of workflows without trust: any writer of the namespace can send any value. Messages and the claims
 * of signatures by their schemas (docs/adr/0052), which are values only here; answers of activities by the shapes
 * below.
 *
 * 1. Nothing throws: a message is taken with its defaults, or refused with a path and a reason that holds none of its
 *    values.
 */
import type { z } from 'zod';
import { isUndecodable } from '../../contracts/payload-converter.ts';
import {
  CatalogConnect,
  CatalogDecision,
  CatalogDisconnect,
  CatalogRefresh,
  SetToolPolicies,
} from '../../contracts/schemas/catalog.ts';
import { Identifier, Instant, Name } from '../../contracts/schemas/json.ts';
import { HeldQuestions } from '../../contracts/schemas/legacy-2025.ts';
import { Digest, Gathered } from '../../contracts/schemas/notify.ts';
import { pathText, type Problem, problemsOf, UNKNOWN_FIELD } from '../../contracts/schemas/parse.ts';
import {
  answerTo,
  Authorization,
  Decision,
  Forget,
  Provision,
  Resolution,
  Say,
  Stop,
} from '../../contracts/schemas/request.ts';
import { SignedClaims } from '../../contracts/schemas/trust.ts';
import { hasSecretParameter } from '../text/urls.ts';

export type Fields = Readonly<Record<string, unknown>>;

/** Byte arrays do not count: as fields they would be millions. */
export function isFields(value: unknown): value is Fields {
  if (typeof value !== 'object' || value === null || Array.isArray(value)) return false;
  return !ArrayBuffer.isView(value) && !isUndecodable(value);
}

export function isFiniteNumber(value: unknown): value is number {
  return typeof value === 'number' && Number.isFinite(value);
}

export type Parsed<T> = { readonly kind: 'ok'; readonly value: T } | ({ readonly kind: 'bad' } & Problem);

/** Recursion over deeper values would overflow the stack, and the run could not go on. */
const DEEPEST_JSON = 100;
/** Values of one message outside of free JSON. A full `setToolPolicies` has up to a hundred thousand. */
const MOST_VALUES = 100_000;
/** Fields that hold any JSON: no value in them can fail once it is safe. */
const FREE: ReadonlySet<string> = new Set(['arguments']);

export const parseDecision = readerOf(Decision);
export const parseResolution = readerOf(Resolution);
export const parseProvision = readerOf(Provision);
export const parseAuthorization = readerOf(Authorization);
export const parseForget = readerOf(Forget);
export const parseSay = readerOf(Say);
export const parseStop = readerOf(Stop);
export const parseHeldQuestions = readerOf(HeldQuestions);
export const parseRefresh = readerOf(CatalogRefresh);
export const parsePolicies = readerOf(SetToolPolicies);
export const parseDisconnect = readerOf(CatalogDisconnect);
export const parseCatalogDecision = readerOf(CatalogDecision);
export const parseDigest = readerOf(Digest);
export const parseGathered = readerOf(Gathered);
/** Reads the claims of a signature whose form and key were checked. */
export const parseClaims = readerOf(SignedClaims);
const readConnect = readerOf(CatalogConnect);

/** History, lists and requests show the URL, so it must hold no secret (INV-S1). */
export function parseConnect(value: unknown): Parsed<CatalogConnect> {
  const read = readConnect(value);
  if (read.kind === 'bad' || !hasSecretParameter(read.value.url)) return read;
  return bad('url', 'must hold no secret; name credentials of the configuration instead');
}

export const isIdentifier = fitting(Identifier);
export const isName = fitting(Name);
export const isCallId = fitting(answerTo.callId);
export const isInstant = fitting(Instant);

function fitting(schema: z.ZodType<string>): (value: unknown) => value is string {
  return (value): value is string => schema.safeParse(value).success;
}

/** Keeps the schema library from generating code at run time: workflow code is only what was bundled. */
const WITHOUT_CODE = { jitless: true };

function readerOf<T>(schema: z.ZodType<T>): (value: unknown) => Parsed<T> {
  return (value) => {
    if (isUndecodable(value)) return bad('', value.says);
    if (!isFields(value)) return bad('', 'must be an object');
    const unsafe = unsafeField(value);
    if (unsafe !== undefined) return unsafe;
    const { success, data, error } = schema.safeParse(value, WITHOUT_CODE);
    if (success) return { kind: 'ok', value: data };
    const problems = problemsOf(error, value).map((problem) => hinted(problem, value));
    const told = problems.find(({ reason }) => reason.endsWith(HINT)) ?? problems[0];
    return { ...bad('', 'does not fit its schema'), ...told };
  };
}

const HINT = ': approvals count only as a `decide` update';

/** Names the mistake if another message carries an approval. */
function hinted({ path, reason }: Problem, { type }: Fields): Problem {
  const saysSo = /approv|decision/i.test(path) || (typeof type === 'string' && /approv|decision/i.test(type));
  return { path, reason: saysSo && reason === UNKNOWN_FIELD ? `${reason}${HINT}` : reason };
}

function bad(path: string, reason: string): { kind: 'bad' } & Problem {
  return { kind: 'bad', path, reason };
}

/**
 * Finds what must not reach a schema: a field called `__proto__`, which schemas overlook, and more values than memory
 * holds, as a schema explains each that does not fit at a price of a kilobyte.
 */
function unsafeField(message: Fields): ReturnType<typeof bad> | undefined {
  let valuesLeft = MOST_VALUES;
  for (const [key, value] of Object.entries(message)) {
    if (key === '__proto__') return bad(key, UNKNOWN_FIELD);
    if (!isSafe(value, DEEPEST_JSON))
      return bad(
        pathText([key]),
        `must have at most ${DEEPEST_JSON} levels, finite numbers, and no fields called __proto__`,
      );
    valuesLeft -= FREE.has(key) ? 1 : valuesIn(value);
    if (valuesLeft < 0) return bad(pathText([key]), `must leave the message with at most ${MOST_VALUES} values`);
  }
  return undefined;
}

function isSafe(value: unknown, levelsLeft: number): boolean {
  if (typeof value === 'number') return Number.isFinite(value);
  if (typeof value !== 'object' || value === null) return true;
  if (levelsLeft === 0 || Object.hasOwn(value, '__proto__')) return false;
  return Object.values(value).every((inner) => isSafe(inner, levelsLeft - 1));
}

/** @param value nests no deeper than `isSafe` allows */
function valuesIn(value: unknown): number {
  if (typeof value !== 'object' || value === null) return 1;
  return Object.values(value).reduce<number>((sum, inner) => sum + valuesIn(inner), 1);
}

// Shapes of the answers of activities, as far as the workflow reads their fields (docs/adr/0046). An answer that does
// not fit counts as lost; else the workflow task would fail for ever. Further fields are allowed: other releases answer
// more.

/** A check of one value, or the checks of an object's fields; a field whose name ends with `?` may be missing. */
type Shape = ((value: unknown) => boolean) | { readonly [name: string]: Shape };

/** The greatest time value of ECMA-262. */
const LATEST_TIME = 8.64e15;
/** In ms or seconds; no wait of ours is longer. */
const LONGEST_SPAN = 1e9;

const fields = isFields;
const text = (value: unknown): boolean => typeof value === 'string';
const count = (value: unknown): boolean => Number.isSafeInteger(value) && Number(value) >= 0;
/** Epoch ms of a date that can be written. */
const time = (value: unknown): boolean => count(value) && Number(value) <= LATEST_TIME;
/** A time that a timer can wait, and that is added to such a date. */
const span = (value: unknown): boolean => isFiniteNumber(value) && value >= 0 && value <= LONGEST_SPAN;

const word = (expected: string) => (value: unknown) => value === expected;
const each = (shape: Shape) => (value: unknown) => Array.isArray(value) && value.every((item) => fits(item, shape));
const every = (shape: Shape) => (value: unknown) => isFields(value) && each(shape)(Object.values(value));
const either =
  (...shapes: readonly Shape[]) =>
  (value: unknown) =>
    shapes.some((shape) => fits(value, shape));

const REF = { sha256: text, bytes: count, contentType: text };
const TRUST = { keys: each(fields), maxAgeSeconds: count };
const WHY = { code: text, message: text } as const;
const PEOPLE = { ids: each(text), groups: each(text) };
const RULE = {
  allOf: each({
    ids: each(text),
    groups: each(text),
    'need?': count,
    'not?': each(text),
    'may?': each(text),
    'remember?': each(text),
    'escalate?': either({ afterSeconds: span, add: PEOPLE }, { afterSeconds: span, replace: PEOPLE }),
  }),
  'validForSeconds?': span,
  'extendableToSeconds?': span,
  'remindAfterSeconds?': span,
};
const VERDICT = either(
  { kind: word('allow') },
  {
    kind: word('ask'),
    approvers: RULE,
    deadlineSeconds: span,
    'notify?': each({ channel: text }),
  },
  { kind: word('deny'), ...WHY },
);
const JUDGED = {
  policyVersion: text,
  judgements: each({ callId: text, verdict: VERDICT, 'target?': { server: text, tool: text } }),
};
const NEED = {
  reason: text,
  message: text,
  wants: text,
  'scopes?': each(text),
  'asked?': { approvers: RULE, deadlineSeconds: span },
};
const EVIDENCE = { 'strategy?': text, 'issuer?': text, 'jti?': text, 'scopes?': each(text), 'expiresAt?': text };
const ENDED = {
  kind: word('ended'),
  outcome: either(
    { kind: word('unknown'), ...WHY },
    { kind: (kind) => text(kind) && kind !== 'unknown', 'code?': text, 'result?': { content: each(fields) } },
  ),
  'sent?': { at: isInstant, 'bytes?': count, 'progress?': isFiniteNumber },
  'token?': EVIDENCE,
  'authorization?': NEED,
  'held?': each(fields),
};
const TASK = {
  sealed: fields,
  sentAt: isInstant,
  until: isInstant,
  'pollMs?': isFiniteNumber,
  'message?': text,
};
const QUESTION = either(
  { kind: word('url'), hash: text, message: text, host: text },
  { kind: word('form'), hash: text, message: text, fields, required: each(text) },
);
const DISPATCHED = either(
  ENDED,
  { kind: word('not-sent'), ...WHY, 'retryAfterMs?': span, 'held?': { by: text, atMostSeconds: span } },
  { kind: word('refused'), ...WHY },
  {
    kind: word('reopen'),
    ...WHY,
    'approvers?': RULE,
    'deadlineSeconds?': span,
    'definition?': { hash: text },
  },
  { kind: word('task'), task: TASK, 'token?': EVIDENCE, 'held?': each(fields) },
  { kind: word('input'), round: count, used: each(text), requests: every(QUESTION) },
);

const STEP = {
  parts: each(
    either(
      { type: word('call'), callId: text, providerCallId: text, name: text, arguments: fields },
      { type: either(word('text'), word('reasoning')), text },
    ),
  ),
  usage: { inputTokens: count, outputTokens: count },
  finish: text,
  'judged?': JUDGED,
  'malformed?': fields,
};

const TURNS = each({
  step: STEP,
  at: time,
  'calls?': each({
    callId: text,
    digest: text,
    sentAt: time,
    'endedAt?': time,
    'result?': DISPATCHED,
  }),
});
const FOUND = { server: text, tools: REF, refused: each(fields) };
const PREPARED = {
  specHash: text,
  policyVersion: text,
  limits: fields,
  initiator: { id: text },
  servers: each({ name: text, url: text }),
  opening: each({ role: text }),
  'trust?': TRUST,
  'notify?': { routes: each({ channel: text }), 'gather?': fields },
};
const TIMES = { prepared: time, listed: time };
const RECORD = { turns: TURNS, 'prepared?': PREPARED, 'found?': each(FOUND), 'times?': TIMES };

const FAILED = { ...WHY, facts: fields };

const ANSWERS = {
  prepareRun: {
    ...PREPARED,
    'found?': each(FOUND),
    'times?': TIMES,
    'turns?': TURNS,
    'failed?': FAILED,
  },
  'readTrust?': TRUST,
  judge: JUDGED,
  storeSegment: REF,
  sendMessage: { 'thread?': text },
  modelStep: STEP,
  stretch: { ...RECORD, 'failed?': FAILED },
  discoverTools: either(FOUND, { server: text, authorization: NEED }),
  callTool: DISPATCHED,
  resumeCall: DISPATCHED,
  pollTask: either(
    ENDED,
    { kind: word('working'), 'pollMs?': isFiniteNumber, 'message?': text },
    { kind: word('unreached'), message: text, 'retryAfterMs?': isFiniteNumber },
  ),
  discoverCatalog: {
    listing: REF,
    tools: each({ name: text, hash: text }),
    refused: each(fields),
  },
  reviewChange: {
    rules: { administrators: each(fields), newTools: text, loosening: text, 'idCase?': text },
    objections: each({ path: text, reason: text }),
    'trust?': either(TRUST, word('unchanged')),
    'unproven?': WHY,
  },
} satisfies Readonly<Record<string, Shape>>;

/** Name of the activity; a final `?` marks one that may answer nothing. */
export type Answerer = keyof typeof ANSWERS;

export function isAnswerOf(activity: Answerer, value: unknown): boolean {
  const isNothing = value === undefined || value === null;
  return (activity.endsWith('?') && isNothing) || fits(value, ANSWERS[activity]);
}

function fits(value: unknown, shape: Shape): boolean {
  if (typeof shape === 'function') return shape(value);
  if (!isFields(value)) return false;
  return Object.entries(shape).every(([name, inner]) => {
    const field = value[name.replace('?', '')];
    return (name.endsWith('?') && field === undefined) || fits(field, inner);
  });
}
