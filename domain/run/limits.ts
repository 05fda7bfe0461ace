/**
 * Holds the limits of a run and of its executions, and what its model steps cost.
 *
 * 1. Reaching a limit is a named outcome, never a failing workflow task.
 * 2. The cost of a model step is rounded up to whole millionths of the currency, so that spend is never undercounted.
 */
import { own } from '../../contracts/defined.ts';
import type { Judgement, ProposedCall } from '../../contracts/schemas/call.ts';
import type { Limits } from '../../contracts/schemas/run-spec.ts';
import type { Counted, LimitsState, Spent, Tally } from '../../contracts/schemas/run-state.ts';
import type { Usage } from '../../contracts/schemas/transcript.ts';
import type { ResultRoom } from '../../contracts/wire/identity.ts';
import type { ModelPrice } from '../../contracts/wire/run.ts';
import { type CallState, judgementOf, type Run } from '../state/run.ts';
import { byteLength, canonicalJson } from '../text/canonical.ts';

export interface ReachedLimit {
  readonly limit: 'turns' | 'calls' | 'tokens' | 'spend' | 'wallClockSeconds';
  /** The bound that was reached; millionths if the limit is `spend`. */
  readonly value: number;
}

/** The limit that forbids another model step, if any. @param now epoch ms */
export function reachedLimit(run: Run, limits: Limits, now: number): ReachedLimit | undefined {
  if (run.turn >= limits.turns) return { limit: 'turns', value: limits.turns };
  if (run.totalCalls >= limits.calls) return { limit: 'calls', value: limits.calls };
  if (run.usage.inputTokens + run.usage.outputTokens >= limits.tokens) return { limit: 'tokens', value: limits.tokens };
  const most = limits.spend === undefined ? undefined : millionthsOf(limits.spend);
  // A spend limit without a running count forbids every step (INV-G4).
  if (most !== undefined && (run.spent ?? most) >= most) return { limit: 'spend', value: most };
  if (now >= run.startedAt + limits.wallClockSeconds * 1_000)
    return { limit: 'wallClockSeconds', value: limits.wallClockSeconds };
  return undefined;
}

/** Room for one result: an equal share by the calls that policy let stand, so that none waits or is cut (INV-G3). */
export function resultRoom(
  { resultBytes, resultBytesPerTurn }: Pick<Limits, 'resultBytes' | 'resultBytesPerTurn'>,
  calls: readonly CallState[],
): ResultRoom {
  if (resultBytesPerTurn === undefined) return { resultBytes };
  const sharedBy = calls.filter((state) => !isDenied(state)).length;
  const share = Math.floor(resultBytesPerTurn / Math.max(1, sharedBy));
  if (share >= resultBytes) return { resultBytes };
  return sharedBy > 1 ? { resultBytes: share, sharedBy } : { resultBytes: share };
}

export function limitsState(run: Run, limits: Limits): LimitsState {
  const { inputTokens, outputTokens } = run.usage;
  return {
    turns: { used: run.turn, most: limits.turns },
    calls: { used: run.totalCalls, most: limits.calls },
    tokens: { used: inputTokens + outputTokens, most: limits.tokens },
    ...(limits.spend === undefined ? {} : { spend: { used: run.spent ?? 0, most: millionthsOf(limits.spend) } }),
    endsBy: new Date(run.startedAt + limits.wallClockSeconds * 1_000).toISOString(),
  };
}

/** Denies calls over a limit, and no others of the turn (INV-G3). @param callsBefore calls before this turn */
export function overLimit(calls: readonly ProposedCall[], limits: Limits, callsBefore: number): Judgement[] {
  const denied: Judgement[] = [];
  let bytesOfTurn = 0;
  for (const [index, { callId, arguments: given }] of calls.entries()) {
    const deny = (limit: string, code: 'LIMIT_REACHED' | 'ARGUMENTS_TOO_LARGE', message: string): void =>
      void denied.push({
        callId,
        verdict: { kind: 'deny', rules: [`limits/${limit}`], code, message },
        repeatable: false,
      });
    const bytes = byteLength(canonicalJson(given));
    if (index >= limits.callsPerTurn)
      deny('callsPerTurn', 'LIMIT_REACHED', `A turn may hold ${limits.callsPerTurn} calls.`);
    else if (callsBefore + index >= limits.calls)
      deny('calls', 'LIMIT_REACHED', `A run may hold ${limits.calls} calls.`);
    else if (bytes > limits.argumentBytes) {
      const message = `Arguments have ${bytes} bytes; ${limits.argumentBytes} are allowed.`;
      deny('argumentBytes', 'ARGUMENTS_TOO_LARGE', message);
    } else if (bytesOfTurn + bytes > limits.argumentBytesPerTurn) {
      const message = `Arguments of one turn may have ${limits.argumentBytesPerTurn} bytes together.`;
      deny('argumentBytesPerTurn', 'ARGUMENTS_TOO_LARGE', message);
    } else bytesOfTurn += bytes;
  }
  return denied;
}

