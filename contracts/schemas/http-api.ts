/**
 * How HTTP carries what a run says and takes (`contracts/schemas/request.ts`).
 *
 * 1. No body names who sends it: the token does.
 */
import { z } from 'zod';
import { Identifier, Instant, Name, Sha256Hex } from './json.ts';
import { LedgerEntry } from './ledger.ts';
import { RememberScope } from './policy.ts';
import {
  answerTo,
  ApprovalRequest,
  Authorization,
  Decision,
  DecisionAck,
  Forget,
  Provision,
  Resolution,
  Say,
  Stop,
} from './request.ts';
import { RunSpec } from './run-spec.ts';
import { RunState, RunStatus } from './run-state.ts';

/** Bound of a workflow id in Temporal. */
export const RunId = z.string().min(1).max(1_000);
const CallId = z.string().min(1).max(40);

/** Problem details (RFC 9457), with the code of the error table. */
export const ProblemDetails = z.strictObject({
  /** `urn:x-countersign:error:CODE`. */
  type: z.string(),
  title: z.string(),
  status: z.int(),
  detail: z.string(),
  code: z.string(),
  /** Repeats the header `X-Request-Id`. */
  requestId: z.string(),
  retryable: z.boolean(),
  /** Facts that go with the code, such as `decidedBy`. */
  facts: z.record(z.string(), z.union([z.string(), z.number(), z.boolean()])),
  /** The fields that do not fit, by path. */
  errors: z.array(z.strictObject({ path: z.string(), reason: z.string() })).optional(),
});
export type ProblemDetails = z.infer<typeof ProblemDetails>;

export const Person = z.strictObject({
  id: z.string(),
  groups: z.array(z.string()),
  tenant: z.string(),
  may: z.array(z.enum(['start', 'read', 'administer'])),
  /** Set if the gateway lets people say who they are. */
  development: z.literal(true).optional(),
});
export type Person = z.infer<typeof Person>;

export const HealthAnswer = z.strictObject({
  status: z.enum(['ok', 'stale', 'starting']),
  /** Time to which lists are known to be complete. */
  asOf: z.string().optional(),
  runs: z.int(),
  streams: z.int(),
});

// Runs.

export const StartRun = z.strictObject({
  /** Names the work; absent: made from the Idempotency-Key, or a random one. */
  runId: z
    .string()
    .regex(/^[\x21-\x7e]{1,200}$/, 'must be 1 to 200 printable ASCII characters without spaces')
    .optional(),
  /** Without `initiator` and `signature`: who starts the run is who asks. */
  spec: RunSpec.omit({ initiator: true, signature: true, dispatch: true }),
});
export const StartedRun = z.strictObject({
  runId: z.string(),
  /** False if the same run was started before. */
  started: z.boolean(),
});

export const RunRow = z.strictObject({
  runId: z.string(),
  /** Status in visibility: `running`, `waiting`, or how the run ended. */
  status: z.string(),
  tenant: z.string(),
  initiator: z.string(),
  servers: z.array(z.string()),
  startedAt: z.string(),
  endedAt: z.string().optional(),
  pending: z.int(),
  nextDeadline: z.string().optional(),
  waitingSince: z.string().optional(),
});
export type RunRow = z.infer<typeof RunRow>;

/** Lists say how old they are at most, and where they go on. */
const page = {
  /** Every change before this time is in the list. */
  asOf: z.string(),
  /** Gives the next page; absent on the last one. */
  next: z.string().optional(),
};

export const RunPage = z.strictObject({ runs: z.array(RunRow), ...page });
export type RunPage = z.infer<typeof RunPage>;
export const RunDetail = z.strictObject({
  run: RunRow.optional(),
  state: RunState,
  /** Rights of the person who asks. */
  may: z.array(z.enum(['say', 'stop'])),
});

// Requests.

/** Rights of a person in a request: decisions on consent, or `answer` to whatever `about` asks for. */
const Offer = z.enum(['approve', 'edit', 'reject', 'respond', 'extend', 'withdraw', 'answer']);

export const ShownRequest = z.strictObject({
  request: ApprovalRequest,
  initiator: z.string(),
  offers: z.array(Offer),
  remember: z.array(RememberScope),
});
export type ShownRequest = z.infer<typeof ShownRequest>;
export const RequestList = z.strictObject({ requests: z.array(ShownRequest), asOf: z.string() });

/** A request as lists show it: without arguments. */
export const RequestRow = z.strictObject({
  run: z.string(),
  callId: z.string(),
  digest: Sha256Hex,
  server: z.string(),
  tool: z.string(),
  about: z.enum(['outcome', 'input', 'authorization']).optional(),
  tenant: z.string(),
  initiator: z.string(),
  openedAt: z.string(),
  deadline: z.string(),
  agreed: z.array(z.string()),
  reminded: z.boolean(),
  offers: z.array(Offer),
});
export type RequestRow = z.infer<typeof RequestRow>;
export const RequestPage = z.strictObject({ requests: z.array(RequestRow), ...page });
export type RequestPage = z.infer<typeof RequestPage>;

const most = z.coerce.number().int().min(1).max(200).default(50);
const cursor = z.string().min(1).max(2_000).optional();

