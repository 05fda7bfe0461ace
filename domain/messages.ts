/**
 * Every message that may be sent to a run or a catalog, and the claims of its signature, read by their schemas: the one place where
 * workflow code holds schemas as values (docs/adr/0052). Any namespace writer can send anything, so a message may be anything.
 *
 * 1. Nothing throws: a message is taken with its defaults, or refused with a path and a reason that holds none of its values.
 */
import type { z } from 'zod';
import { Authorization } from '../contracts/schemas/authorization.ts';
import {
  CatalogConnect,
  CatalogDecision,
  CatalogDisconnect,
  CatalogRefresh,
  SetToolPolicies,
} from '../contracts/schemas/catalog.ts';
import { answerTo, Decision, Forget, Say, Stop } from '../contracts/schemas/decision.ts';
import { HeldQuestions } from '../contracts/schemas/held-input.ts';
import { pathText, type Problem, problemsOf, UNKNOWN_FIELD } from '../contracts/schemas/issues.ts';
import { Identifier, Instant, Name } from '../contracts/schemas/json.ts';
import { Provision } from '../contracts/schemas/provision.ts';
import { Resolution } from '../contracts/schemas/resolution.ts';
import { SignedClaims } from '../contracts/schemas/trust.ts';
import { isUndecodable } from '../contracts/undecodable.ts';
import { type Fields, isFields } from './field-checks.ts';
import { hasSecretParameter } from './secret-parameter.ts';

export type Parsed<T> = { readonly kind: 'ok'; readonly value: T } | ({ readonly kind: 'bad' } & Problem);

/** Beyond it, code that walks values by recursion would end with the stack, and a run could not go on. */
const DEEPEST_JSON = 100;

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
/** Claims of a signature that was found to be one. */
export const parseClaims = readerOf(SignedClaims);
const readConnect = readerOf(CatalogConnect);

/** The URL stands in history, in lists and in requests: no secret may be in it (INV-S1). */
export function parseConnect(value: unknown): Parsed<CatalogConnect> {
  const read = readConnect(value);
  if (read.kind === 'bad' || !hasSecretParameter(read.value.url)) return read;
  return bad('url', 'must hold no secret; name credentials of the configuration instead');
}

export function isIdentifier(value: unknown): value is string {
  return Identifier.safeParse(value).success;
}

export function isName(value: unknown): value is string {
  return Name.safeParse(value).success;
}

export function isCallId(value: unknown): value is string {
  return answerTo.callId.safeParse(value).success;
}

export function isInstant(value: unknown): value is string {
  return Instant.safeParse(value).success;
}

/** A schema makes no code at run time: workflow code is what was bundled. */
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

/** An approval that rides in another message is refused by name. */
function hinted({ path, reason }: Problem, { type }: Fields): Problem {
  const saysSo = /approv|decision/i.test(path) || (typeof type === 'string' && /approv|decision/i.test(type));
  return { path, reason: saysSo && reason === UNKNOWN_FIELD ? `${reason}${HINT}` : reason };
}

function bad(path: string, reason: string): { kind: 'bad' } & Problem {
  return { kind: 'bad', path, reason };
}

/** A schema overlooks a field called `__proto__`, which no person means, and which can be read in two ways. */
function unsafeField(message: Fields): ReturnType<typeof bad> | undefined {
  for (const [key, value] of Object.entries(message)) {
    if (key === '__proto__') return bad(key, UNKNOWN_FIELD);
    if (!isSafe(value, DEEPEST_JSON))
      return bad(pathText([key]), `must have at most ${DEEPEST_JSON} levels, and no fields called __proto__`);
  }
  return undefined;
}

function isSafe(value: unknown, levelsLeft: number): boolean {
  if (typeof value !== 'object' || value === null) return true;
  if (levelsLeft === 0 || Object.hasOwn(value, '__proto__')) return false;
  return Object.values(value).every((inner) => isSafe(inner, levelsLeft - 1));
}
