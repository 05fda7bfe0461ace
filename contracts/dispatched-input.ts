/** What a dispatch is given of the questions that a server asked before, and of people's answers. */
import type { ProvisionProof } from './dispatch-proof.ts';
import type { InputRequest, SealedState } from './schemas/input.ts';

export interface DispatchedInput {
  /** Oldest first. */
  readonly provided: readonly ProvisionProof[];
  /** What was asked last; each question has its answer. Absent: the call begins. */
  readonly leg?: InputLeg;
}

/** Where a server that asks for input takes a call up again. */
export interface InputLeg {
  /** Of the pause, from 1. */
  readonly round: number;
  readonly requests: Readonly<Record<string, Pick<InputRequest, 'hash'>>>;
  /** Hashes of the questions that were answered since the call began. */
  readonly used: readonly string[];
  /** With the server's state, where it gave one: that a worker of the zone was asked this. */
  readonly state?: SealedState;
}
