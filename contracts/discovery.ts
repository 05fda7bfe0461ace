/** Between a run and the activity that lists the tools of one of its servers. Written into history: no secret in clear (INV-S1). */
import type { RunIdentity, SignedSpec } from './activities.ts';
import type { AuthorizationNeed, AuthorizationProof } from './dispatch-proof.ts';
import type { Grant } from './schemas/run-spec.ts';
import type { ServerBinding } from './schemas/tool.ts';

export interface DiscoverInput {
  readonly run: RunIdentity;
  readonly server: ServerBinding;
  readonly grant?: Grant;
  readonly signedSpec?: SignedSpec;
  /** The run knows which resources may be read: the tool for it is offered where the server has them. */
  readonly links?: true;
  /** The run waits for what servers work on as tasks: tools that can only be called so are offered. */
  readonly tasks?: true;
  /** The run can ask for another grant. Absent: every failure ends it. */
  readonly mayAsk?: true;
  /** With a grant that took the place of the run's own: what was said, and the Temporal runs in which it may have been said. */
  readonly authorizations?: readonly AuthorizationProof[];
  readonly decidedIn?: readonly string[];
}

/** No list, for want of a grant that its subject can give. Only for runs that say `mayAsk`. */
export interface TurnedAway {
  readonly server: string;
  readonly authorization: AuthorizationNeed;
}
