/** The one table of error codes; `docs/errors/<CODE>.md` tells a person what to do about each. */

export interface ErrorTraits {
  /** True if the same request may succeed when sent again unchanged. */
  readonly retryable: boolean;
  /** Status of an HTTP surface (RFC 9110). */
  readonly httpStatus: number;
  /** 2 usage, 3 refused, 4 not found, 5 conflict, 6 unavailable, 7 failed check, 70 fault. */
  readonly exitCode: number;
}

const usage = { retryable: false, httpStatus: 422, exitCode: 2 } as const;
const refused = { retryable: false, httpStatus: 403, exitCode: 3 } as const;
const missing = { retryable: false, httpStatus: 404, exitCode: 4 } as const;
const conflict = { retryable: false, httpStatus: 409, exitCode: 5 } as const;
const stale = { retryable: false, httpStatus: 412, exitCode: 5 } as const;
const unavailable = { retryable: true, httpStatus: 503, exitCode: 6 } as const;
const failedCheck = { retryable: false, httpStatus: 422, exitCode: 7 } as const;
const upstream = { retryable: false, httpStatus: 502, exitCode: 3 } as const;
const fault = { retryable: false, httpStatus: 500, exitCode: 70 } as const;

export const ERRORS = {
  // A caller sent something wrong.
  USAGE: usage,
  SPEC_INVALID: usage,
  SECRET_IN_SPEC: usage,
  APPROVAL_ITEM_IN_INPUT: usage,
  AUTHORIZATION_IN_HEADERS: usage,
  CONFIG_INVALID: usage,
  DECISION_INVALID: usage,
  MESSAGE_INVALID: usage,
  MODEL_UNKNOWN: usage,
  HOSTED_UNSUPPORTED: usage,
  SERVER_UNKNOWN: usage,
  // Runs.
  RUN_NOT_FOUND: missing,
  RUN_CLOSED: { retryable: false, httpStatus: 410, exitCode: 5 },
  RUN_ID_CONFLICT: conflict,
  RUN_FAILED: upstream,
  RUN_CANCELLED: conflict,
  // The state passes with its cause, an overload or a build. Callers cannot tell it from one that only `recover` helps.
  RUN_STUCK: unavailable,
  RUN_RESET: conflict,
  LIMIT_REACHED: refused,
  CALL_UNSUCCESSFUL: refused,
  // Decisions.
  CALL_UNKNOWN: missing,
  REQUEST_NOT_OPEN: conflict,
  ALREADY_DECIDED: conflict,
  // A decision echoes what was shown, as a precondition.
  DIGEST_MISMATCH: stale,
  DECISION_STALE_RUN: stale,
  DECISION_EXPIRED: { retryable: false, httpStatus: 410, exitCode: 5 },
  APPROVER_NOT_ENTITLED: refused,
  EXTENSION_FORBIDDEN: refused,
  DECISION_NOT_PERMITTED: refused,
  JUDGE_UNAVAILABLE: unavailable,
  STANDING_UNKNOWN: missing,
  STANDING_LOST: conflict,
  // Signatures.
  SIGNATURE_MISSING: refused,
  SIGNATURE_INVALID: refused,
  SIGNATURE_EXPIRED: refused,
  SIGNER_NOT_ENTITLED: refused,
  // A key may be newer than the set that was last read.
  TRUST_KEY_UNKNOWN: unavailable,
  TRUST_REFRESH_TOO_SOON: unavailable,
  TRUST_UNAVAILABLE: unavailable,
  ANSWER_UNPROVEN: unavailable,
  // Policy and dispatch.
  POLICY_DENIED: refused,
  ORGANISATION_HALTED: refused,
  TOOL_UNKNOWN: missing,
  ARGUMENTS_INVALID: usage,
  ARGUMENTS_TOO_LARGE: usage,
  DISPATCH_FORBIDDEN: refused,
  DISPATCH_STALE_RUN: conflict,
  VERDICT_STRICTER: conflict,
  APPROVAL_LAPSED: conflict,
  DEFINITION_CHANGED: conflict,
  TOOL_DISABLED: refused,
  TOOL_MISSING: missing,
  RESOURCE_NOT_LINKED: refused,
  EGRESS_FORBIDDEN: refused,
  // Catalogs.
  CATALOG_INVALID: usage,
  CATALOG_NOT_FOUND: missing,
  CATALOG_FORBIDDEN: refused,
  CATALOG_VERSION_CONFLICT: conflict,
  CATALOG_SETTING_UNSUPPORTED: refused,
  CATALOG_UNAVAILABLE: unavailable,
  // Grants and tokens.
  GRANT_INVALID: refused,
  GRANT_EXPIRED: refused,
  GRANT_FORBIDDEN: refused,
  GRANT_MISSING: refused,
  // The result of exchanging the grant was lost.
  GRANT_LOST: refused,
  SEALING_KEY_MISSING: usage,
  TOKEN_REFUSED: upstream,
  TOKEN_UNBOUND: upstream,
  TOKEN_UNAVAILABLE: { retryable: true, httpStatus: 502, exitCode: 6 },
  // The vault.
  VAULT_ENTRY_UNKNOWN: missing,
  VAULT_CONFLICT: conflict,
  VAULT_READ_ONLY: refused,
  VAULT_UNAVAILABLE: unavailable,
  VAULT_CORRUPT: fault,
  // Tool servers.
  DISCOVERY_FAILED: { retryable: true, httpStatus: 502, exitCode: 6 },
  TOOL_UNAVAILABLE: { retryable: true, httpStatus: 502, exitCode: 6 },
  TOOL_UNAUTHORIZED: upstream,
  TOOL_INSUFFICIENT_SCOPE: upstream,
  TOOL_FORBIDDEN: upstream,
  TOOL_REFUSED: upstream,
  RESOURCE_UNKNOWN: missing,
  TOOL_RATE_LIMITED: { retryable: true, httpStatus: 502, exitCode: 6 },
  TOOL_FAILED: upstream,
  OUTCOME_UNKNOWN: { retryable: false, httpStatus: 504, exitCode: 3 },
  // Models.
  MODEL_REJECTED: upstream,
  STORED_ANSWER_GONE: upstream,
  MODEL_UNAVAILABLE: { retryable: true, httpStatus: 502, exitCode: 6 },
  MODEL_OUTPUT_INVALID: upstream,
  // Stores and checks.
  // Another worker may have the store mounted.
  ARTIFACT_MISSING: unavailable,
  ARTIFACT_CORRUPT: fault,
  SWEEP_REFUSED: refused,
  LEDGER_BROKEN: failedCheck,
  // Both may pass: a person resolves the conflict, and the run waits until then.
  LEDGER_UNAVAILABLE: unavailable,
  MESSAGE_UNDELIVERED: unavailable,
  MESSAGE_REFUSED: upstream,
  LEDGER_CONFLICT: unavailable,
  REPLAY_FAILED: failedCheck,
  POLICY_CASES_FAILED: failedCheck,
  TRANSCRIPT_MISMATCH: fault,
  // The gateway.
  ARTIFACT_UNKNOWN: missing,
  SIGN_IN_REQUIRED: { retryable: false, httpStatus: 401, exitCode: 3 },
  ACTION_FORBIDDEN: refused,
  ROUTE_UNKNOWN: missing,
  BODY_UNREADABLE: { retryable: false, httpStatus: 400, exitCode: 3 },
  HEADERS_TOO_LARGE: { retryable: false, httpStatus: 431, exitCode: 3 },
  BODY_TOO_LARGE: { retryable: false, httpStatus: 413, exitCode: 3 },
  RATE_LIMITED: { retryable: true, httpStatus: 429, exitCode: 6 },
  // The engine.
  ENGINE_UNAVAILABLE: unavailable,
  RESULT_UNCERTAIN: { retryable: true, httpStatus: 504, exitCode: 6 },
  BUNDLE_INCOMPLETE: failedCheck,
  // Deployments.
  DEPLOYMENT_UNKNOWN: missing,
  DEPLOYMENT_CHANGED: conflict,
  BUILD_UNKNOWN: missing,
  BUILD_CURRENT: conflict,
  BUILD_FAILING: failedCheck,
  BUILD_UNSERVED: unavailable,
  WATCH_INCOMPLETE: unavailable,
  DRAIN_REFUSED: refused,
  DRAIN_INCOMPLETE: unavailable,
  SETUP_INCOMPLETE: { retryable: false, httpStatus: 503, exitCode: 6 },
  INTERNAL: fault,
} as const satisfies Record<string, ErrorTraits>;

