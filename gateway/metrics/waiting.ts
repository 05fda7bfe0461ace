/**
 * Follows what visibility shows of open requests: how many wait, for how long and for which groups, and when each
 * closed.
 *
 * 1. No run is asked. The memo of a run lists its first five requests; of further ones only their number is known, and
 *    the first deadline of all.
 * 2. Every way of answering is seen, and with several gateways each of them sees it. Of requests that are not listed at
 *    least as many have closed as the number falls: one that opens in the same second hides one that closes.
 * 3. A request that was open before this gateway looked, or is not listed, is as old as its run has waited.
 */
import { LRUCache } from 'lru-cache';
import type { Known, Projection } from '../projection/projection.ts';

/** Bounds of ages in seconds; what is older than all of them is `more`. */
const BOUNDS = [
  ['5m', 300],
  ['1h', 3_600],
  ['1d', 86_400],
  ['7d', 604_800],
] as const;
export type Age = (typeof BOUNDS)[number][0] | 'more';
export const AGES: readonly Age[] = [...BOUNDS.map(([age]) => age), 'more'];

const UNLISTED = '(unlisted)';
/** What a request may ask for: consent to a call, or else as the memo names it. */
const SUBJECTS = ['consent', 'outcome', 'input', 'authorization', UNLISTED] as const;
export type Subject = (typeof SUBJECTS)[number];

const OTHER_GROUPS = '(other)';
const NO_GROUP = '(people)';
const SOON_MS = 3_600_000;
/** Bound for one run at once: whoever writes to the namespace can write its number. */
const MOST_CLOSED = 1_000;
/** Visibility may write these; anybody may write to a namespace. */
const STATUSES: ReadonlySet<string> = new Set(['completed', 'stopped', 'limited', 'cancelled', 'failed', 'terminated']);

export interface ClosedRequest {
  /** `closed`: answered or withdrawn, or its run ended. */
  readonly result: 'closed' | 'expired';
  readonly seconds: number;
}

export interface Tell {
  closed(request: ClosedRequest): void;
  runEnded(status: string): void;
}

interface Open {
  readonly subject: Subject;
  /** Epoch ms. */
  readonly since: number;
  readonly deadline: number;
}

interface Followed {
  /** By call and subject: a digest is another one when the run continues as new. */
  readonly open: ReadonlyMap<string, Open>;
  readonly unlisted: number;
  readonly waitingSince: number;
  /** The first of all, in epoch ms; infinite if visibility has none. */
  readonly nextDeadline: number;
  readonly groups: readonly string[];
}

export interface Counted {
  readonly byAge: ReadonlyMap<Age, number>;
  readonly byGroup: ReadonlyMap<string, ReadonlyMap<Age, number>>;
  readonly bySubject: ReadonlyMap<Subject, number>;
  /** Requests whose deadlines are not listed count as one, if the first of them is due. */
  readonly dueSoon: number;
}

type Seen = Pick<Known, 'row' | 'memo' | 'approvers'>;

export class WaitingRequests {
  readonly #projection: Pick<Projection, 'run'>;
  readonly #groups: ReadonlySet<string>;
  readonly #tell: Tell;
  readonly #runs = new Map<string, Followed>();
  readonly #startedAt: number;
  /** Runs of which the end has been counted: visibility may show an end again, with what it learns later. */
  readonly #ended = new LRUCache<string, true>({ max: 10_000 });

  /**
   * @param groups become labels by their names; all others together are `(other)`
   * @param startedAt epoch ms; runs that ended before are not counted
   */
  constructor(
    projection: Pick<Projection, 'run'>,
    groups: readonly string[],
    tell: Tell,
    startedAt: number = Date.now(),
  ) {
    this.#projection = projection;
    this.#groups = new Set(groups);
    this.#tell = tell;
    this.#startedAt = startedAt;
  }

