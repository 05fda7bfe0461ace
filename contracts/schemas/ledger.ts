/** The ledger is the run's append-only, hash-chained record, and also the run's event stream. */
import { z } from 'zod';
import { Approver, Remember } from './request.ts';
import { BrokenGlass, HeldBy, TokenEvidence } from './call.ts';
import { CATALOG_FACTS, fact } from './catalog.ts';
import { ArtifactRef, Sha256Hex } from './json.ts';
import { ApproverRule, RememberScope } from './policy.ts';
import { Message, Usage } from './transcript.ts';
import { SignatureEvidence } from './trust.ts';

const callId = z.string();

/** Length and chained digest of the transcript: binds the conversation without holding it. */
const conversation = z.strictObject({ length: z.int().nonnegative(), digest: Sha256Hex }).optional();

const request = { callId, generation: z.int() };

/** The fields that every answer to a request has. */
const given = { approver: Approver, digest: Sha256Hex, runId: z.string(), comment: z.string().optional() };

/** A recorded event. Facts hold hashes of arguments and results, never the arguments and results. */
export const LedgerFact = z.discriminatedUnion('kind', [
  fact('run.started', {
    agent: z.string(),
    model: z.string(),
    initiator: z.string(),
    tenant: z.string(),
    specHash: Sha256Hex,
    policyVersion: Sha256Hex,
    servers: z.array(z.string()),
    /** Prices per million tokens, in millionths of the currency. */
    price: z.strictObject({ input: z.int(), output: z.int(), currency: z.string() }).optional(),
  }),
  fact('tools.discovered', {
    server: z.string(),
    count: z.int(),
    toolsHash: Sha256Hex,
    refused: z.array(z.string()),
    /** Tools of `allowedTools` that the server does not have. */
    missing: z.array(z.string()).optional(),
  }),
  fact('turn.proposed', {
    turn: z.int(),
    calls: z.int(),
    usage: Usage,
    conversation,
    /** Millionths, rounded up; absent if the model has no price. */
    cost: z.int().nonnegative().optional(),
  }),
  fact('verdict', {
    callId,
    verdict: z.enum(['allow', 'ask', 'deny']),
    rules: z.array(z.string()),
    server: z.string().optional(),
    tool: z.string(),
    definitionHash: Sha256Hex.optional(),
    /** For a hosted call: the model whose provider makes it. */
    hosted: z.string().optional(),
    argumentsHash: Sha256Hex,
    policyVersion: Sha256Hex,
    /** Set if the call would have been asked. */
    breakGlass: BrokenGlass.optional(),
  }),
  fact('request.opened', {
    ...request,
    digest: Sha256Hex,
    approvers: ApproverRule,
    deadline: z.string(),
    because: z.string().optional(),
    /** An earlier call of the turn with the same tool and arguments. */
    duplicateOf: z.string().optional(),
    /** Set if the request is not for consent to the call; the hash covers all that was shown of it. */
    about: z.strictObject({ kind: z.enum(['outcome', 'input', 'authorization']), hash: Sha256Hex }).optional(),
    /** Set if the run's grant for the server ends before the deadline. */
    grantExpiresAt: z.string().optional(),
  }),
  fact('decision.accepted', {
    ...request,
    decisionId: z.string(),
    decision: z.enum(['approve', 'reject', 'withdraw', 'extend', 'respond']),
    /** Set for an approval after which more people are needed. */
    counted: z.literal(true).optional(),
    /** The new deadline that `extend` set. */
    until: z.string().optional(),
    ...given,
    /** Hashes of the shown arguments, and of those that the approver put in their place. */
    edited: z.strictObject({ from: Sha256Hex, to: Sha256Hex }).optional(),
    answerHash: Sha256Hex.optional(),
    signature: SignatureEvidence.optional(),
    remember: Remember.optional(),
  }),
  /** A person recorded an unknown outcome, or had the call sent again. */
  fact('outcome.resolved', {
    ...request,
    decisionId: z.string(),
    answer: z.enum(['retry', 'succeeded', 'failed']),
    ...given,
    recordedHash: Sha256Hex.optional(),
    signature: SignatureEvidence.optional(),
  }),
  fact('input.provided', {
    ...request,
    decisionId: z.string(),
    answer: z.enum(['provide', 'decline', 'cancel']),
    ...given,
    /** Hash of the answers, which may be personal data and never enter the ledger. */
    responsesHash: Sha256Hex.optional(),
    signature: SignatureEvidence.optional(),
  }),
  /** The answer that a server finally got to a question on an open connection, as the worker reports it. */
  fact('input.told', {
    callId,
    attempt: z.int(),
    round: z.int(),
    told: z.enum(['accept', 'decline', 'cancel']),
    /** Why the answer was not what people gave, or why the server may not have got it. */
    code: z.string().optional(),
  }),
  /** A person consented to scopes for a call, gave another grant for its server, or declined. */
  fact('authorization.given', {
    ...request,
    decisionId: z.string(),
    answer: z.enum(['consent', 'grant', 'decline']),
    /** Set for a consent after which more people are needed. */
    counted: z.literal(true).optional(),
    ...given,
    /** Hash of the grant as given: sealed, or a reference. */
    grantHash: Sha256Hex.optional(),
    signature: SignatureEvidence.optional(),
  }),
  /** A standing decision began: an approval that also answers later calls. */
  fact('standing.made', {
    /** Id of the decision. */
    standing: z.string(),
    callId,
    scope: RememberScope,
    names: z.array(z.string()).optional(),
    until: z.string().optional(),
    by: z.array(z.string()),
  }),
  fact('standing.used', { standing: z.string(), callId }),
  fact('standing.forgotten', {
    standing: z.string(),
    /** The person who took it back; absent if it ended by itself. */
    by: z.string().optional(),
    because: z.string().optional(),
  }),
  /** A decision by signal that changed nothing, or an edit refused once judged. Refused updates leave no trace. */
  fact('decision.refused', {
    callId,
    decisionId: z.string(),
    approver: z.string(),
    code: z.string(),
  }),
  fact('request.reminded', { ...request, deadline: z.string() }),
  /** Other approvers decide from here on; the rule is the one from then on. */
  fact('request.escalated', { ...request, approvers: ApproverRule }),
  fact('request.closed', {
    ...request,
    status: z.enum(['expired', 'cancelled']),
  }),
  fact('dispatched', { callId, attempt: z.int(), decisionId: z.string().optional() }),
  /** The call's worker is lost: its server is asked for the answer, and nothing is sent again. */
  fact('resumed', { callId, attempt: z.int() }),
  /** The server works on the newest dispatch as a task, at most until this time. */
  fact('task.begun', { callId, attempt: z.int(), until: z.string() }),
  /**
   * The newest dispatch was not sent: the server's limits allow no more now. Recorded again only for another limit.
   * With `retry-after` and no limit of ours the server has refused it for more than a minute, each time recorded.
   */
  fact('held', { callId, by: HeldBy, code: z.string() }),
  fact('outcome', {
    callId,
    outcome: z.enum(['succeeded', 'failed', 'denied', 'rejected', 'expired', 'cancelled', 'unknown', 'answered']),
    code: z.string().optional(),
    outcomeHash: Sha256Hex,
    token: TokenEvidence.optional(),
    warnings: z.array(z.string()).optional(),
    /** The earlier call whose refusal answers this one: nobody was asked, nothing was sent. */
    repeatOf: z.string().optional(),
  }),
  fact('said', {
    messageId: z.string(),
    from: z.string(),
    textHash: Sha256Hex,
    /** Set if the message withdraws the open requests. */
    interrupt: z.literal(true).optional(),
  }),
  fact('stop.requested', {
    by: z.string(),
    reason: z.string(),
    inFlight: z.enum(['finish', 'cancel']),
  }),
  fact('cancel.requested', {}),
  fact('limit.reached', { limit: z.string(), value: z.number() }),
  fact('run.rolled', { turn: z.int(), because: z.string(), conversation }),
  fact('run.ended', {
    status: z.enum(['completed', 'stopped', 'limited', 'cancelled', 'failed']),
    outputHash: Sha256Hex.optional(),
    code: z.string().optional(),
    conversation,
  }),
  ...CATALOG_FACTS,
]);
export type LedgerFact = z.infer<typeof LedgerFact>;

