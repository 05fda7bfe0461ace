/** Proofs of consent and of answers. The dispatch believes none before it has judged again and recomputed digests. */
import type {
  AuthorizationPause,
  InputPause,
  Pause,
  SignedAuthorization,
  SignedDecision,
  SignedProvision,
  SignedResolution,
} from '../schemas/request.ts';
import type { InputRequest, SealedState } from '../schemas/input.ts';
import type { JsonObject } from '../schemas/json.ts';
import type { ApproverRule } from '../schemas/policy.ts';

/** Place at which a server that asks for input resumes a call. */
export interface InputLeg {
  /** Number of the pause, from 1. */
  readonly round: number;
  readonly requests: Readonly<Record<string, Pick<InputRequest, 'hash'>>>;
  /** Hashes of the questions that were answered since the call began. */
  readonly used: readonly string[];
  /** Sealed together with the server's state, if it gave one: proof that a worker of the zone was asked this. */
  readonly state?: SealedState;
}

export type DispatchProof =
  | { readonly kind: 'policy'; readonly rules: readonly string[] }
  | {
      readonly kind: 'decision';
      readonly decision: SignedDecision;
      readonly further?: readonly SignedDecision[];
      readonly generation: number;
      readonly approvers: ApproverRule;
      /** The first deadline, before any extension. */
      readonly deadline: string;
      /** Set if the deadline was postponed. */
      readonly extended?: {
        readonly openedAt: string;
        /** Oldest first. */
        readonly by: readonly { readonly decision: SignedDecision; readonly decidedAt: string }[];
      };
      /** Time at which the run accepted the decision. */
      readonly decidedAt: string;
      /** Set if a decision edited the arguments: the request that its digest covers. */
      readonly edit?: ShownRequest;
      /** Set if the rule escalates: when the request opened, and when each vote in `further` was accepted. */
      readonly voted?: { readonly openedAt: string; readonly further: readonly string[] };
    }
  | {
      /** Decisions on an earlier call that also answer this one. */
      readonly kind: 'standing';
      readonly standing: string;
      readonly decisions: readonly SignedDecision[];
      /** The call on whose request the decisions were made. */
      readonly callId: string;
      readonly shown: ShownRequest;
      readonly deadline: string;
      readonly decidedAt: string;
      /** Hashes of the catalog's connection at that time, and of the run's grant for the server. */
      readonly connection?: string;
      readonly grant?: string;
    };

/** The request that a person answered, if it was about something other than consent. */
export interface PauseProof<About extends Pause = Pause> {
  readonly about: About;
  readonly generation: number;
  readonly approvers: ApproverRule;
  /** Hash of the tool's definition as the request showed it. */
  readonly definitionHash: string;
  readonly openedAt: string;
  readonly deadline: string;
  /** Time at which the run took the answer. */
  readonly decidedAt: string;
}

export interface RetryProof extends PauseProof {
  readonly resolution: Extract<SignedResolution, { kind: 'retry' }>;
}

export interface ProvisionProof extends PauseProof<InputPause> {
  readonly provision: SignedProvision;
}

/** A person's answer to a required authorization: consent to scopes for this call, or a grant in place of the run's. */
export interface AuthorizationProof extends PauseProof {
  readonly answer: Extract<SignedAuthorization, { kind: 'consent' | 'grant' }>;
  /** The other consents, if one was not enough, with the times at which the run took them. */
  readonly further?: readonly {
    readonly answer: Extract<SignedAuthorization, { kind: 'consent' }>;
    readonly decidedAt: string;
  }[];
}

/** The authorization that would let the server take the call, and who can give it. */
export type AuthorizationNeed = Pick<AuthorizationPause, 'reason' | 'message' | 'wants'> & {
  readonly scopes?: readonly string[];
  /** For consent to a call: approvers by the policy at dispatch, who may differ from those at judging. */
  readonly asked?: { readonly approvers: ApproverRule; readonly deadlineSeconds: number };
};

/** A request as somebody read it on another call, or with other arguments, than would be sent. */
export interface ShownRequest {
  readonly generation: number;
  readonly arguments: JsonObject;
  readonly approvers: ApproverRule;
}