  /** Takes a run as visibility shows it now. @param now epoch ms */
  see({ row, memo, approvers }: Seen, now: number): void {
    const before = this.#runs.get(row.runId);
    const waitingSince = row.waitingSince === undefined ? now : Date.parse(row.waitingSince);
    const open = new Map<string, Open>();
    for (const { callId, about: subject = 'consent', deadline } of memo?.requests ?? []) {
      const key = `${callId} ${subject}`;
      const since = before === undefined ? waitingSince : (before.open.get(key)?.since ?? now);
      open.set(key, { subject, since, deadline: Date.parse(deadline) });
    }
    const unlisted = Math.max(0, row.pending - open.size);
    if (before !== undefined) this.#tellClosed(before, open, unlisted, now);
    if (row.endedAt !== undefined && Date.parse(row.endedAt) >= this.#startedAt && !this.#ended.has(row.runId)) {
      this.#ended.set(row.runId, true);
      this.#tell.runEnded(STATUSES.has(row.status) ? row.status : 'other');
    }
    if (row.pending === 0) this.#runs.delete(row.runId);
    else {
      const nextDeadline = row.nextDeadline === undefined ? Infinity : Date.parse(row.nextDeadline);
      this.#runs.set(row.runId, { open, unlisted, waitingSince, nextDeadline, groups: this.#labelsOf(approvers) });
    }
  }

  #tellClosed(before: Followed, open: Followed['open'], unlisted: number, now: number): void {
    const gone = [...before.open].filter(([key]) => !open.has(key)).map(([, request]) => request);
    const fall = Math.max(0, before.open.size + before.unlisted - open.size - unlisted);
    // A list that is cut may leave out what is still open; the number tells then how many have closed.
    const listed = unlisted === 0 ? gone : gone.slice(0, fall);
    const { waitingSince: since, nextDeadline: deadline } = before;
    const length = Math.min(MOST_CLOSED, Math.max(0, fall - listed.length));
    const others = Array.from({ length }, () => ({ since, deadline }));
    for (const each of [...listed, ...others])
      this.#tell.closed({ result: now >= each.deadline ? 'expired' : 'closed', seconds: (now - each.since) / 1_000 });
  }

  #labelsOf(approvers: readonly string[] | undefined): readonly string[] {
    const named = (approvers ?? []).flatMap((name) => (name.startsWith('group:') ? [name.slice(6)] : []));
    if (named.length === 0) return [NO_GROUP];
    return [...new Set(named.map((group) => (this.#groups.has(group) ? group : OTHER_GROUPS)))];
  }

  /** @param now epoch ms */
  counted(now: number): Counted {
    const byAge = new Map<Age, number>();
    const byGroup = new Map([...this.#groups, OTHER_GROUPS, NO_GROUP].map((group) => [group, new Map<Age, number>()]));
    const bySubject = new Map(SUBJECTS.map((subject): [Subject, number] => [subject, 0]));
    let dueSoon = 0;
    const about = (subject: Subject, count: number): void =>
      void bySubject.set(subject, (bySubject.get(subject) ?? 0) + count);
    const add = (groups: readonly string[], since: number, count: number): void => {
      const age = ageOf((now - since) / 1_000);
      for (const counts of [byAge, ...groups.map((group) => byGroup.get(group))])
        counts?.set(age, (counts.get(age) ?? 0) + count);
    };
    for (const [runId, { open, unlisted, waitingSince, nextDeadline, groups }] of this.#runs) {
      if (this.#projection.run(runId) === undefined) {
        this.#runs.delete(runId);
        continue;
      }
      const due = [...open.values()].filter(({ deadline }) => deadline - now <= SOON_MS).length;
      for (const { subject, since } of open.values()) {
        add(groups, since, 1);
        about(subject, 1);
      }
      if (unlisted > 0) add(groups, waitingSince, unlisted);
      about(UNLISTED, unlisted);
      dueSoon += due === 0 && unlisted > 0 && nextDeadline - now <= SOON_MS ? 1 : due;
    }
    return { byAge, byGroup, bySubject, dueSoon };
  }
}

function ageOf(seconds: number): Age {
  return BOUNDS.find(([, most]) => seconds < most)?.[0] ?? 'more';
}