/** `hash` = sha256 over the canonical JSON of {seq, at, prev, fact}; `prev` of the first entry is 64 zeros. */
const entryOf = <Fact extends z.ZodType>(recorded: Fact) =>
  z.strictObject({ seq: z.int().nonnegative(), at: z.string(), prev: Sha256Hex, fact: recorded, hash: Sha256Hex });

export const LedgerEntry = entryOf(LedgerFact);
export type LedgerEntry = z.infer<typeof LedgerEntry>;

/** A closed stretch of transcript and ledger in the artifact store, linked to the one before. */
export const Segment = z.strictObject({
  workflowId: z.string(),
  previous: ArtifactRef.optional(),
  transcript: z.strictObject({ from: z.int(), messages: z.array(Message) }),
  ledger: z.strictObject({ from: z.int(), entries: z.array(LedgerEntry) }),
});
export type Segment = z.infer<typeof Segment>;

// Ledgers leave Temporal in this form: the input and the records of a ledger sink.

const place = {
  namespace: z.string(),
  workflowId: z.string(),
  /** Temporal run id of the first execution of the chain: tells two runs of one workflow id apart. */
  firstRunId: z.string().regex(/^[0-9A-Za-z-]{1,100}$/),
};

/** The signed statement of a worker: where the chain stood after a half-open range of entries. */
export const LedgerHead = z.strictObject({
  ...place,
  /** Temporal run that delivered the entries. */
  runId: z.string(),
  /** Set if that run was made by a reset of this one: later entries may differ from an earlier record. */
  resetOf: z.string().optional(),
  from: z.int().nonnegative(),
  to: z.int().positive(),
  previousHead: Sha256Hex,
  /** `hash` of entry `to - 1`. */
  head: Sha256Hex,
});
export type LedgerHead = z.infer<typeof LedgerHead>;

/** Compact JWS (RFC 7515) over the canonical JSON of a `LedgerHead`: `alg` EdDSA, `typ` as in `HEAD_TYPE`. */
const SignedHead = z.string().regex(/^[\w-]+\.[\w-]+\.[\w-]+$/);

/** Body of a webhook. The same entries make the same body, byte for byte. */
export const LedgerRecord = z.strictObject({
  head: LedgerHead,
  signedHead: SignedHead,
  entries: z.array(LedgerEntry).min(1),
});
export type LedgerRecord = z.infer<typeof LedgerRecord>;

/** An entry with any fact: a newer worker may have recorded it. */
export const AnyEntry = entryOf(z.looseObject({ kind: z.string() }));
export type AnyEntry = z.infer<typeof AnyEntry>;

/** Sinks write all fields; an export leaves out the unknown ones. */
const linePlace = { ...place, namespace: place.namespace.optional(), firstRunId: place.firstRunId.optional() };

/** A line of a JSONL record or export: an entry, or the signed head of entries before it. */
export const LedgerLine = z.union([
  z.strictObject({ ...linePlace, entry: AnyEntry }),
  z.strictObject({ ...linePlace, signedHead: SignedHead }),
]);
export type LedgerLine = z.infer<typeof LedgerLine>;
