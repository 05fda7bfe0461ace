/** What people said of a call besides consent, each with what they read: proven again where the call leaves. */
import type { InputLeg } from '../contracts/dispatched-input.ts';
import type { SignedAuthorization } from '../contracts/schemas/authorization.ts';
import type { AuthorizationPause, InputPause, Pause } from '../contracts/schemas/pause.ts';
import type { SignedProvision } from '../contracts/schemas/provision.ts';
import type { SignedResolution } from '../contracts/schemas/resolution.ts';
import type { OpenRequest } from './open-request.ts';

/** Somebody's word that a call which may have run is sent again, and what they read. */
export interface Retry {
  readonly resolution: Extract<SignedResolution, { kind: 'retry' }>;
  /** Epoch ms. */
  readonly decidedAt: number;
  readonly request: OpenRequest & { readonly about: Pause };
  /** The tool as it was shown then. */
  readonly definitionHash: string;
}

/** Somebody's answer to what a server asked, and what they read. */
export interface Provided {
  readonly provision: SignedProvision;
  /** Epoch ms. */
  readonly decidedAt: number;
  readonly request: OpenRequest & { readonly about: InputPause };
  /** The tool as it was shown then. */
  readonly definitionHash: string;
}

/** Of a call whose server has asked for something: where it is taken up again, and what was answered, oldest first. */
export interface InputProgress {
  readonly leg: InputLeg;
  readonly provided: readonly Provided[];
}

/** What a server asked on the open connection of one dispatch, which waits for it (`held-input.ts`). */
export interface HeldProgress {
  /** Times that it asked. */
  readonly rounds: number;
  /** Ms that people were waited for, all in all. */
  readonly waited: number;
  /** What became of the last question. `deadline` epoch ms. */
  readonly last:
    | { readonly kind: 'answered'; readonly provided: Provided }
    | { readonly kind: 'expired'; readonly deadline: number }
    | { readonly kind: 'cancelled' };
}

/** Somebody's consent, where it takes others, too. */
export interface Agreed {
  readonly answer: Extract<SignedAuthorization, { kind: 'consent' }>;
  /** Epoch ms. */
  readonly decidedAt: number;
}

/** Somebody's word on what a server wanted of a call, and what they read. */
export interface Authorized {
  readonly answer: Extract<SignedAuthorization, { kind: 'consent' | 'grant' }>;
  /** Of those who consented before, where one was not enough. */
  readonly further?: readonly Agreed[];
  /** Epoch ms. */
  readonly decidedAt: number;
  readonly request: OpenRequest & { readonly about: AuthorizationPause };
  /** The tool as it was shown then. */
  readonly definitionHash: string;
}