const MILLION = 1_000_000n;

/** Cost of one model step in millionths of the currency, rounded up. */
export function costOf({ input, output }: ModelPrice, { inputTokens, outputTokens }: Usage): number {
  const exact = BigInt(inputTokens) * BigInt(input) + BigInt(outputTokens) * BigInt(output);
  return Number((exact + MILLION - 1n) / MILLION);
}

export function spentOf({ spent }: Run, price: ModelPrice | undefined): { readonly spent?: Spent } {
  return spent === undefined || price === undefined ? {} : { spent: { millionths: spent, currency: price.currency } };
}

/** Converts to millionths. @param amount decimal with at most six digits after the point */
export function millionthsOf(amount: string): number {
  const fraction = amount.split('.')[1] ?? '';
  return Number(amount.replace('.', '') + '0'.repeat(6 - fraction.length));
}

/** Formats millionths as a decimal amount: two digits after the point, more only if they are not zero. */
export function amountText(millionths: number): string {
  const digits = String(millionths).padStart(7, '0');
  const fraction = digits.slice(-6).replace(/0{1,4}$/, '');
  return `${digits.slice(0, -6)}.${fraction}`;
}

// Counts the outcomes of a run's earlier calls by tool; policy conditions read the counts as `earlier`.
//
// 1. Outcomes count only for calls of closed turns. Calls of the current turn that stand before the judged call count
//    as `open` from their proposal on, whatever happens to them, so that no decision on one changes another (INV-G3).
// 2. The tally is small enough to be sent with each call. Outcomes of tools that no longer fit are counted in `beyond`.

export const EMPTY_TALLY: Tally = { tools: {} };

/** Bound of the tally as JSON. A turn of 64 calls sends 64 copies, half a megabyte together. */
export const TALLY_BYTES = 8_192;
/** Bound of one tool's counts: nine kinds with numbers of six digits, the most calls that a run may have. */
const COUNTS_BYTES = 160;

function counted(tally: Tally, key: string, kind: Counted): Tally {
  const known = own(tally.tools, key);
  if (known === undefined && !hasRoom(tally, key)) return { ...tally, beyond: (tally.beyond ?? 0) + 1 };
  return { ...tally, tools: { ...tally.tools, [key]: { ...known, [kind]: (known?.[kind] ?? 0) + 1 } } };
}

function hasRoom({ tools }: Tally, key: string): boolean {
  // Names are usually ASCII; three bytes per UTF-16 unit is the most that UTF-8 takes.
  const bytes = [...Object.keys(tools), key].reduce((sum, name) => sum + 3 * name.length + COUNTS_BYTES, 0);
  return bytes <= TALLY_BYTES;
}

/** Adds the outcomes of a closed turn. @param states all settled */
export function tallied(tally: Tally, states: readonly CallState[]): Tally {
  return states.reduce((sum, state) => {
    const key = keyOf(state);
    return key === undefined || state.status !== 'settled' ? sum : counted(sum, key, state.outcome.kind);
  }, tally);
}

/** Counts the earlier calls of the same turn that policy has not denied, in their order. */
export function withOpen(tally: Tally, keys: readonly string[]): Tally {
  return keys.reduce((sum, key) => counted(sum, key, 'open'), tally);
}

/** The tally that the judge saw: closed turns, and the calls before it in its turn that were not denied. */
export function earlierThan(tally: Tally, states: readonly CallState[], callId: string): Tally {
  const at = states.findIndex(({ call }) => call.callId === callId);
  const keys = states.slice(0, at).flatMap((state) => (isDenied(state) ? [] : (keyOf(state) ?? [])));
  return withOpen(tally, keys);
}

export function toolKey({ server, tool }: { readonly server: string; readonly tool: string }): string {
  return `${server}/${tool}`;
}

function isDenied(state: CallState): boolean {
  return judgementOf(state)?.verdict.kind === 'deny';
}

/** Undefined if the model named no known tool. */
function keyOf(state: CallState): string | undefined {
  const target = judgementOf(state)?.target;
  return target === undefined ? undefined : toolKey(target);
}

/** Temporal ends a run at 2,000 updates and suggests a new one at 1,800; the rest is for those under way. */
export const MOST_UPDATES = 1_500;

export interface Taken {
  readonly nudged: boolean;
  readonly updates: number;
  /** Turns of this execution and their bound; absent for a catalog, and before the run is prepared. */
  readonly turns?: { readonly had: number; readonly most: number };
  readonly suggested: boolean;
}

export type RollReason = 'nudge' | 'updates' | 'turns' | 'history';

export function rollReason({ nudged, updates, turns, suggested }: Taken): RollReason | undefined {
  if (nudged) return 'nudge';
  if (updates >= MOST_UPDATES) return 'updates';
  if (turns !== undefined && turns.had >= turns.most) return 'turns';
  return suggested ? 'history' : undefined;
}
