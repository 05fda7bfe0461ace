// A query that its worker rebuilt a run for must not leave that run in memory, and nothing else may ever be refused
// (INV-D1).
import fc from 'fast-check';
import { expect, test } from '@jest/globals';
import {
  type Activation,
  type Intake,
  isRefused,
  NOTHING,
  taken,
} from '../../../../workflows/interceptors/query-guard.ts';
import { forMany } from '../../../support/for-all.ts';

const DIRECT: Activation = { kind: 'direct' };
const ACCOMPANIED: Activation = { kind: 'accompanied' };

function replayed(task: string): Activation {
  return { kind: 'replayed', task };
}

function live(task: string, event: number, over: Partial<Extract<Activation, { kind: 'live' }>> = {}): Activation {
  return { kind: 'live', task, event, startedAt: 10_000, isCancelled: false, ageMs: 5, ...over };
}

/** Which of these is refused: its place, or none. */
function refusedAt(...activations: Activation[]): number | undefined {
  let intake: Intake = NOTHING;
  for (const [at, activation] of activations.entries()) {
    if (isRefused(intake, activation)) return at;
    intake = taken(intake, activation);
  }
  return undefined;
}

function asked(askedAt: number): Activation {
  return { kind: 'direct', askedAt };
}

const cancelling = live('a', 9, { isCancelled: true });
const caughtUp = [live('a', 3), DIRECT, replayed('b'), live('c', 20), DIRECT];
const overdue = [live('a', 3, { ageMs: -700 }), live('b', 9, { ageMs: 1_400 }), DIRECT];

test.each<[string, number, readonly Activation[]]>([
  [
    'for which the run was rebuilt up to events that nobody had answered',
    3,
    [replayed('a'), replayed('b'), live('b', 12), DIRECT],
  ],
  ['for which it was so without a task, or of a task started elsewhere', 2, [replayed('a'), live('b', 12), DIRECT]],
  ['for which a run in memory caught up with tasks of other workers first', 4, caughtUp],
  [
    'of a run only rebuilt to be asked, whose tasks go to another worker',
    3,
    [replayed('a'), DIRECT, live('b', 20), DIRECT],
  ],
  ['for which a run in memory took in events without a task', 2, [live('a', 3), live('a', 9), DIRECT]],
  ['for which that was a cancellation', 2, [live('a', 3), cancelling, DIRECT]],
  ['behind a task that is long overdue: another process may have held it until now', 2, overdue],
  [
    'that was asked more than a second before the task had started, which may be held elsewhere',
    2,
    [live('a', 3), asked(9_000), asked(8_999)],
  ],
  [
    'behind such a task in a worker under load, which got nothing of the run in time',
    3,
    [replayed('a'), live('b', 9, { ageMs: 8_000 }), live('c', 15, { ageMs: 6_000 }), DIRECT],
  ],
])('refused is a direct query %s', (_what, place, activations) => {
  expect(refusedAt(...activations)).toBe(place);
});

test('refused is whoever asks such a run again, until it is dropped', () => {
  const doubtful = [replayed('a'), live('b', 12)].reduce<Intake>(taken, NOTHING);
  expect(isRefused(taken(doubtful, DIRECT), DIRECT)).toBe(true);
});

const [farBehind, behind, ahead] = [60_000, 400, -60_000].map((ageMs) => [
  live('a', 3, { ageMs }),
  live('b', 9, { ageMs: ageMs + 1_000 }),
  DIRECT,
]);

test("refused is a direct query where the server's clock is far behind; the run is rebuilt for the next one, which is answered", () => {
  expect(refusedAt(...(farBehind ?? []))).toBe(2);
  expect(refusedAt(replayed('a'), replayed('b'), DIRECT)).toBeUndefined();
});

const cancelled = [live('a', 3), live('b', 9), live('b', 9, { isCancelled: true }), DIRECT];
const oneTime = [live('5/0/100', 3), live('5/0/180', 9), DIRECT, live('5/0/260', 15), DIRECT];

