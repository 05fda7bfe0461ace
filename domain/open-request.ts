/** A request to people that is open, and how its deadline came to be what it is. */
import type { SignedDecision } from '../contracts/schemas/decision.ts';
import type { Pause } from '../contracts/schemas/pause.ts';
import type { ApproverRule } from '../contracts/schemas/policy.ts';

/** Times are epoch ms. */
export interface OpenRequest {
  readonly generation: number;
  readonly approvers: ApproverRule;
  readonly openedAt: number;
  /** As it is now, postponed or not. */
  readonly deadline: number;
  /** Where it was postponed: the first deadline, and by whom, oldest first. */
  readonly extended?: { readonly from: number; readonly by: readonly Extension[] };
  /** Of what happens by time alone (`steps.ts`), the time of the last thing that people were told. */
  readonly told?: number;
  readonly because?: string;
  /** What is asked, where it is not consent to the call (`pause.ts`). */
  readonly about?: Pause;
}

export type Postponement = Extract<SignedDecision, { kind: 'extend' }>;

/** `decidedAt` epoch ms. */
export interface Extension {
  readonly decision: Postponement;
  readonly decidedAt: number;
}
