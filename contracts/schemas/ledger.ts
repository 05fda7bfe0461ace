/** The run's append-only, hash-chained record; also the run's event stream. */
import { z } from 'zod';
import { Approver, Remember } from './answer.ts';
import { BrokenGlass, TokenEvidence } from './call.ts';
import { CATALOG_FACTS } from './catalog.ts';
import { ArtifactRef, Sha256Hex } from './json.ts';
import { ApproverRule, RememberScope } from './policy.ts';
import { HeldBy } from './throttled.ts';
import { Message, Usage } from './transcript.ts';
import { SignatureEvidence } from './trust.ts';

const callId = z.string();

/**
 * All messages so far, by their number and chained digest (`domain/run/journal.ts`): binds the conversation without holding it.
 * Absent in runs that began before it was recorded.
 */
const conversation = z.strictObject({ length: z.int().nonnegative(), digest: Sha256Hex }).optional();

/** What happened. Holds hashes of arguments and results, never the arguments and results. */
export const LedgerFact = z.discriminatedUnion('kind', [
  z.strictObject({
    kind: z.literal('run.started'),
    agent: z.string(),
    model: z.string(),
    initiator: z.string(),
    tenant: z.string(),
    specHash: Sha256Hex,
    policyVersion: Sha256Hex,
    servers: z.array(z.string()),
    /** Of the model: millionths of the currency for a million tokens. */
    price: z.strictObject({ input: z.int(), output: z.int(), currency: z.string() }).optional(),
  }),
  z.strictObject({
    kind: z.literal('tools.discovered'),
    server: z.string(),
    count: z.int(),
    toolsHash: Sha256Hex,
    refused: z.array(z.string()),
    /** Of `allowedTools`, what the server does not have. */
    missing: z.array(z.string()).optional(),
  }),
  z.strictObject({
    kind: z.literal('turn.proposed'),
    turn: z.int(),
    calls: z.int(),
    usage: Usage,
    conversation,
    /** Millionths, rounded up; where the model has a price. */
    cost: z.int().nonnegative().optional(),
  }),
  z.strictObject({
    kind: z.literal('verdict'),
    callId,
    verdict: z.enum(['allow', 'ask', 'deny']),
    rules: z.array(z.string()),
    server: z.string().optional(),
    tool: z.string(),
    definitionHash: Sha256Hex.optional(),
    argumentsHash: Sha256Hex,
    policyVersion: Sha256Hex,
    /** Allowed though it would have been asked. */
    breakGlass: BrokenGlass.optional(),
  }),
  z.strictObject({
    kind: z.literal('request.opened'),
    callId,
    generation: z.int(),
    digest: Sha256Hex,
    approvers: ApproverRule,
    deadline: z.string(),
    because: z.string().optional(),
    /** An earlier call of the turn with the same tool and arguments. */
    duplicateOf: z.string().optional(),
    /** What is asked, where it is not consent to the call; the hash is of all that was shown of it. */
    about: z.strictObject({ kind: z.enum(['outcome', 'input', 'authorization']), hash: Sha256Hex }).optional(),
    /** Where the run's grant for the server ends before the deadline. */
    grantExpiresAt: z.string().optional(),
  }),
  z.strictObject({
    kind: z.literal('decision.accepted'),
    callId,
    generation: z.int(),
    decisionId: z.string(),
    decision: z.enum(['approve', 'reject', 'withdraw', 'extend', 'respond']),
    /** An approval that is not the last one that is needed. */
    counted: z.literal(true).optional(),
    /** The deadline as it was set by `extend`. */
    until: z.string().optional(),
    approver: Approver,
    digest: Sha256Hex,
    runId: z.string(),
    comment: z.string().optional(),
    /** Hashes of the arguments that were shown, and of those that the approver put in their place. */
    edited: z.strictObject({ from: Sha256Hex, to: Sha256Hex }).optional(),
    /** Of what was answered in the tool's place. */
    answerHash: Sha256Hex.optional(),
    /** Of the JWS that the decision came with, in trust mode `signed`. */
    signature: SignatureEvidence.optional(),
    remember: Remember.optional(),
  }),
  /** A person said what became of a call whose outcome was not known, or that it is sent again. */
  z.strictObject({
    kind: z.literal('outcome.resolved'),
    callId,
    generation: z.int(),
    decisionId: z.string(),
    answer: z.enum(['retry', 'succeeded', 'failed']),
    approver: Approver,
    digest: Sha256Hex,
    runId: z.string(),
    comment: z.string().optional(),
    /** Of the result, or of the message. */
    recordedHash: Sha256Hex.optional(),
    signature: SignatureEvidence.optional(),
  }),
  /** A person answered what a server asked for in the middle of a call. */
  z.strictObject({
    kind: z.literal('input.provided'),
    callId,
    generation: z.int(),
    decisionId: z.string(),
    answer: z.enum(['provide', 'decline', 'cancel']),
    approver: Approver,
    digest: Sha256Hex,
    runId: z.string(),
    comment: z.string().optional(),
    /** Of what was answered, which may be personal data and stands nowhere in the ledger. */
    responsesHash: Sha256Hex.optional(),
    signature: SignatureEvidence.optional(),
  }),
  /** What a server was told in the end to what it asked on an open connection, as the worker says that it asked. */
  z.strictObject({
    kind: z.literal('input.told'),
    callId,
    attempt: z.int(),
    round: z.int(),
    told: z.enum(['accept', 'decline', 'cancel']),
    /** Why it was not what people said, or why the server may not have heard it. */
    code: z.string().optional(),
  }),
  /** A person consented to scopes for a call, gave another grant for its server, or neither. */
  z.strictObject({
    kind: z.literal('authorization.given'),
    callId,
    generation: z.int(),
    decisionId: z.string(),
    answer: z.enum(['consent', 'grant', 'decline']),
    /** A consent that is not the last one that is needed. */
    counted: z.literal(true).optional(),
    approver: Approver,
    digest: Sha256Hex,
    runId: z.string(),
    comment: z.string().optional(),
    /** Of the grant as it was given: sealed, or a reference. */
    grantHash: Sha256Hex.optional(),
    signature: SignatureEvidence.optional(),
  }),
  /** An approval that answers later calls, too. */
  z.strictObject({
    kind: z.literal('standing.made'),
    /** Id of the decision. */
    standing: z.string(),
    callId,
    scope: RememberScope,
    names: z.array(z.string()).optional(),
    until: z.string().optional(),
    by: z.array(z.string()),
  }),
  /** A call that policy asks about was approved by a decision that stands. */
  z.strictObject({ kind: z.literal('standing.used'), standing: z.string(), callId }),
  z.strictObject({
    kind: z.literal('standing.forgotten'),
    standing: z.string(),
    /** Who took it back; absent where it ended by itself. */
    by: z.string().optional(),
    because: z.string().optional(),
  }),
  /**
   * A decision that came by signal and changed nothing, or an edit that was refused once it was judged. Updates that the
   * validator refuses leave no trace by design.
   */
  z.strictObject({
    kind: z.literal('decision.refused'),
    callId,
    decisionId: z.string(),
    approver: z.string(),
    code: z.string(),
  }),
  /** Open for so long that whoever may decide was reminded. */
  z.strictObject({ kind: z.literal('request.reminded'), callId, generation: z.int(), deadline: z.string() }),
  /** From here on others decide; the rule as it is from then. */
  z.strictObject({ kind: z.literal('request.escalated'), callId, generation: z.int(), approvers: ApproverRule }),
  z.strictObject({
    kind: z.literal('request.closed'),
    callId,
    generation: z.int(),
    status: z.enum(['expired', 'cancelled']),
  }),
  z.strictObject({ kind: z.literal('dispatched'), callId, attempt: z.int(), decisionId: z.string().optional() }),
  /** Its worker is lost: its server is asked for the answer, and nothing is sent again. */
  z.strictObject({ kind: z.literal('resumed'), callId, attempt: z.int() }),
  /** What was dispatched last is worked on at its server as a task, for so long at most. */
  z.strictObject({ kind: z.literal('task.begun'), callId, attempt: z.int(), until: z.string() }),
  /** What was dispatched last was not sent: its server takes no more just now. Said again only where something else holds it. */
  z.strictObject({ kind: z.literal('held'), callId, by: HeldBy, code: z.string() }),
  z.strictObject({
    kind: z.literal('outcome'),
    callId,
    outcome: z.enum(['succeeded', 'failed', 'denied', 'rejected', 'expired', 'cancelled', 'unknown', 'answered']),
    code: z.string().optional(),
    outcomeHash: Sha256Hex,
    token: TokenEvidence.optional(),
    warnings: z.array(z.string()).optional(),
    /** Answered as this call of an earlier turn was: nobody was asked, nothing was sent. */
    repeatOf: z.string().optional(),
  }),
  z.strictObject({
    kind: z.literal('said'),
    messageId: z.string(),
    from: z.string(),
    textHash: Sha256Hex,
    /** Open requests are withdrawn for it. */
    interrupt: z.literal(true).optional(),
  }),
  z.strictObject({
    kind: z.literal('stop.requested'),
    by: z.string(),
    reason: z.string(),
    inFlight: z.enum(['finish', 'cancel']),
  }),
  z.strictObject({ kind: z.literal('cancel.requested') }),
  z.strictObject({ kind: z.literal('limit.reached'), limit: z.string(), value: z.number() }),
  z.strictObject({ kind: z.literal('run.rolled'), turn: z.int(), because: z.string(), conversation }),
  z.strictObject({
    kind: z.literal('run.ended'),
    status: z.enum(['completed', 'stopped', 'limited', 'cancelled', 'failed']),
    outputHash: Sha256Hex.optional(),
    code: z.string().optional(),
    conversation,
  }),
  ...CATALOG_FACTS,
]);
export type LedgerFact = z.infer<typeof LedgerFact>;

