// A query that its worker rebuilt a run for must not leave that run in memory, and nothing sound may ever be refused (INV-D1).
import fc from 'fast-check';
import { expect, test } from '@jest/globals';
import {
  type Activation,
  type Intake,
  isRefused,
  isUnrecorded,
  NOTHING,
  taken,
} from '../../../../domain/history/query-guard.ts';

const DIRECT: Activation = { kind: 'direct' };
const ACCOMPANIED: Activation = { kind: 'accompanied' };

function replayed(task: string): Activation {
  return { kind: 'replayed', task };
}

function live(task: string, event: number, over: Partial<Extract<Activation, { kind: 'live' }>> = {}): Activation {
  return { kind: 'live', task, event, isCancelled: false, ageMs: 5, ...over };
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
])('refused is a direct query %s', (_what, place, activations) => {
  expect(refusedAt(...activations)).toBe(place);
});

test('refused is whoever asks such a run again, until it is dropped', () => {
  const doubtful = [replayed('a'), live('b', 12)].reduce<Intake>(taken, NOTHING);
  expect(isRefused(taken(doubtful, DIRECT), DIRECT)).toBe(true);
});

const [slow, early] = [60_000, -60_000].map((ageMs) => [
  live('a', 3, { ageMs }),
  live('b', 9, { ageMs: ageMs + 1_000 }),
  DIRECT,
]);
const cancelled = [live('a', 3), live('b', 9), live('b', 9, { isCancelled: true }), DIRECT];
const oneTime = [live('5/0/100', 3), live('5/0/180', 9), DIRECT, live('5/0/260', 15), DIRECT];

test.each<[string, readonly Activation[] | undefined]>([
  ['behind the first task, and behind each that comes in turn', [live('a', 3), DIRECT, live('b', 9), DIRECT, DIRECT]],
  ['for which a run was rebuilt that has nothing new', [replayed('a'), replayed('b'), DIRECT, DIRECT]],
  ['behind a task in which the run cancelled an activity, told of it at once', cancelled],
  ['behind a rebuilding task that brought queries', [replayed('a'), live('b', 12), ACCOMPANIED, DIRECT]],
  ['behind a rebuilding task that another task has followed', [replayed('a'), live('b', 12), live('c', 20), DIRECT]],
  ["where the server's clock is behind, and a slow task is the first", slow],
  ["where the server's clock is ahead", early],
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
  fc.assert(
    fc.property(fc.array(step, { maxLength: 40 }), (steps) => {
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
    }),
    { numRuns: 500 },
  );
});

/** @param others commands that leave one event each */
function commanded(others: number, begun: readonly string[] = [], back: readonly string[] = []): Activation {
  return { kind: 'commanded', begun, cancelled: back, others };
}

/** Whether the last of these is a task that must not be done. */
function endsRefused(...activations: Activation[]): boolean {
  // Sound: at least one is given.
  const last = activations.at(-1) as Activation;
  return isUnrecorded(activations.slice(0, -1).reduce<Intake>(taken, NOTHING), last);
}

test.each<[string, readonly Activation[]]>([
  // 10: timed out, 11: scheduled, 12: started.
  ['the task that a query brought timed out elsewhere', [live('b', 9), commanded(3), DIRECT, live('c', 12)]],
  ['two events came meanwhile', [live('b', 9), commanded(3), DIRECT, live('c', 14)]],
  [
    'the task cancelled something in a second unit',
    [live('b', 9), commanded(1), live('b', 9, { isCancelled: true }), commanded(2), DIRECT, live('c', 13)],
  ],
  ['the task went on in a second unit', [live('b', 9), commanded(1), live('b', 9), commanded(2), live('c', 13)]],
  ['it began one thing, and took back an older one', [live('b', 9), commanded(0, ['t2'], ['t1']), live('c', 12)]],
])('a task is refused where history has too few events for the one before: %s', (_what, activations) => {
  expect(endsRefused(...activations)).toBe(true);
});

test.each<[string, readonly Activation[]]>([
  // 10: completed, 11 to 13: what it asked for, 14: scheduled, 15: started.
  ['behind a task that was recorded', [live('b', 9), commanded(3), DIRECT, live('c', 15)]],
  ['behind one that brought a refused update and left nothing', [live('b', 9), commanded(0), live('c', 9)]],
  ['behind such a one, with an event', [live('b', 9), commanded(0), live('c', 10)]],
  [
    'behind a task that took back what it had begun in an earlier unit',
    [live('b', 9), commanded(1, ['t1']), live('b', 9, { isCancelled: true }), commanded(0, [], ['t1']), live('c', 13)],
  ],
  ['behind one that took back what had just ended', [live('b', 9), commanded(1, [], ['t1']), live('c', 13)]],
  ['that other workers had tasks before', [live('b', 9), commanded(3), replayed('c'), commanded(5), live('d', 18)]],
  ['behind a task that is done in a second unit', [live('b', 9), commanded(1), live('b', 9, { isCancelled: true })]],
  ['in a second unit at another time', [live('5/0/100', 12), commanded(1), live('6/0/100', 12)]],
  [
    'behind two tasks of one time and size',
    [live('5/0/100', 12), commanded(2), live('5/0/100', 18), commanded(1), live('5/0/300', 22)],
  ],
  [
    'behind a task of the time and size of a replayed one',
    [replayed('a'), commanded(9), live('a', 20), commanded(1), live('b', 24)],
  ],
  ['that is the first of a run', [live('a', 3)]],
  ['behind what was replayed', [replayed('a'), commanded(9), live('b', 4)]],
])('a task is done %s', (_what, activations) => {
  expect(endsRefused(...activations)).toBe(false);
});

/** What comes between two tasks: events from outside, and what the first one asked for, in two units. */
const between = fc.record({
  asked: fc.nat(6),
  begun: fc.nat(3),
  takenBack: fc.nat(3),
  came: fc.nat(6),
  isOwn: fc.boolean(),
  brought: fc.nat(2),
  hasTimeOfLast: fc.boolean(),
});

test('no task of a run is refused whose tasks were all recorded; one is where less came than was asked for in a lost task', () => {
  fc.assert(
    fc.property(fc.array(between, { maxLength: 20 }), fc.nat(6), fc.nat(6), (steps, lost, came) => {
      let event = 3;
      let task = 'first';
      let intake: Intake = taken(NOTHING, live(task, event));
      for (const [index, { asked, begun, takenBack, came: news, isOwn, brought, hasTimeOfLast }] of steps.entries()) {
        const names = Array.from({ length: begun }, (_, each) => `${index}.${each}`);
        intake = taken(intake, commanded(asked, names));
        const second = live(task, event, { isCancelled: true });
        expect(isUnrecorded(intake, second)).toBe(false);
        intake = taken(taken(intake, second), commanded(0, [], names.slice(0, takenBack)));
        // An answer to a message leaves events that are not counted.
        event += 1 + asked + Math.max(0, begun - takenBack) + brought + news + 2;
        if (!hasTimeOfLast) task = `task ${index}`;
        const next = live(task, event);
        if (isOwn) expect(isUnrecorded(intake, next)).toBe(false);
        intake = taken(intake, isOwn ? next : replayed(task));
      }
      // A query brings a task that another process holds, which then times out.
      intake = taken(taken(intake, live('lost', event + 3)), commanded(lost));
      expect(isUnrecorded(intake, live('next', event + 3 + came + 3))).toBe(came < lost);
    }),
    { numRuns: 500 },
  );
});
