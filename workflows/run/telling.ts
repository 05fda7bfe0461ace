/**
 * Tells people of the run's requests: one activity for each message, and none is waited for.
 *
 * 1. A run whose policy tells nobody schedules nothing, sets no timer, and has no marker.
 * 2. A channel that fails holds nothing up but the end of the run, and that for seconds.
 * 3. A message has one key, whatever happens to workers and executions: the next execution sends it again with it.
 */
import { CancellationScope, CancelledFailure, isCancellation, sleep } from '@temporalio/workflow';
import { defined } from '../../contracts/defined.ts';
import { codedFailureIn } from '../../contracts/failure.ts';
import type { MessagesState } from '../../contracts/schemas/run-state.ts';
import type {
  CarriedMessages,
  FailedMessage,
  MessageInput,
  MessageSent,
  PreparedNotify,
  UnsentMessage,
} from '../../contracts/wire/notify.ts';
import { follow, messagesOf, nextWarning, type Open, type Told, withoutPassing } from '../../domain/request/telling.ts';
import { answered, assertFailure } from '../entity/unread.ts';
import { messageActivities } from './activities.ts';
import type { LiveRun } from './live-run.ts';
import { condition } from '../interceptors/condition.ts';
import type { Unread } from '../interceptors/zone.ts';

/** Time after which nobody wants a message any more; it counts on when a run continues as new. */
const HOUR_MS = 3_600_000;
/** Messages that wait for their channels at a time. A channel that is down for long has the oldest ones given up. */
const MOST_UNDER_WAY = 50;
const MOST_FAILURES = 10;
/** Time for which the end of a run waits for messages under way. A healthy channel takes less than a second. */
const END_WAIT_MS = 10_000;

interface UnderWay {
  readonly input: UnsentMessage;
  done: Promise<void> | undefined;
  /** Set once a worker may have the message. */
  scope: CancellationScope | undefined;
}

export class Messenger {
  readonly #live: LiveRun;
  #open: Open;
  #queue: readonly Told[] = [];
  /** Gathered by channels with a digest. */
  readonly #gathered = new Map<string, readonly Told[]>();
  #isScheduled = false;
  readonly #underWay = new Map<string, UnderWay>();
  /** `CHANNEL CALL` → what the channel calls the message about the call's request. */
  readonly #threads: Map<string, string>;
  #unsent: readonly UnsentMessage[];
  #sent: number;
  #failed: number;
  #failures: readonly FailedMessage[];
  #warning: { readonly at: number; readonly scope: CancellationScope } | undefined;