/** `hash` = sha256 over the canonical JSON of {seq, at, prev, fact}; `prev` of the first entry is 64 zeros. */
export const LedgerEntry = z.strictObject({
  seq: z.int().nonnegative(),
  at: z.string(),
  prev: Sha256Hex,
  fact: LedgerFact,
  hash: Sha256Hex,
});
export type LedgerEntry = z.infer<typeof LedgerEntry>;

/** A closed stretch of transcript and ledger in the artifact store, linked to the one before. */
export const Segment = z.strictObject({
  workflowId: z.string(),
  previous: ArtifactRef.optional(),
  transcript: z.strictObject({ from: z.int(), messages: z.array(Message) }),
  ledger: z.strictObject({ from: z.int(), entries: z.array(LedgerEntry) }),
});
export type Segment = z.infer<typeof Segment>;

// How a ledger leaves Temporal: what a sink of the ledger port is given, and what it writes.

const place = {
  namespace: z.string(),
  workflowId: z.string(),
  /** Temporal run id of the first execution of the chain: tells two runs of one workflow id apart. */
  firstRunId: z.string().regex(/^[0-9A-Za-z-]{1,100}$/),
};

/** What a worker signs: where the chain stood after a stretch of it, half-open. */
export const LedgerHead = z.strictObject({
  ...place,
  /** Temporal run that delivered the stretch. */
  runId: z.string(),
  /** That run was made by a reset of this one: what follows may differ from what an earlier record says. */
  resetOf: z.string().optional(),
  from: z.int().nonnegative(),
  to: z.int().positive(),
  /** `prev` of entry `from`. */
  previousHead: Sha256Hex,
  /** `hash` of entry `to - 1`. */
  head: Sha256Hex,
});
export type LedgerHead = z.infer<typeof LedgerHead>;