test.each<[string, readonly Activation[] | undefined]>([
  ['behind the first task, and behind each that comes in turn', [live('a', 3), DIRECT, live('b', 9), DIRECT, DIRECT]],
  ['for which a run was rebuilt that has nothing new', [replayed('a'), replayed('b'), DIRECT, DIRECT]],
  ['behind a task in which the run cancelled an activity, told of it at once', cancelled],
  ['that was asked later than a second before the task had started', [live('a', 3), asked(9_000), asked(10_001)]],
  ['that waited for a task with queries of its own', [live('a', 3), ACCOMPANIED, asked(8_999)]],
  ['that waited for a run which was then rebuilt', [live('a', 3), asked(10_001), replayed('b'), asked(8_999)]],
  ['behind a rebuilding task that brought queries', [replayed('a'), live('b', 12), ACCOMPANIED, DIRECT]],
  ['behind a rebuilding task that another task has followed', [replayed('a'), live('b', 12), live('c', 20), DIRECT]],
  ["where the server's clock is somewhat behind, and a slow task is the first", behind],
  ["where the server's clock is ahead", ahead],
  ["while the server's clock is behind: tasks have one time then, not one size", oneTime],
])('answered is a direct query %s', (_what, activations = []) => {
  expect(refusedAt(...activations)).toBeUndefined();
});

/** A run as Temporal and several workers have it; `given` is what one worker's memory of it is handed. */
class Model {
  readonly given: { readonly activation: Activation; readonly isUnsound: boolean }[] = [];
  #tasks = 0;
  #event = 0;
  /** Tasks that this memory holds, and the newest event it holds. */
  #held = -1;

  /** A workflow task for this worker; it rebuilds or catches up where it must. */
  task(withQuery: boolean): void {
    this.#happens(3);
    this.#catchUp();
    this.#tasks += 1;
    this.#hand(live(this.#clock, this.#event));
    if (withQuery) this.#hand(ACCOMPANIED);
    this.#held = this.#tasks;
  }

  /** The run cancels something in the task that it is in. */
  cancels(): void {
    const last = this.given.at(-1)?.activation;
    if (last?.kind === 'live' && !last.isCancelled) this.#hand({ ...last, isCancelled: true });
  }

  taskElsewhere(): void {
    this.#happens(3);
    this.#tasks += 1;
  }

  /** @param news what stands in history behind the newest answered task @returns whether memory is spoilt by it */
  query(news: 'none' | 'events' | 'started'): boolean {
    const wasCurrent = this.#held === this.#tasks;
    this.#catchUp();
    if (news === 'none') {
      this.#hand(DIRECT);
      return false;
    }
    // A task that was started elsewhere and reached a run that lacked nothing shows only by its age.
    this.#happens(2);
    const clock = news === 'events' ? this.#clock : `${this.#clock}+`;
    this.#hand(live(clock, this.#event, { ageMs: wasCurrent && news === 'started' ? 5_000 : 5 }));
    this.given.push({ activation: DIRECT, isUnsound: true });
    return true;
  }

  dropped(): void {
    this.given.length = 0;
    this.#held = -1;
  }

  get #clock(): string {
    return `task ${this.#tasks}`;
  }

  #happens(events: number): void {
    this.#event += events;
  }

  #catchUp(): void {
    if (this.#held === this.#tasks) return;
    for (let task = Math.max(this.#held, 0) + 1; task <= this.#tasks; task += 1) this.#hand(replayed(`task ${task}`));
    this.#held = this.#tasks;
  }

  #hand(activation: Activation): void {
    this.given.push({ activation, isUnsound: false });
  }
}

const step = fc.oneof(
  fc.record({ do: fc.constant('task' as const), withQuery: fc.boolean() }),
  fc.record({ do: fc.constant('elsewhere' as const) }),
  fc.record({ do: fc.constant('cancels' as const) }),
  fc.record({ do: fc.constant('dropped' as const) }),
  fc.record({ do: fc.constant('query' as const), news: fc.constantFrom('none', 'events', 'started') }),
);

test('whatever comes: each query that spoilt a run is refused, nothing but direct queries ever is, and one that is asked again is answered', () => {
  forMany({ numRuns: 500 }, fc.array(step, { maxLength: 40 }), (steps) => {
    const model = new Model();
    model.task(false);
    for (const each of steps) {
      if (each.do === 'task') model.task(each.withQuery);
      else if (each.do === 'elsewhere') model.taskElsewhere();
      else if (each.do === 'cancels') model.cancels();
      else if (each.do === 'dropped') model.dropped();
      else model.query(each.news);
      let intake: Intake = NOTHING;
      let refused = false;
      for (const { activation, isUnsound } of model.given) {
        const is = isRefused(intake, activation);
        if (is) expect(activation.kind).toBe('direct');
        if (isUnsound) expect(is).toBe(true);
        refused ||= is;
        intake = taken(intake, activation);
      }
      if (!refused) continue;
      // Dropped, and asked again: with nothing new it is answered now.
      model.dropped();
      model.query('none');
      expect(refusedAt(...model.given.map(({ activation }) => activation))).toBeUndefined();
    }
  });
});
