/**
 * What the sandbox itself must refuse by shape: update and signal inputs, which any namespace writer can send.
 * Written by hand because zod in a workflow bundle doubles its cost; a property test holds each equal to its schema.
 */
import type {
  Authorization,
  Decision,
  Forget,
  Provision,
  Resolution,
  Say,
  Stop,
} from '../../contracts/schemas/answer.ts';
import {
  anyCallId,
  approver,
  callId,
  type Check,
  digest,
  identifier,
  instant,
  isFields,
  jsonObject,
  listOf,
  name,
  oneOf,
  only,
  optional,
  type Parsed,
  problemOf,
  text,
  withGroups,
} from './fields.ts';

const answerFields = {
  decisionId: identifier,
  callId,
  digest,
  runId: text(1, 200),
  approver,
};

const decisionFields = { kind: oneOf('approve', 'reject', 'withdraw', 'extend', 'respond'), ...answerFields };

export function parseDecision(value: unknown): Parsed<Decision> {
  const kind = isFields(value) ? value['kind'] : undefined;
  const problem = problemOf(value, { ...decisionFields, ...ownFields(kind) });
  if (problem !== undefined) return { kind: 'bad', ...problem };
  // Sound: every field was checked above, and no other field is there.
  const decision = value as Decision & { approver: { id: string; groups?: string[] } };
  return { kind: 'ok', value: { ...decision, approver: withGroups(decision.approver) } };
}

const remember: Check = (value) => {
  const scope = isFields(value) ? value['scope'] : undefined;
  const problem = problemOf(value, {
    scope: oneOf('call', 'arguments', 'tool'),
    until: optional(instant),
    ...(scope === 'arguments' ? { names } : {}),
  });
  return problem === undefined ? undefined : `${problem.path === '' ? '' : `${problem.path} `}${problem.reason}`;
};

const NAMES = listOf(text(1, 200), 20);
const names: Check = (value) => (Array.isArray(value) && value.length === 0 ? 'must not be empty' : NAMES(value));

/** The text that goes with each kind. */
const RESOLUTIONS: Readonly<Record<string, Readonly<Record<string, Check>>>> = {
  succeeded: { result: text(1, 16_384) },
  failed: { message: text(1, 4_096) },
};

export function parseResolution(value: unknown): Parsed<Resolution> {
  const kind = isFields(value) ? value['kind'] : undefined;
  const problem = problemOf(value, {
    kind: oneOf('retry', 'succeeded', 'failed'),
    ...answerFields,
    ...(typeof kind === 'string' && Object.hasOwn(RESOLUTIONS, kind) ? RESOLUTIONS[kind] : {}),
    comment: optional(text(0, 4_096)),
  });
  if (problem !== undefined) return { kind: 'bad', ...problem };
  // Sound: every field was checked above, and no other field is there.
  const resolution = value as Resolution & { approver: { id: string; groups?: string[] } };
  return { kind: 'ok', value: { ...resolution, approver: withGroups(resolution.approver) } };
}

const formValue: Check = (value) =>
  typeof value === 'string' ||
  typeof value === 'boolean' ||
  Number.isFinite(value) ||
  (Array.isArray(value) && value.every((item) => typeof item === 'string'))
    ? undefined
    : 'must be text, a number, true or false, or a list of texts';

/** An answer to one question; whether it fits it is asked apart (`domain/request/input.ts`). */
const response: Check = (value) => {
  const action = isFields(value) ? value['action'] : undefined;
  const problem = problemOf(value, {
    action: oneOf('accept', 'decline', 'cancel'),
    ...(action === 'accept' ? { content: optional(formContent) } : {}),
  });
  return problem === undefined ? undefined : `${problem.path === '' ? '' : `${problem.path} `}${problem.reason}`;
};

const eachOf =
  (check: Check): Check =>
  (value) => {
    if (!isFields(value) || Object.hasOwn(value, '__proto__')) return 'must be an object';
    for (const [key, inner] of Object.entries(value)) {
      const reason = check(inner);
      if (reason !== undefined) return `has ${key}, which ${reason}`;
    }
    return undefined;
  };
const formContent = eachOf(formValue);

export function parseProvision(value: unknown): Parsed<Provision> {
  const kind = isFields(value) ? value['kind'] : undefined;
  const problem = problemOf(value, {
    kind: oneOf('provide', 'decline', 'cancel'),
    ...answerFields,
    ...(kind === 'provide' ? { responses: eachOf(response) } : {}),
    comment: optional(text(0, 4_096)),
  });
  if (problem !== undefined) return { kind: 'bad', ...problem };
  // Sound: every field was checked above, and no other field is there.
  const provision = value as Provision & { approver: { id: string; groups?: string[] } };
  return { kind: 'ok', value: { ...provision, approver: withGroups(provision.approver) } };
}

const AUTHORIZATIONS: Readonly<Record<string, Readonly<Record<string, Check>>>> = {
  consent: { comment: optional(text(0, 4_096)) },
  grant: { grant: (value) => grantProblem(value), comment: optional(text(0, 4_096)) },
  decline: { reason: text(1, 4_096) },
};

export function parseAuthorization(value: unknown): Parsed<Authorization> {
  const kind = isFields(value) ? value['kind'] : undefined;
  const problem = problemOf(value, {
    kind: oneOf('consent', 'grant', 'decline'),
    ...answerFields,
    callId: anyCallId,
    ...(typeof kind === 'string' && Object.hasOwn(AUTHORIZATIONS, kind) ? AUTHORIZATIONS[kind] : {}),
  });
  if (problem !== undefined) return { kind: 'bad', ...problem };
  // Sound: every field was checked above, and no other field is there.
  const authorization = value as Authorization & { approver: { id: string; groups?: string[] } };
  return { kind: 'ok', value: { ...authorization, approver: withGroups(authorization.approver) } };
}

const JWE = ['protected', 'encrypted_key', 'iv', 'ciphertext', 'tag', 'aad'];

/** Sealed, or a reference: a clear token is neither. */
function grantProblem(value: unknown): string | undefined {
  const anyText: Check = (part) => (typeof part === 'string' ? undefined : 'must be text');
  const isSealed = isFields(value) && 'jwe' in value;
  const sealed: Check = (part) => problemOf(part, Object.fromEntries(JWE.map((field) => [field, anyText])))?.reason;
  const problem = problemOf(value, { server: name, ...(isSealed ? { jwe: sealed } : { ref: identifier }) });
  return problem && 'must be {server, jwe} or {server, ref}';
}

export function parseForget(value: unknown): Parsed<Forget> {
  const problem = problemOf(value, { standing: identifier, by: approver, comment: optional(text(0, 4_096)) });
  if (problem !== undefined) return { kind: 'bad', ...problem };
  // Sound: every field was checked above, and no other field is there.
  const asked = value as Forget & { by: { id: string; groups?: string[] } };
  return { kind: 'ok', value: { ...asked, by: withGroups(asked.by) } };
}

function ownFields(kind: unknown): Readonly<Record<string, Check>> {
  const comment = optional(text(0, 4_096));
  switch (kind) {
    case 'reject':
      return { reason: text(1, 4_096) };
    case 'extend':
      return { until: instant, comment };
    case 'respond':
      return { answer: text(1, 16_384), comment };
    case 'approve':
      return { comment, arguments: optional(jsonObject), remember: optional(remember) };
    default:
      return { comment };
  }
}

export function parseSay(value: unknown): Parsed<Say> {
  const problem = problemOf(value, {
    messageId: identifier,
    text: text(1, 131_072),
    from: identifier,
    interrupt: optional(only(true)),
  });
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
