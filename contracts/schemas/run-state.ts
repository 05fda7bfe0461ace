/** What a run answers: queries, `advance`, and its result. */
import { z } from 'zod';
import type { Outcome } from './call.ts';
import { ArtifactRef, JsonObject, JsonValue, Sha256Hex } from './json.ts';
import { LedgerEntry } from './ledger.ts';
import { RunningTask } from './legacy-2025.ts';
import { RememberScope, ToolName } from './policy.ts';
import { HeldCall } from './throttled.ts';
import { Message, Usage } from './transcript.ts';

/** `waiting`: nothing can happen until somebody decides. `storing`: all is done, and is being stored; the run ends once it is. */
export const RunStatus = z.enum([
  'preparing',
  'thinking',
  'acting',
  'waiting',
  'storing',
  'completed',
  'stopped',
  'limited',
  'cancelled',
  'failed',
]);
export type RunStatus = z.infer<typeof RunStatus>;

/** What model steps have cost, where the model has a price. */
export const Spent = z.strictObject({ millionths: z.int().nonnegative(), currency: z.string() });
export type Spent = z.infer<typeof Spent>;

const used = z.strictObject({ used: z.int(), most: z.int() });
/** How close a run is to where it ends `limited`. */
export const LimitsState = z.strictObject({
  turns: used,
  calls: used,
  tokens: used,
  /** Millionths. */
  spend: used.optional(),
  /** When its wall clock is over. */
  endsBy: z.string(),
});
export type LimitsState = z.infer<typeof LimitsState>;
export const StandingDecision = z.strictObject({
  /** Id of the decision; `forget` takes it back. */
  standing: z.string(),
  callId: z.string(),
  server: z.string(),
  tool: ToolName,
  scope: RememberScope,
  /** What a later call must have: all arguments, or those that are named; none where any call is meant. */
  arguments: JsonObject.optional(),
  until: z.string().optional(),
  by: z.array(z.string()),
  at: z.string(),
});
export type StandingDecision = z.infer<typeof StandingDecision>;

export const RunState = z.strictObject({
  workflowId: z.string(),
  runId: z.string(),
  status: RunStatus,
  turn: z.int(),
  pending: z.int(),
  nextDeadline: z.string().optional(),
  /** While it is `storing`: as what it ends once its transcript and ledger are stored. */
  endsAs: z.enum(['completed', 'stopped', 'limited', 'cancelled', 'failed']).optional(),
  /** Of a run that was limited, stopped or failed: the limit, the reason, code and message. */
  because: z.string().optional(),
  /** Of those that wait, how many have waited so long that a reminder was due; absent where none has. */
  reminded: z.int().optional(),
  usage: Usage,
  spent: Spent.optional(),
  calls: z.int(),
  /** Once the spec was checked. */
  limits: LimitsState.optional(),
  ledgerLength: z.int(),
  ledgerHead: Sha256Hex,
  transcriptLength: z.int(),
  /** Entries and messages before these stand in `segment` and the segments before it. */
  ledgerFrom: z.int(),
  transcriptFrom: z.int(),
  segment: ArtifactRef.optional(),
  /** The run takes signed messages only, and this tenant stands in them. */
  signing: z.strictObject({ tenant: z.string() }).optional(),
  /** Approvals that answer later calls. */
  standing: z.array(StandingDecision).optional(),
  /** Servers whose tools the run waits for before its first turn; absent once it has them. */
  listing: z.array(z.string()).optional(),
  /** Calls that wait for their server, and not for a person; absent where none does. */
  held: z.array(HeldCall).optional(),
  /** Open requests that the run's grant for their server will not outlive; absent where there is none. */
  grantEnds: z.array(z.strictObject({ callId: z.string(), server: z.string(), at: z.string() })).optional(),
  /** Calls that their servers work on as tasks; absent where there is none. */
  tasks: z.array(RunningTask).optional(),
});
export type RunState = z.infer<typeof RunState>;

/** Answer of `advance`: where the run is, at once. `cursor` counts ledger entries. */
export const Advance = z.strictObject({ runId: z.string(), cursor: z.int(), status: RunStatus });
export type Advance = z.infer<typeof Advance>;

export const TranscriptPage = z.strictObject({
  from: z.int(),
  total: z.int(),
  messages: z.array(Message),
  /** Where older messages are, when `from` asks for some. */
  segment: ArtifactRef.optional(),
});
export type TranscriptPage = z.infer<typeof TranscriptPage>;

export const LedgerPage = z.strictObject({
  from: z.int(),
  total: z.int(),
  head: Sha256Hex,
  entries: z.array(LedgerEntry),
  segment: ArtifactRef.optional(),
});
export type LedgerPage = z.infer<typeof LedgerPage>;

export const RunResult = z.strictObject({
  status: z.enum(['completed', 'stopped', 'limited']),
  /** Text, or JSON where `agent.output` asked for it. */
  output: JsonValue,
  /** For `limited`, the limit; for `stopped`, the reason. */
  because: z.string().optional(),
  turns: z.int(),
  calls: z.int(),
  usage: Usage,
  spent: Spent.optional(),
  ledgerHead: Sha256Hex,
  ledgerLength: z.int(),
  segment: ArtifactRef.optional(),
});
export type RunResult = z.infer<typeof RunResult>;

// What became of the earlier calls of a run, counted by tool.

/** Outcome kinds, and `open` for calls of the same turn. */
export type Counted = Outcome['kind'] | 'open';

/** Each once; one that is left out does not compile. */
const EACH: Readonly<Record<Counted, true>> = {
  succeeded: true,
  failed: true,
  denied: true,
  rejected: true,
  expired: true,
  cancelled: true,
  unknown: true,
  answered: true,
  open: true,
};
// Sound: the record has these keys and no others.
export const COUNTED = Object.keys(EACH) as readonly Counted[];

export interface Tally {
  /** By `server/tool`; kinds that never were are left out. */
  readonly tools: Readonly<Record<string, Readonly<Partial<Record<Counted, number>>>>>;
  /** Calls of tools that have no place in `tools`: what is asked of one that is not there cannot be answered. */
  readonly beyond?: number;
}
