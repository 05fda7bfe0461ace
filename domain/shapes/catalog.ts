/**
 * The shapes of what may be sent to a catalog. Written by hand for the sandbox, as `messages.ts` is; a property test holds each
 * equal to its schema.
 */
import type { Approver } from '../../contracts/schemas/answer.ts';
import type {
  CatalogConnect,
  CatalogDecision,
  CatalogDisconnect,
  CatalogRefresh,
  SetToolPolicies,
} from '../../contracts/schemas/catalog.ts';
import { hasSecretParameter } from '../text/urls.ts';
import {
  approver,
  type Check,
  digest,
  identifier,
  isFields,
  listOf,
  name,
  oneOf,
  optional,
  type Parsed,
  problemOf,
  text,
  truth,
  wholeNumber,
  withGroups,
} from './fields.ts';

/** `MOST_TOOL_CHANGES` of the schema. */
const MOST_CHANGES = 1_000;
const LONGEST_DEADLINE = 31_536_000;

const message = { requestId: identifier, by: approver };
const version = wholeNumber(0, Number.MAX_SAFE_INTEGER);

const SERVER_URL =
  /^[Hh][Tt][Tt][Pp][Ss]?:\/\/(?:\[[0-9A-Fa-f:.]+\]|[^\s\\/?#@%<>^|:[\]\p{C}]+)(?::[0-9]{1,5})?(?:[/?][^\s\\#\p{C}]*)?$/u;

/** Stands in history, in lists and in requests: no secret may be in it (INV-S1). */
const serverUrl: Check = (value) => {
  if (typeof value !== 'string' || value.length > 2_048 || !SERVER_URL.test(value))
    return 'must be an http or https URL of at most 2048 characters, without user name, password and fragment';
  return hasSecretParameter(value) ? 'must hold no secret; name credentials of the configuration instead' : undefined;
};

const yes: Check = (value) => (value === true ? undefined : 'must be true, or left out');

const nullable =
  (check: Check): Check =>
  (value) =>
    value === null || value === undefined ? undefined : check(value);

const rights = listOf(oneOf('edit', 'respond'), 2);
const scopes = listOf(oneOf('call', 'arguments', 'tool'), 3);

const approverList: Check = (value) => {
  const ids = optional(listOf(identifier, 100));
  const need = optional(wholeNumber(2, 20));
  const problem = problemOf(value, {
    ids,
    groups: ids,
    need,
    notInitiator: optional(yes),
    may: optional(rights),
    remember: optional(scopes),
  });
  return problem === undefined ? undefined : `${problem.path === '' ? '' : `${problem.path} `}${problem.reason}`;
};

const change = {
  tool: text(1, 128),
  enabled: optional(truth),
  requiresApproval: optional(truth),
  denied: optional(truth),
  approvers: nullable(approverList),
  deadlineSeconds: nullable(wholeNumber(1, LONGEST_DEADLINE)),
  acknowledge: optional(digest),
};

export function parseConnect(value: unknown): Parsed<CatalogConnect> {
  return parsed<CatalogConnect>(value, {
    ...message,
    url: serverUrl,
    credentials: optional(name),
    trusted: optional(truth),
    taskQueue: optional(name),
    expectedVersion: optional(version),
  });
}

export function parseRefresh(value: unknown): Parsed<CatalogRefresh> {
  return parsed<CatalogRefresh>(value, message);
}

export function parseDisconnect(value: unknown): Parsed<CatalogDisconnect> {
  return parsed<CatalogDisconnect>(value, { ...message, expectedVersion: version });
}

export function parseCatalogDecision(value: unknown): Parsed<CatalogDecision> {
  return parsed<CatalogDecision>(value, {
    ...message,
    changeId: identifier,
    digest,
    verdict: oneOf('approve', 'reject'),
  });
}

export function parsePolicies(value: unknown): Parsed<SetToolPolicies> {
  const read = parsed<SetToolPolicies>(value, { ...message, expectedVersion: version, changes });
  if (read.kind === 'bad') return read;
  for (const [index, each] of read.value.changes.entries()) {
    const problem = problemOf(each, change);
    if (problem !== undefined)
      return {
        kind: 'bad',
        path: `changes[${index}]${problem.path === '' ? '' : `.${problem.path}`}`,
        reason: problem.reason,
      };
  }
  return {
    kind: 'ok',
    value: {
      ...read.value,
      changes: read.value.changes.map((each) =>
        each.approvers === undefined || each.approvers === null
          ? each
          : {
              ...each,
              approvers: { ...each.approvers, ids: each.approvers.ids ?? [], groups: each.approvers.groups ?? [] },
            },
      ),
    },
  };
}

const changes: Check = (value) =>
  Array.isArray(value) && value.length > 0 && value.length <= MOST_CHANGES
    ? undefined
    : `must be a list of 1 to ${MOST_CHANGES} changes`;

function parsed<T extends { readonly by: Approver }>(
  value: unknown,
  checks: Readonly<Record<string, Check>>,
): Parsed<T> {
  const problem = problemOf(value, checks);
  if (problem !== undefined) return { kind: 'bad', ...problem };
  // Sound: every field was checked above, and no other field is there; defaults are added below.
  const taken = value as T & { by: { id: string; groups?: string[] } };
  const trusted = Object.hasOwn(checks, 'trusted') ? { trusted: isFields(value) && value['trusted'] === true } : {};
  return { kind: 'ok', value: { ...taken, ...trusted, by: withGroups(taken.by) } };
}
