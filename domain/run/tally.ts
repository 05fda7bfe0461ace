/**
 * What became of the earlier calls of a run, counted by tool: what a condition reads as `earlier`.
 *
 * 1. Only calls of turns that are over count by their outcome. Those of the turn itself that stand before the call count as `open`
 *    from their proposal on, whatever becomes of them meanwhile, so that no decision on one changes another (INV-G3).
 * 2. Small enough to be sent with each call: what no longer fits is not counted, and the tally says so.
 */
import type { Counted, Tally } from '../../contracts/schemas/run-state.ts';
import type { CallState } from '../state/call.ts';
import { withRefusals } from '../request/repeats.ts';
import type { Run } from '../state/run.ts';

export const EMPTY_TALLY: Tally = { tools: {} };

/** Of the tally, as JSON: with 64 calls of a turn each bringing one, half a megabyte. */
export const TALLY_BYTES = 8_192;
/** Most that a tool's counts take, the name left out: nine kinds with numbers of up to six digits, as many calls as a run may have. */
const COUNTS_BYTES = 160;

function counted(tally: Tally, key: string, kind: Counted): Tally {
  const known = Object.hasOwn(tally.tools, key) ? tally.tools[key] : undefined;
  if (known === undefined && !hasRoom(tally, key)) return { ...tally, beyond: (tally.beyond ?? 0) + 1 };
  return { ...tally, tools: { ...tally.tools, [key]: { ...known, [kind]: (known?.[kind] ?? 0) + 1 } } };
}

function hasRoom({ tools }: Tally, key: string): boolean {
  // Names are ASCII where they are anything usual; three bytes for each unit is the most that UTF-8 takes.
  const bytes = [...Object.keys(tools), key].reduce((sum, name) => sum + 3 * name.length + COUNTS_BYTES, 0);
  return bytes <= TALLY_BYTES;
}

/** The turn is over. @param states all settled */
export function tallied(tally: Tally, states: readonly CallState[]): Tally {
  return states.reduce((sum, state) => {
    const key = keyOf(state);
    return key === undefined || state.status !== 'settled' ? sum : counted(sum, key, state.outcome.kind);
  }, tally);
}

/** Calls of the same turn that policy has let stand, in their order. */
export function withOpen(tally: Tally, keys: readonly string[]): Tally {
  return keys.reduce((sum, key) => counted(sum, key, 'open'), tally);
}

/** As the judge saw it: the tally of the turns before, and the calls that stand before this one and were not denied. */
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

/** Undefined where the name meant no tool. */
function keyOf(state: CallState): string | undefined {
  const target = 'judgement' in state ? state.judgement?.target : undefined;
  return target === undefined ? undefined : toolKey(target);
}

/**
 * Every call has its outcome, and the transcript has them all: the turn is over.
 * @param counts is what became of the calls asked for later?
 */
export function closeTurn(run: Run, counts?: true): Run {
  return {
    ...withRefusals(run),
    calls: [],
    ...(counts === undefined ? {} : { tally: tallied(run.tally ?? EMPTY_TALLY, run.calls) }),
  };
}
