/**
 * A call that must be asked (again) before it may be sent.
 *
 * 1. Reopening makes a new generation, and with it another digest (INV-G2).
 */
import type { ShownDefinition } from '../contracts/dispatch.ts';
import type { ApproverRule } from '../contracts/schemas/policy.ts';
import { type Asking, type InFlight, type ResolvedJudgement, askable, type Sendable } from './call-state.ts';

/** Of a request that is opened now. */
export function nextGeneration(state: InFlight | Sendable): number {
  const { generation = 0 } = ('request' in state ? state.request : undefined) ?? {};
  return Math.max(generation, state.asked ?? 0) + 1;
}

export interface Reopening {
  readonly at: number;
  readonly because: string;
  /** What a stricter policy now asks for; else as before, else the default of the caller. */
  readonly approvers: ApproverRule;
  readonly deadlineSeconds: number;
  /** Where the tool is another one than was shown. */
  readonly definition?: ShownDefinition;
}

/**
 * Why a call is asked again that somebody let leave once more, though it may have run: whoever agrees now must read that, too.
 * Of other calls nothing is added: runs of earlier releases have it in their ledgers without.
 */
export function warned({ unsure, asked }: InFlight | Sendable, because: string): string {
  return unsure === undefined || asked === undefined
    ? because
    : `OUTCOME_UNKNOWN: it was sent before and may have run. ${because}`;
}

/** The consent no longer holds, and nothing was sent: ask again. */
export function reopened(
  state: InFlight | Sendable,
  { at, because, approvers, deadlineSeconds, definition }: Reopening,
): Asking {
  return {
    status: 'asking',
    ...askable(state),
    ...(definition === undefined ? {} : { judgement: redefined(state.judgement, definition) }),
    request: {
      generation: nextGeneration(state),
      approvers,
      openedAt: at,
      deadline: at + deadlineSeconds * 1_000,
      because,
    },
  };
}

/** What the fresh decision is about, and what its digest covers (INV-G2). */
function redefined(
  { description: _, annotations: __, ...judgement }: ResolvedJudgement,
  { hash, description, annotations }: ShownDefinition,
): ResolvedJudgement {
  return {
    ...judgement,
    target: { ...judgement.target, definitionHash: hash },
    ...(description === undefined ? {} : { description }),
    ...(annotations === undefined ? {} : { annotations }),
  };
}
