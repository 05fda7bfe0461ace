/**
 * Tells people in Temporal UI which calls stretches made: one line for each turn, with its tools. History has one
 * activity for all of them; any other call has one of its own.
 *
 * 1. Names of servers and tools, and codes of results, are escaped: any of them may be foreign text.
 */
import type { StretchedCall } from '../../contracts/wire/stretch.ts';
import { judgementOf } from '../state/call.ts';
import { callOf, type Run } from '../state/run.ts';
import { bounded, markdown, named } from '../text/escape.ts';

/** The turns of this execution whose calls left within a stretch. */
export interface StretchedTurns {
  readonly count: number;
  /** Lines of the newest turns, newest first. */
  readonly lines: readonly string[];
}

export const NO_STRETCHED_TURNS: StretchedTurns = { count: 0, lines: [] };

const SHOWN_TURNS = 10;
const SHOWN_TOOLS = 10;

/**
 * Adds the turn that `run` is in.
 * @param calls all calls of the turn, which left within the stretch
 * @param at epoch ms at which the model had answered
 */
export function withStretched(
  before: StretchedTurns,
  run: Run,
  calls: readonly StretchedCall[],
  at: number,
): StretchedTurns {
  const line = `- turn ${run.turn} at ${new Date(at).toISOString()}: ${deeds(run, calls)}`;
  return { count: before.count + 1, lines: [line, ...before.lines].slice(0, SHOWN_TURNS) };
}

/** Returns a section of Temporal's current details. */
export function stretchedLines({ count, lines }: StretchedTurns): readonly string[] {
  if (count === 0) return [];
  const more = count - lines.length;
  const rest = more === 0 ? [] : [`- … and ${more} before, which the ledger has`];
  return ['', '### calls made in stretches, newest turn first', '', ...lines, ...rest];
}

function deeds(run: Run, calls: readonly StretchedCall[]): string {
  const times = new Map<string, number>();
  for (const call of calls) {
    const deed = deedOf(run, call);
    times.set(deed, (times.get(deed) ?? 0) + 1);
  }
  const shown = [...times].slice(0, SHOWN_TOOLS).map(([deed, count]) => (count === 1 ? deed : `${deed} ×${count}`));
  const more = times.size - shown.length;
  return more === 0 ? shown.join(', ') : `${shown.join(', ')}, … and ${more} more`;
}

/** Names the tool of a call, and how the call ended unless it succeeded. */
function deedOf(run: Run, { callId, result }: StretchedCall): string {
  const state = callOf(run, callId);
  const target = state && judgementOf(state)?.target;
  const tool = target === undefined ? callId : `${nameOf(target.server)}/${nameOf(target.tool)}`;
  if (result?.kind !== 'ended') return `${tool} (left to the run)`;
  const { outcome } = result;
  if (outcome.kind === 'succeeded') return tool;
  return `${tool} (${outcome.kind}${'code' in outcome ? `: ${markdown(bounded(outcome.code, 64))}` : ''})`;
}

function nameOf(name: string): string {
  return markdown(named(bounded(name, 100)));
}