  constructor(live: LiveRun, carried: CarriedMessages | undefined) {
    this.#live = live;
    this.#open = carried?.open ?? {};
    this.#unsent = carried?.unsent ?? [];
    this.#threads = new Map(Object.entries(carried?.threads ?? {}));
    this.#sent = carried?.sent ?? 0;
    this.#failed = carried?.failed ?? 0;
    this.#failures = carried?.failures ?? [];
    live.telling = this;
    live.showWith(() => this.#look());
    this.#look();
  }

  /** Undefined if policy tells nobody. */
  state(): MessagesState | undefined {
    if (this.#notify === undefined) return undefined;
    const underWay = [...this.#underWay.values()].map(({ input }) => ({
      ...shownAs(input),
      since: new Date(input.since).toISOString(),
    }));
    return { sent: this.#sent, underWay, failed: this.#failed, failures: [...this.#failures] };
  }

  carried(): CarriedMessages | undefined {
    if (this.#notify === undefined) return undefined;
    const gathered = [...this.#gathered].flatMap(([channel, told]) =>
      this.#messagesOf([...told, ...this.#queue], (each) => each === channel),
    );
    const queued = this.#messagesOf(this.#queue, (channel) => !this.#gathered.has(channel));
    const underWay = [...this.#underWay.values()].flatMap(({ input, scope }) =>
      scope === undefined ? (this.#stillNews(input) ?? []) : [{ ...input, again: true as const }],
    );
    const unsent = [...this.#unsent, ...underWay, ...gathered, ...queued];
    // A thread is of use for as long as something can follow.
    const places = new Set(unsent.flatMap((input) => callsOf(input).map((callId) => `${input.channel} ${callId}`)));
    const threads = [...this.#threads].filter(
      ([place]) => places.has(place) || this.#open[place.slice(place.indexOf(' ') + 1)] !== undefined,
    );
    return {
      open: this.#open,
      unsent,
      ...(threads.length === 0 ? {} : { threads: Object.fromEntries(threads) }),
      sent: this.#sent,
      failed: this.#failed,
      failures: this.#failures,
    };
  }

  /** Sends what is left to tell, and returns true if anything is under way. */
  hurries(): boolean {
    this.#disarm();
    this.#flush();
    for (const channel of this.#gathered.keys()) this.#release(channel);
    return this.#underWay.size > 0;
  }

  /** Waits for messages under way, but not for a channel that fails: Temporal drops what outlives its run. */
  async settled(): Promise<void> {
    await condition(() => this.#underWay.size === 0, END_WAIT_MS, { summary: 'messages to people' });
  }

  get #notify(): PreparedNotify | undefined {
    return this.#live.isPrepared ? this.#live.prepared.notify : undefined;
  }

  #look(): void {
    const notify = this.#notify;
    if (notify === undefined) return;
    const { open, told } = follow(this.#open, this.#live.run, notify, Date.now());
    this.#open = open;
    const warnAt = nextWarning(open, this.#live.run, notify);
    this.#queue = [...this.#queue, ...told];
    this.#warnAt(warnAt);
    if (!this.#isScheduled && (this.#queue.length > 0 || this.#unsent.length > 0)) {
      this.#isScheduled = true;
      // All of one task is told in one message. A promise is cheap, and a waiting `condition` is not.
      void Promise.resolve().then(() => this.#flush());
    }
  }

  #warnAt(at: number | undefined): void {
    if (at === this.#warning?.at) return;
    this.#disarm();
    if (at === undefined) return;
    // Whatever this happens to be called from may be cancelled, and the run go on all the same.
    void CancellationScope.nonCancellable(async () => {
      const scope = new CancellationScope();
      this.#warning = { at, scope };
      const summary = 'a deadline comes near';
      try {
        await scope.run(async () => await sleep(Math.max(1, at - Date.now()), { summary }));
      } catch (error) {
        if (!isCancellation(error)) throw error;
        return;
      }
      this.#warning = undefined;
      this.#look();
    });
  }

  #disarm(): void {
    this.#warning?.scope.cancel();
    this.#warning = undefined;
  }

  #flush(): void {
    this.#isScheduled = false;
    const notify = this.#notify;
    if (notify === undefined) return;
    for (const input of this.#unsent) this.#send(input);
    this.#unsent = [];
    const told = this.#queue;
    this.#queue = [];
    const { gather = {} } = notify;
    for (const input of this.#messagesOf(told, (channel) => gather[channel] === undefined)) this.#send(input);
    for (const [channel, seconds] of Object.entries(gather))
      if (this.#messagesOf(told, (each) => each === channel).length > 0) this.#gather(channel, seconds, told);
  }

  #gather(channel: string, seconds: number, told: readonly Told[]): void {
    const before = this.#gathered.get(channel);
    this.#gathered.set(channel, [...(before ?? []), ...told]);
    if (before !== undefined) return;
    const summary = `gathers messages for ${channel}`;
    void CancellationScope.nonCancellable(async () => {
      await sleep(seconds * 1_000, { summary });
      this.#release(channel);
    });
  }

  #release(channel: string): void {
    const told = this.#gathered.get(channel) ?? [];
    this.#gathered.delete(channel);
    for (const input of this.#messagesOf(told, (each) => each === channel)) this.#send(input);
  }

  #messagesOf(told: readonly Told[], wanted: (channel: string) => boolean): readonly UnsentMessage[] {
    const notify = this.#notify;
    if (notify === undefined) return [];
    const since = Date.now();
    const current = withoutPassing(told, this.#open);
    return messagesOf(current, notify, this.#live, wanted).map((input) => ({ ...input, since }));
  }

  #send(input: UnsentMessage): void {
    const [oldest] = this.#underWay.values();
    if (oldest !== undefined && this.#underWay.size >= MOST_UNDER_WAY) this.#giveUp(oldest);
    // A message follows those about the same requests: the news that one is closed comes last.
    const calls = new Set(callsOf(input));
    const before = [...this.#underWay.values()].filter(
      (other) => other.input.channel === input.channel && callsOf(other.input).some((callId) => calls.has(callId)),
    );
    const entry: UnderWay = { input, done: undefined, scope: undefined };
    this.#underWay.set(input.key, entry);
    entry.done = before.length === 0 ? this.#deliver(entry) : this.#deliverAfter(before, entry);
  }

  #giveUp(entry: UnderWay): void {
    this.#underWay.delete(entry.input.key);
    this.#fail(entry.input, undefined);
    entry.scope?.cancel();
  }

  async #deliverAfter(before: readonly UnderWay[], entry: UnderWay): Promise<void> {
    await Promise.all(before.map(async ({ done }) => await done));
    await this.#deliver(entry);
  }

  /** Never throws, but for what fails the workflow task. */
  async #deliver(entry: UnderWay): Promise<void> {
    const { key } = entry.input;
    const isUnderWay = (): boolean => this.#underWay.get(key) === entry;
    const input = this.#stillNews(entry.input);
    try {
      if (input === undefined || !isUnderWay()) return;
      const sent = answered(this.#live, 'sendMessage', await this.#sending(entry, input));
      this.#sent += 1;
      this.#note(input, sent.thread);
    } catch (error) {
      assertFailure(error);
      if (isUnderWay()) this.#fail(entry.input, error);
    } finally {
      if (isUnderWay()) this.#underWay.delete(key);
    }
  }

  /** Leaves out requests that have closed while the message waited for another. */
  #stillNews(input: UnsentMessage): UnsentMessage | undefined {
    if (input.event === 'closed') return input;
    const requests = input.requests.filter(({ callId, generation }) => this.#open[callId]?.generation === generation);
    return requests.length === 0 ? undefined : { ...input, requests };
  }

  async #sending(entry: UnderWay, { since, ...input }: UnsentMessage): Promise<Unread<MessageSent>> {
    const { channel, event } = input;
    const calls = callsOf(input);
    const left = since + HOUR_MS - Date.now();
    if (left <= 0) throw new CancelledFailure('an hour is over');
    const summary = `tells ${channel}: ${event} ${calls.slice(0, 5).join(' ')}`;
    const { sendMessage } = messageActivities(summary, left, this.#live.prepared.priority);
    const thread = calls.map((callId) => this.#threads.get(`${channel} ${callId}`)).find((each) => each !== undefined);
    return await CancellationScope.nonCancellable(async () => {
      entry.scope = new CancellationScope();
      return await entry.scope.run(async () => await sendMessage({ ...input, ...defined({ thread }) }));
    });
  }

  /** Keeps what the channel calls the message for as long as the request is open. */
  #note({ channel, event, requests }: MessageInput, thread: string | undefined): void {
    for (const { callId } of requests) {
      const place = `${channel} ${callId}`;
      if (event === 'closed') this.#threads.delete(place);
      else if (thread !== undefined && !this.#threads.has(place)) this.#threads.set(place, thread);
    }
  }

  #fail(input: MessageInput, error: unknown): void {
    const found = codedFailureIn(error);
    const code = found?.code ?? 'MESSAGE_UNDELIVERED';
    const message = found?.message ?? 'The message was not sent in time, or no worker could send it.';
    const failure = { ...shownAs(input), code, message, at: new Date().toISOString() };
    this.#failed += 1;
    this.#failures = [...this.#failures, failure].slice(-MOST_FAILURES);
  }
}

function shownAs(input: MessageInput): Pick<MessageInput, 'channel' | 'event'> & { readonly calls: string[] } {
  return { channel: input.channel, event: input.event, calls: callsOf(input) };
}

function callsOf({ requests }: MessageInput): string[] {
  return requests.map(({ callId }) => callId);
}