export type ErrorCode = keyof typeof ERRORS;

export function isErrorCode(value: unknown): value is ErrorCode {
  return typeof value === 'string' && Object.hasOwn(ERRORS, value);
}

export function traitsOf(code: ErrorCode): ErrorTraits {
  return ERRORS[code];
}

/** Facts that go with a code. Never a secret, a prompt or a tool argument. */
export interface ErrorFacts {
  /** Path in the caller's input: `servers[0].url`. */
  readonly path?: string;
  readonly runId?: string;
  readonly callId?: string;
  /** The first approver, for `ALREADY_DECIDED`. */
  readonly decidedBy?: string;
  readonly decidedAt?: string;
  readonly [fact: string]: string | number | boolean | undefined;
}

/** For the edges: expected refusals in `domain/` are values. The message says what happened, and what to do. */
export class CountersignError extends Error {
  override readonly name = 'CountersignError';
  readonly code: ErrorCode;
  readonly facts: ErrorFacts;
  constructor(code: ErrorCode, message: string, facts: ErrorFacts = {}, options?: { cause?: unknown }) {
    super(message, options);
    this.code = code;
    this.facts = facts;
  }
  get traits(): ErrorTraits {
    return ERRORS[this.code];
  }
}

/** Code of a fault of Node or the network, such as `ENOENT`. Under jest it is of another realm: no `instanceof`. */
export function nodeCodeOf(error: unknown): string | undefined {
  return typeof error === 'object' && error !== null && 'code' in error ? String(error.code) : undefined;
}
