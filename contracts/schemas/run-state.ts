/** A run answers queries and `advance` with these shapes, and ends with this result. */
import { z } from 'zod';
import { HeldCall, Outcome } from './call.ts';
import { ArtifactRef, JsonObject, JsonValue, Sha256Hex } from './json.ts';
import { LedgerEntry } from './ledger.ts';
import { RunningTask } from './legacy-2025.ts';
import { RememberScope, ToolName } from './policy.ts';
import { MessageEvent } from './notify.ts';
import { CallResult, Message, Usage } from './transcript.ts';

/** `waiting`: nothing can happen until a person decides. `storing`: all is done and being stored; then the run ends. */
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

/** Cost of the model steps so far, if the model has a price. */
export const Spent = z.strictObject({ millionths: z.int().nonnegative(), currency: z.string() });
export type Spent = z.infer<typeof Spent>;

const used = z.strictObject({ used: z.int(), most: z.int() });
/** Use and bound of each limit at which a run ends as `limited`. */
export const LimitsState = z.strictObject({
  turns: used,
  calls: used,
  tokens: used,
  /** Millionths. */
  spend: used.optional(),
  /** Time at which the run's wall clock limit ends it. */
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
  /**
   * Arguments that a later call must have: all, or the named ones. Absent if any call of the tool is covered (`scope`
   * says so), and for readers of the gateway who are asked about other calls only.
   */
  arguments: JsonObject.optional(),
  until: z.string().optional(),
  by: z.array(z.string()),
  at: z.string(),
});
export type StandingDecision = z.infer<typeof StandingDecision>;

const toldOf = { channel: z.string(), event: MessageEvent, calls: z.array(z.string()) };

/** Messages of a run to people. A message under way for long is one whose channel fails. */
export const MessagesState = z.strictObject({
  sent: z.int(),
  underWay: z.array(z.strictObject({ ...toldOf, since: z.string() })),
  failed: z.int(),
  /** The newest ones that were given up. */
  failures: z.array(z.strictObject({ ...toldOf, code: z.string(), message: z.string(), at: z.string() })),
});
export type MessagesState = z.infer<typeof MessagesState>;

export const RunState = z.strictObject({
  workflowId: z.string(),
  runId: z.string(),
  status: RunStatus,
  turn: z.int(),
  pending: z.int(),
  nextDeadline: z.string().optional(),
  /** While `storing`: the status that the run will end with. */
  endsAs: z.enum(['completed', 'stopped', 'limited', 'cancelled', 'failed']).optional(),
  /** For a run that was limited, stopped or failed: the limit, the reason, or code and message. */
  because: z.string().optional(),
  /** Number of open requests whose reminder was due; absent if none was. */
  reminded: z.int().optional(),
  usage: Usage,
  spent: Spent.optional(),
  calls: z.int(),
  /** Set once the spec was checked. */
  limits: LimitsState.optional(),
  ledgerLength: z.int(),
  ledgerHead: Sha256Hex,
  transcriptLength: z.int(),
  /** Earlier entries and messages are in `segment` and the segments before it. */
  ledgerFrom: z.int(),
  transcriptFrom: z.int(),
  segment: ArtifactRef.optional(),
  /** Set if the run accepts signed messages only; signatures name this tenant. */
  signing: z.strictObject({ tenant: z.string() }).optional(),
  /** Standing decisions: approvals that also answer later calls. */
  standing: z.array(StandingDecision).optional(),
  /** Servers for whose tools the run waits before its first turn; absent once it has them. */
  listing: z.array(z.string()).optional(),
  /** Calls that wait for their server's limits, not for a person; absent if there is none. */
  held: z.array(HeldCall).optional(),
  /** Open requests whose deadline is after the end of the run's grant for their server; absent if there is none. */
  grantEnds: z.array(z.strictObject({ callId: z.string(), server: z.string(), at: z.string() })).optional(),
  /** Set once calls under way are to be cancelled: the run was cancelled, or stopped together with its calls. */
  cancelsCalls: z.literal(true).optional(),
  /** Messages to people; absent if policy tells nobody. */
  messages: MessagesState.optional(),
  /** Calls that their servers work on as tasks; absent if there is none. */
  tasks: z.array(RunningTask).optional(),
});
export type RunState = z.infer<typeof RunState>;

/** Answer of `advance`: the state of the run, at once. `cursor` counts ledger entries. */
export const Advance = z.strictObject({ runId: z.string(), cursor: z.int(), status: RunStatus });
export type Advance = z.infer<typeof Advance>;

export const TranscriptPage = z.strictObject({
  from: z.int(),
  total: z.int(),
  messages: z.array(Message),
  /** Segment with older messages, set if `from` asks for some. */
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
  /** Text, or JSON if the spec has `agent.output`. */
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

/** What became of a single call. It is the output of its run, as JSON text. */
export const CallAnswer = CallResult.pick({ callId: true, outcome: true, edited: true });
export type CallAnswer = z.infer<typeof CallAnswer>;

/** Outcome kinds, and `open` for calls of the same turn. */
export type Counted = Outcome['kind'] | 'open';

export const COUNTED: readonly Counted[] = [...Outcome.options.map(({ shape }) => shape.kind.value), 'open'];

export interface Tally {
  /** Counts by `server/tool`; kinds with count 0 are left out. */
  readonly tools: Readonly<Record<string, Readonly<Partial<Record<Counted, number>>>>>;
  /** Number of calls of tools without a place in `tools`; a condition about an absent tool then has no answer. */
  readonly beyond?: number;
}
