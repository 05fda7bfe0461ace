/**
 * The same call again: a person is asked once, and equal calls of one turn are told apart.
 *
 * 1. What a person rejected or policy denied in a closed turn is answered from here, until a message of the user is read: nobody is
 *    asked again and nothing is sent. An answer is never anything else than the refusal that was given (INV-G1).
 * 2. Only refusals that hold are kept: an expired or cancelled call may ask again, and so may one that was denied by a limit, by
 *    what a catalog said at that moment, or for its arguments. What policy denied may be asked once policy says so.
 * 3. Equal calls of one turn stay calls of their own (INV-G3): a later one is marked, and an approval of
 *    the first is none of it. Only one that somebody said is to stand for later calls answers it too.
 */
import type { Judgement, ProposedCall, ToolTarget } from '../../contracts/schemas/call.ts';
import type { RefusedCall, Run } from '../state/run.ts';
import { isSettled } from '../state/status.ts';
import { hashOf } from '../text/canonical.ts';
import { bounded } from '../text/escape.ts';
import type { CallState } from '../state/call.ts';

/** Refusals that are remembered, the newest; what is forgotten is asked again. With their texts cut, at most 150 kB to carry. */
export const MOST_REFUSALS = 100;
/** Characters of a reason that repeats are given: the model has read all of it once. */
const REASON_CHARACTERS = 300;

/** Runs that were prepared before repeats were answered do without. */
export function remembering(run: Run): Run {
  return { ...run, refusals: [] };
}

/** What the turn that closes leaves behind. */
export function withRefusals(run: Run): Run {
  if (run.refusals === undefined) return run;
  const added = run.calls.filter(isSettled).flatMap(refusalOf);
  if (added.length === 0) return run;
  const isNew = ({ key }: RefusedCall): boolean => !added.some((other) => other.key === key);
  return { ...run, refusals: [...run.refusals.filter(isNew), ...added].slice(-MOST_REFUSALS) };
}

/** The user has spoken: what was refused before may be asked. */
export function withoutRefusals(run: Run): Run {
  return run.refusals === undefined ? run : { ...run, refusals: [] };
}

/** What a repeat of a refused call is answered: a person's no stands whatever policy says now, policy's own where it says it again. */
export function answeredBefore(
  { refusals = [] }: Run,
  call: ProposedCall,
  { target, verdict }: Judgement,
): RefusedCall['outcome'] | undefined {
  if (refusals.length === 0 || target === undefined) return undefined;
  const key = keyOf(call, target);
  const outcome = refusals.find((refusal) => refusal.key === key)?.outcome;
  if (outcome?.kind === 'denied' && !(verdict.kind === 'deny' && verdict.code === outcome.code)) return undefined;
  return outcome;
}

/** Tells which calls of one turn are the same as an earlier one, asked for each in turn. */
export class Duplicates {
  readonly #first = new Map<string, string>();
  readonly #wanted: boolean;

  constructor({ refusals }: Run) {
    this.#wanted = refusals !== undefined;
  }

  /** The id of the first call of the turn that is the same. */
  of(call: ProposedCall, target: ToolTarget): string | undefined {
    if (!this.#wanted) return undefined;
    const key = keyOf(call, target);
    const first = this.#first.get(key);
    if (first === undefined) this.#first.set(key, call.callId);
    return first;
  }
}

function refusalOf({ call, judgement, outcome, edit }: Extract<CallState, { status: 'settled' }>): RefusedCall[] {
  const target = judgement?.target;
  if (target === undefined) return [];
  // What the model would repeat is what it proposed.
  const key = keyOf({ ...call, arguments: edit?.proposed ?? call.arguments }, target);
  switch (outcome.kind) {
    case 'rejected':
      if (outcome.repeatOf !== undefined) return [];
      return [{ key, outcome: { ...outcome, reason: cut(outcome.reason), repeatOf: call.callId } }];
    case 'denied':
      // Every other code says something of the moment, or is found again for nothing.
      if (outcome.repeatOf !== undefined || outcome.code !== 'POLICY_DENIED') return [];
      return [{ key, outcome: { ...outcome, message: cut(outcome.message), repeatOf: call.callId } }];
    default:
      return [];
  }
}

function keyOf(call: ProposedCall, { server, tool }: ToolTarget): string {
  return hashOf({ server, tool, arguments: call.arguments });
}

function cut(text: string): string {
  return bounded(text, REASON_CHARACTERS);
}