export const RunQuery = z.strictObject({
  status: RunStatus.or(z.enum(['running'])).optional(),
  initiator: Identifier.optional(),
  server: Name.optional(),
  most,
  cursor,
});
export type RunQuery = z.infer<typeof RunQuery>;

export const RequestQuery = z.strictObject({
  /** `decide`: only what the person who asks may do something about now. Default: all that the person may see. */
  mine: z.literal('decide').optional(),
  approver: Identifier.optional(),
  group: Identifier.optional(),
  server: Name.optional(),
  tool: z.string().min(1).max(200).optional(),
  initiator: Identifier.optional(),
  /** Must be the tenant of the person who asks. */
  tenant: Identifier.optional(),
  /** Open for at least so many seconds. */
  olderThanSeconds: z.coerce.number().int().min(0).optional(),
  deadlineBefore: Instant.optional(),
  most,
  cursor,
});
export type RequestQuery = z.infer<typeof RequestQuery>;

// Answers: the messages of people, without who sends them and which call is meant.

const inPath = { approver: true, callId: true } as const;
const chosen = {
  /** Default: the Idempotency-Key, else a random one. The same id with the same content counts once. */
  decisionId: answerTo.decisionId.optional(),
  /** Temporal run id under which the request was shown; default: the one under which it is shown now. */
  runId: answerTo.runId.optional(),
};
const [approve, reject, withdraw, extend, respond] = Decision.options;
export const DecisionBody = z.discriminatedUnion('kind', [
  approve.omit(inPath).extend(chosen),
  reject.omit(inPath).extend(chosen),
  withdraw.omit(inPath).extend(chosen),
  extend.omit(inPath).extend(chosen),
  respond.omit(inPath).extend(chosen),
]);
export type DecisionBody = z.infer<typeof DecisionBody>;

const addressed = { run: RunId, callId: CallId };
export const ManyDecisions = z.strictObject({
  decisions: z
    .array(
      z.discriminatedUnion('kind', [
        approve.omit(inPath).extend({ ...chosen, ...addressed }),
        reject.omit(inPath).extend({ ...chosen, ...addressed }),
        withdraw.omit(inPath).extend({ ...chosen, ...addressed }),
        extend.omit(inPath).extend({ ...chosen, ...addressed }),
        respond.omit(inPath).extend({ ...chosen, ...addressed }),
      ]),
    )
    .min(1)
    .max(100),
});
export const ManyAnswers = z.strictObject({
  /** In the order of the decisions. */
  answers: z.array(
    z.discriminatedUnion('kind', [
      z.strictObject({ kind: z.literal('accepted'), ...addressed, ack: DecisionAck }),
      z.strictObject({ kind: z.literal('refused'), ...addressed, problem: ProblemDetails }),
    ]),
  ),
});

const [retry, succeeded, failed] = Resolution.options;
export const ResolutionBody = z.discriminatedUnion('kind', [
  retry.omit(inPath).extend(chosen),
  succeeded.omit(inPath).extend(chosen),
  failed.omit(inPath).extend(chosen),
]);
const [provide, declineInput, cancelInput] = Provision.options;
export const ProvisionBody = z.discriminatedUnion('kind', [
  provide.omit(inPath).extend(chosen),
  declineInput.omit(inPath).extend(chosen),
  cancelInput.omit(inPath).extend(chosen),
]);
const [consent, grant, declineAuthorization] = Authorization.options;
export const AuthorizationBody = z.discriminatedUnion('kind', [
  consent.omit(inPath).extend(chosen),
  grant.omit(inPath).extend(chosen),
  declineAuthorization.omit(inPath).extend(chosen),
]);
export const SayBody = Say.omit({ from: true }).extend({
  /** Default: the Idempotency-Key, else a random one. */
  messageId: Identifier.optional(),
});
export const StopBody = Stop.omit({ by: true });
export const ForgetBody = Forget.omit({ by: true });

/** Far beyond any ledger or conversation; sums of two such numbers are exact. */
export const MOST_NUMBER = 1_000_000_000_000;

export const LedgerQuery = z.strictObject({
  /** Number of the first entry. */
  from: z.coerce.number().int().min(0).max(MOST_NUMBER).default(0),
  most: z.coerce.number().int().min(1).max(1_000).default(200),
});
export const LedgerEntries = z.strictObject({
  entries: z.array(LedgerEntry),
  /** Number of the entry after the last one here; absent at the end. */
  next: z.int().optional(),
});

/** News of the projection: the run has changed, and is to be read again. */
export const ChangeEvent = z.strictObject({
  run: z.string(),
  status: z.string(),
  pending: z.int(),
  /** Open requests that the reader may see. */
  requests: z.array(z.strictObject({ callId: z.string(), digest: z.string(), offers: z.array(Offer) })),
  asOf: z.string(),
});
export type ChangeEvent = z.infer<typeof ChangeEvent>;

export const DevelopmentSignIn = z.strictObject({
  id: Identifier,
  groups: z.array(Identifier).max(100).default([]),
  tenant: Identifier.default('default'),
});
export const SignedIn = z.strictObject({ token: z.string(), expiresAt: z.string(), person: Person });
