/**
 * Counts the outcomes of a run's earlier calls by tool; policy conditions read the counts as `earlier`.
 *
 * 1. Outcomes count only for calls of closed turns. Calls of the current turn that stand before the judged call count
 *    as `open` from their proposal on, whatever happens to them, so that no decision on one changes another (INV-G3).
 * 2. The tally is small enough to be sent with each call. Outcomes of tools that no longer fit are counted in `beyond`.
 */
import type { Counted, Tally } from '../../contracts/schemas/run-state.ts';
import type { CallState } from '../state/call.ts';
import { withRefusals } from '../request/repeats.ts';
import type { Run } from '../state/run.ts';

export const EMPTY_TALLY: Tally = { tools: {} };

/** Bound of the tally as JSON. A turn of 64 calls sends 64 copies, half a megabyte together. */
export const TALLY_BYTES = 8_192;
/**
 * Bound of one tool's counts without its name: nine kinds with numbers of six digits, the most calls that a run may
 * have.
 */
const COUNTS_BYTES = 160;

function counted(tally: Tally, key: string, kind: Counted): Tally {
  const known = Object.hasOwn(tally.tools, key) ? tally.tools[key] : undefined;
  if (known === undefined && !hasRoom(tally, key)) return { ...tally, beyond: (tally.beyond ?? 0) + 1 };
  return { ...tally, tools: { ...tally.tools, [key]: { ...known, [kind]: (known?.[kind] ?? 0) + 1 } } };
}

function hasRoom({ tools }: Tally, key: string): boolean {
  // Names are usually ASCII; three bytes per UTF-16 unit is the most that UTF-8 takes.
  const bytes = [...Object.keys(tools), key].reduce((sum, name) => sum + 3 * name.length + COUNTS_BYTES, 0);
  return bytes <= TALLY_BYTES;
}

/**
 * Adds the outcomes of a closed turn.
 * @param states all settled
 */
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

/**
 * Rebuilds the tally that the judge saw for a call: closed turns, and the calls before it in its turn that were not
 * denied.
 */
export function earlierThan(tally: Tally, states: readonly CallState[], callId: string): Tally {
  const before = states.slice(
    0,
    states.findIndex(({ call }) => call.callId === callId),
  );
  return withOpen(
    tally,
    before.flatMap((state) => (isDenied(state) ? [] : (keyOf(state) ?? []))),
  );
}

export function toolKey({ server, tool }: { readonly server: string; readonly tool: string }): string {
  return `${server}/${tool}`;
}

export function isDenied(state: CallState): boolean {
  return 'judgement' in state && state.judgement?.verdict.kind === 'deny';
}

/** Undefined if the model named no known tool. */
function keyOf(state: CallState): string | undefined {
  const target = 'judgement' in state ? state.judgement?.target : undefined;
  return target === undefined ? undefined : toolKey(target);
}

/**
 * Closes a turn whose calls all have outcomes that the transcript holds.
 * @param counts set if a policy rule reads the tally
 */
export function closeTurn(run: Run, counts?: true): Run {
  return {
    ...withRefusals(run),
    calls: [],
    ...(counts === undefined ? {} : { tally: tallied(run.tally ?? EMPTY_TALLY, run.calls) }),
  };
}
