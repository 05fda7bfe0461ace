/** Input of a message's activity. In history: arguments as lists show them, never redacted ones (INV-S1). */
import type { Digest, Gathered, MessageEvent, NotifyRoute } from '../schemas/notify.ts';
import type { ApproverRule } from '../schemas/policy.ts';
import type { MessageRequest } from '../schemas/notify-message.ts';
import type { PauseKind } from '../schemas/request.ts';
import type { MessagesState } from '../schemas/run-state.ts';
import type { RunIdentity } from './identity.ts';

/** Set when a run is prepared, if policy tells anybody anything. */
export interface PreparedNotify {
  /** Routes for requests of which no verdict says anything: `policy.notify`. */
  readonly routes: readonly NotifyRoute[];
  /** Channel → seconds for which the run gathers. Set of runs that began with 1.0.0-rc.1 alone (docs/adr/0086). */
  readonly gather?: Readonly<Record<string, number>>;
}

/** Whom a message is for; a channel knows their addresses. */
export interface Addressees {
  readonly ids: readonly string[];
  readonly groups: readonly string[];
}

/** A request as messages show it. */
export type ToldRequest = Omit<MessageRequest, 'url'>;

/** What messages say of a run. */
export interface ToldRun extends Pick<RunIdentity, 'namespace' | 'workflowId'> {
  readonly initiator: Pick<RunIdentity['initiator'], 'id' | 'tenant'>;
}

export interface MessageInput {
  /** The same for each try, and in later executions of the run; differs for every other message of the channel. */
  readonly key: string;
  readonly channel: string;
  readonly event: MessageEvent;
  readonly run: RunIdentity;
  readonly to: Addressees;
  /** At most `MOST_TOLD`. */
  readonly requests: readonly ToldRequest[];
  readonly more?: number;
  /** Name that the channel gave to the message about the same request, to be followed. */
  readonly thread?: string;
  /** It was under way when an earlier execution ended, and may have arrived. */
  readonly again?: true;
}

export interface MessageSent {
  /** Name that the channel gives to the message, if later ones can follow it. */
  readonly thread?: string;
}

/** What a digest has gathered: pointers alone. Its words are read of the runs when it is sent. */
export interface DigestInput extends Omit<Digest, 'seconds'> {
  /** Number of the message, from 1. */
  readonly round: number;
  readonly gathered: readonly Gathered[];
  /** Number of further messages of runs, which it had no room for. */
  readonly left: number;
}

/** What a digest hands to its next execution, before its history is too long. */
export interface DigestCarry extends Pick<DigestInput, 'round' | 'gathered' | 'left'> {
  readonly version: typeof DIGEST_CARRY_VERSION;
  /** Keys of the newest messages of runs that it has had. */
  readonly keys: readonly string[];
  /** Time for which it still gathers, ms. */
  readonly restMs: number;
  readonly hasFailed: boolean;
}

export const DIGEST_CARRY_VERSION = 1;

export type FailedMessage = MessagesState['failures'][number];

/** An open request as it is told; times are epoch ms. */
export interface Followed {
  readonly generation: number;
  /** The rule of the request, with its approvers of the last look. */
  readonly approvers: ApproverRule;
  readonly deadline: number;
  readonly about?: PauseKind;
  readonly reminded?: true;
  /** Time of the last escalation that was told. */
  readonly escalatedAt?: number;
  /** The last time before the deadline at which `expiring` was told. */
  readonly warned?: number;
}

export interface UnsentMessage extends MessageInput {
  /** Epoch ms. */
  readonly since: number;
}

/** State of the messages for the next execution: nothing is told twice, and nothing is left out. */
export interface CarriedMessages {
  /** By call id. */
  readonly open: Readonly<Record<string, Followed>>;
  /** Messages under way, or gathered; they keep their keys, and the time from which their hour counts. */
  readonly unsent: readonly UnsentMessage[];
  /** `CHANNEL CALL` → what the channel calls the message. */
  readonly threads?: Readonly<Record<string, string>>;
  readonly sent: number;
  readonly failed: number;
  readonly failures: readonly FailedMessage[];
}
