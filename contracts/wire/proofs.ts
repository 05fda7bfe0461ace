/** What a dispatch is given as the consent to a call, and as answers to what was asked of it. The activity believes none of it before it has proven it. */
import type {
  AuthorizationPause,
  InputPause,
  Pause,
  SignedAuthorization,
  SignedDecision,
  SignedProvision,
  SignedResolution,
} from '../schemas/answer.ts';
import type { InputRequest, SealedState } from '../schemas/input.ts';
import type { JsonObject } from '../schemas/json.ts';
import type { ApproverRule } from '../schemas/policy.ts';

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

// What a dispatch is given as the consent to a call, and what it says is wanting. The activity believes none of it before it has proven it.

/** Why a call may be sent. The activity trusts none of it: it judges again and recomputes the digest. */
export type DispatchProof =
  | { readonly kind: 'policy'; readonly rules: readonly string[] }
  | {
      readonly kind: 'decision';
      readonly decision: SignedDecision;
      /** Of the others, where one was not enough. */
      readonly further?: readonly SignedDecision[];
      readonly generation: number;
      readonly approvers: ApproverRule;
      /** As the request opened. */
      readonly deadline: string;
      /** Where the deadline was postponed. */
      readonly extended?: {
        readonly openedAt: string;
        /** Oldest first. */
        readonly by: readonly { readonly decision: SignedDecision; readonly decidedAt: string }[];
      };
      /** When the run accepted the decision. */
      readonly decidedAt: string;
      /** Where a decision put other arguments in place of those that were shown: what its digest is of. */
      readonly edit?: ShownRequest;
      /** Where who may decide depends on the time: when the request opened, and when each of `further` was accepted. */
      readonly voted?: { readonly openedAt: string; readonly further: readonly string[] };
    }
  | {
      /** Decisions on an earlier call, which answer this one, too. */
      readonly kind: 'standing';
      readonly standing: string;
      readonly decisions: readonly SignedDecision[];
      /** The request that they were made on. */
      readonly callId: string;
      readonly shown: ShownRequest;
      readonly deadline: string;
      readonly decidedAt: string;
      /** How the catalog reached the server then, and with which grant of the run. */
      readonly connection?: string;
      readonly grant?: string;
    };

/** Somebody's word that a call which may have run is sent again, and the request that it answers. */
export interface RetryProof {
  readonly resolution: Extract<SignedResolution, { kind: 'retry' }>;
  readonly about: Pause;
  readonly generation: number;
  readonly approvers: ApproverRule;
  /** The tool as it was shown then. */
  readonly definitionHash: string;
  readonly openedAt: string;
  readonly deadline: string;
  /** When the run took it. */
  readonly decidedAt: string;
}

/** Somebody's answer to what the server asked, and the request that it answers. */
export interface ProvisionProof {
  readonly provision: SignedProvision;
  readonly about: InputPause;
  readonly generation: number;
  readonly approvers: ApproverRule;
  /** The tool as it was shown then. */
  readonly definitionHash: string;
  readonly openedAt: string;
  readonly deadline: string;
  /** When the run took it. */
  readonly decidedAt: string;
}

/** Somebody's word on what a server wanted of a call: consent to scopes for this call, or a grant in place of the run's. */
export interface AuthorizationProof extends Omit<RetryProof, 'resolution'> {
  readonly answer: Extract<SignedAuthorization, { kind: 'consent' | 'grant' }>;
  /** Of the others, where one consent was not enough, and when the run took each. */
  readonly further?: readonly ConsentProof[];
}

export interface ConsentProof {
  readonly answer: Extract<SignedAuthorization, { kind: 'consent' }>;
  readonly decidedAt: string;
}

/** What would let the server take the call, and who can give it. */
export type AuthorizationNeed = Pick<AuthorizationPause, 'reason' | 'message' | 'wants'> & {
  readonly scopes?: readonly string[];
  /** Of consent to a call: whom policy asks as the call leaves, who may be others than when it was judged. */
  readonly asked?: { readonly approvers: ApproverRule; readonly deadlineSeconds: number };
};

/** What somebody read of a request on another call, or with other arguments, than would be sent. */
export interface ShownRequest {
  readonly generation: number;
  readonly arguments: JsonObject;
  readonly approvers: ApproverRule;
}