/** JWS compact serialization (RFC 7515) over the canonical JSON of a `LedgerHead`: `alg` EdDSA, `typ` as in `HEAD_TYPE`. */
const SignedHead = z.string().regex(/^[\w-]+\.[\w-]+\.[\w-]+$/);

/** Body of a webhook. Made of the same entries it is the same, byte for byte. */
export const LedgerRecord = z.strictObject({
  head: LedgerHead,
  signedHead: SignedHead,
  entries: z.array(LedgerEntry).min(1),
});
export type LedgerRecord = z.infer<typeof LedgerRecord>;

/** An entry whatever its fact is: a newer worker may have recorded it. */
export const AnyEntry = z.strictObject({
  seq: z.int().nonnegative(),
  at: z.string(),
  prev: Sha256Hex,
  fact: z.looseObject({ kind: z.string() }),
  hash: Sha256Hex,
});
export type AnyEntry = z.infer<typeof AnyEntry>;

/** Sinks write all of it; an export leaves out what it does not know. */
const linePlace = { ...place, namespace: place.namespace.optional(), firstRunId: place.firstRunId.optional() };

/** A line of a JSONL record or export: an entry, or the signed head of entries before it. */
export const LedgerLine = z.union([
  z.strictObject({ ...linePlace, entry: AnyEntry }),
  z.strictObject({ ...linePlace, signedHead: SignedHead }),
]);
export type LedgerLine = z.infer<typeof LedgerLine>;
