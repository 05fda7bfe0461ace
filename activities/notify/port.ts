/**
 * A channel tells people of requests: a webhook, mail, a chat.
 *
 * 1. `send` returns once the receiver has taken the message. Every other end is an error: `MESSAGE_UNDELIVERED` is
 *    tried again, `MESSAGE_REFUSED` is final.
 * 2. A message has one id, the same for each try, by which a receiver knows a repetition.
 * 3. Text of models and servers stays data: nothing in it becomes markup, a mention or a header. No channel makes a
 *    link of it; mail programs make links of addresses in plain text, so `://` is written apart there.
 * 4. No error quotes the message, an address of a person, or what the receiver said but for a code of its protocol.
 * 5. A message gives nobody a right and asks for none: who may decide is asked where the decision arrives.
 */
import { defined } from '../../contracts/defined.ts';
import { CountersignError } from '../../contracts/errors.ts';
import type { MessageEvent } from '../../contracts/schemas/notify.ts';
import type { MessageInput, MessageSent, ToldRequest, ToldRun } from '../../contracts/wire/notify.ts';
import { type Compared, isSamePerson } from '../../domain/policy/approvers.ts';
import { visible } from '../../domain/text/escape.ts';
import { ownValue } from '../kit/json.ts';
import { isFinalStatus } from '../kit/network.ts';

export interface LinkedRequest extends ToldRequest {
  readonly event: MessageEvent;
  readonly run: ToldRun;
  /** Address of its page, if there is one. */
  readonly url?: string;
  /** Set for channels with buttons, while the request is as the message shows it. */
  readonly answerable?: Answerable;
}

/** What an answer to a message must bind. */
export interface Answerable {
  readonly digest: string;
  /** Temporal run id under which the request is shown. */
  readonly runId: string;
  /** True if `arguments` are all of them: nothing is redacted, and nothing cut. */
  readonly isWhole: boolean;
  /** Warnings that whoever approves the call must read beside it, as on the pages (`gateway/page/request.ts`). */
  readonly warnings?: readonly string[];
}

export interface Message extends Pick<MessageInput, 'channel' | 'to' | 'more' | 'thread'> {
  /** Id of the message: `webhook-id`, and part of `Message-ID`. */
  readonly id: string;
  /** The run and the event that all of it is about. Absent in a digest, which is of several. */
  readonly single?: { readonly event: MessageEvent; readonly run: ToldRun };
  readonly requests: readonly LinkedRequest[];
  /** True if an earlier try may have arrived. */
  readonly repeated: boolean;
}

export interface MessageChannel {
  /** True if its messages can be answered. */
  readonly hasButtons?: boolean;
  send(message: Message): Promise<MessageSent>;
}

/** Finds what a channel knows of a person. Ids are compared as policy says; one that is written so comes first. */
export function valueOf<Value>(
  compared: Compared,
  people: Readonly<Record<string, Value>>,
  id: string,
): Value | undefined {
  return ownValue(people, id) ?? Object.entries(people).find(([known]) => isSamePerson(compared, known, id))?.[1];
}

/** @param reason follows the name of the channel */
export function undelivered(channel: string, reason: string, retryAfterMs?: number): CountersignError {
  return new CountersignError(
    'MESSAGE_UNDELIVERED',
    `The message was not delivered: notify.channels.${channel} ${reason}. It is tried again for an hour; the run does not wait for it.`,
    { path: `notify.channels.${channel}`, ...defined({ retryAfterMs }) },
  );
}

export function refusedBy(channel: string, reason: string): CountersignError {
  return new CountersignError(
    'MESSAGE_REFUSED',
    `The message was not delivered, and is not tried again: notify.channels.${channel} ${reason}. The run does not wait for it.`,
    { path: `notify.channels.${channel}` },
  );
}

/** Throws unless a receiver that speaks HTTP has taken the message. */
export function assertTaken(channel: string, status: number, retryAfterMs?: number): void {
  if (isFinalStatus(status)) throw refusedBy(channel, `answered ${status}`);
  if (status < 200 || status >= 300) throw undelivered(channel, `answered ${status}`, retryAfterMs);
}

// The words of a message, which all channels for people share. Each line is safe as plain text.

const HEADINGS: Readonly<Record<MessageEvent, readonly [one: string, many: string]>> = {
  opened: ['A call waits for a decision', 'calls wait for a decision'],
  reminder: ['Reminder: a call still waits for a decision', 'calls still wait for a decision'],
  escalation: ['Others may decide now: a call waits', 'calls wait, and others may decide now'],
  expiring: ['The deadline is near: a call waits for a decision', 'calls wait, and their deadline is near'],
  unknown: ['Nobody knows whether a call ran', 'calls may have run, and nobody knows'],
  closed: ['A request is closed', 'requests are closed'],
};

export function headingOf({ single, requests, more = 0 }: Message): string {
  const counts = new Map<MessageEvent, number>();
  for (const { event } of requests) counts.set(event, (counts.get(event) ?? 0) + 1);
  const [first] = counts;
  if (single !== undefined && first !== undefined) return countedAs(first[0], first[1] + more);
  const parts = [...counts].map(([event, count]) => countedAs(event, count));
  return [...parts, ...(more === 0 ? [] : [`and ${more} more`])].join('; ');
}

function countedAs(event: MessageEvent, count: number): string {
  const [one, many] = HEADINGS[event];
  return count === 1 ? one : `${count} ${many}`;
}

export function toolOf({ server, tool }: ToldRequest): string {
  return visible(`${server}/${tool}`);
}

const ABOUT = {
  outcome: 'say what became of the call',
  input: 'the server asks questions',
  authorization: 'the server wants another authorization',
} as const;

const CLOSED: Readonly<Record<NonNullable<ToldRequest['closed']>['status'], string>> = {
  open: 'open',
  approved: 'approved',
  rejected: 'rejected',
  expired: 'expired: nobody decided in time',
  cancelled: 'withdrawn: nobody needs to decide any more',
  answered: 'answered',
  resolved: 'resolved',
};

export function closedWords({ closed: { status, by } = { status: 'open' } }: ToldRequest): string {
  return `${CLOSED[status]}${by === undefined ? '' : ` by ${visible(by)}`}`;
}

export function linesOf(message: Message, request: LinkedRequest): (readonly [name: string, value: string])[] {
  const { run, event, callId, about, closed, explain = [], because, deadline, who, answerable } = request;
  const isMixed = message.requests.some((other) => other.event !== event);
  const lines: (readonly [name: string, value: string | undefined])[] = [
    ['run', `${run.workflowId}, call ${callId}, started by ${run.initiator.id}`],
    ['news', isMixed ? HEADINGS[event][0] : undefined],
    ['about', about && ABOUT[about]],
    ...explain.map((text) => ['because', text] as const),
    ['asked again', because],
    ...(answerable?.warnings ?? []).map((text) => ['note', text] as const),
    ['who', closed ? undefined : who],
    ['until', closed ? undefined : deadline],
    ['closed', closed && closedWords(request)],
    // They are the longest, and what is too long for a channel is cut at its end.
    ['arguments', request.arguments || undefined],
  ];
  return lines.flatMap(([name, value]) => (value === undefined ? [] : [[name, visible(value)] as const]));
}
