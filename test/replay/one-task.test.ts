/**
 * Two things that a run hears of in one workflow task: the order in which it acts on them is recorded, and one promise
 * more or less changes it. No recording can be made to have both at once, so the end of a recorded one is told
 * otherwise here.
 */
import { readFile } from 'node:fs/promises';
import { beforeAll, expect, jest, test } from '@jest/globals';
import { historyFromJSON } from '@temporalio/common/lib/proto-utils.js';
import type { WorkflowBundle } from '../../workers/bundle.ts';
import { bundleForReading } from '../../workers/replay/replayed-run.ts';
import { CommandLog } from '../../workers/replay/semantics.ts';
import { replayHistories } from '../../workers/replay/replay.ts';
import { sharedBundle } from '../support/shared-bundle.ts';
import { CONFIG, placeOf } from './corpus.ts';
import { fileOf } from './recording/recording.ts';
import { replaced } from './change.ts';
import { bundleMutant } from './mutant.ts';

jest.setTimeout(120_000);

interface Attributes {
  [field: string]: unknown;
}
/** As `historyToJSON` writes it. */
interface Event {
  readonly eventId: string;
  readonly eventType: string;
  readonly [attributes: string]: unknown;
}

/** A run that calls two tools in its second turn; the first is answered by what somebody had remembered. */
const RECORDED = 'agent-run.standing';
/** Of the recording: the answer of the model, and the workflow task that acts on it. */
const MODEL = 43;
const ACTS = 46;
const NOT_SENT = { kind: 'not-sent', code: 'TOOL_UNAVAILABLE', message: 'The server cannot be reached.' };

let events: readonly Event[];
let bundle: WorkflowBundle;

beforeAll(async () => {
  // Sound: a file of the corpus.
  ({ events } = JSON.parse(await readFile(fileOf(placeOf(RECORDED)), 'utf8')) as { events: Event[] });
  bundle = await sharedBundle(bundleForReading);
});

/** Events behind the first ones of the recording, in its words. */
class Story {
  readonly events: Event[];

  constructor(first: readonly Event[]) {
    this.events = [...first];
  }

  activity(activityId: number): number {
    return this.#add('ACTIVITY_TASK_SCHEDULED', {
      activityId: String(activityId),
      workflowTaskCompletedEventId: this.#last,
    });
  }

  answer(scheduled: number, result: object): void {
    const scheduledEventId = String(scheduled);
    const startedEventId = String(this.#add('ACTIVITY_TASK_STARTED', { scheduledEventId }));
    this.#add('ACTIVITY_TASK_COMPLETED', { scheduledEventId, startedEventId, result: { payloads: [payload(result)] } });
  }

  timer(timerId: number): number {
    const fields = { timerId: String(timerId), startToFireTimeout: '1s', workflowTaskCompletedEventId: this.#last };
    return this.#add('TIMER_STARTED', fields);
  }

  fires(timerId: number, started: number): void {
    const { eventTime, taskId } = this.#like('TIMER_STARTED');
    const fired = { timerId: String(timerId), startedEventId: String(started) };
    this.#push({ eventTime, taskId, eventType: 'EVENT_TYPE_TIMER_FIRED', timerFiredEventAttributes: fired });
  }

  /** @param isOpen it is under way */
  task(isOpen = false): void {
    const scheduledEventId = String(this.#add('WORKFLOW_TASK_SCHEDULED', {}));
    const startedEventId = String(this.#add('WORKFLOW_TASK_STARTED', { scheduledEventId }));
    if (isOpen) return;
    this.#last = String(this.#add('WORKFLOW_TASK_COMPLETED', { scheduledEventId, startedEventId }));
  }

  #last = String(ACTS);

  /** The last of its kind: of activities that is a call. */
  #like(type: string): Event {
    const like = events.findLast(({ eventType }) => eventType === `EVENT_TYPE_${type}`);
    if (like === undefined) throw new Error(`${RECORDED} has no ${type}`);
    return structuredClone(like);
  }

  #add(type: string, fields: Attributes): number {
    const like = this.#like(type);
    const [name = ''] = Object.keys(like).filter((key) => key.endsWith('Attributes'));
    // Sound: the attributes of an event are fields.
    return this.#push({ ...like, [name]: { ...(like[name] as Attributes), ...fields } });
  }

  #push(event: Omit<Event, 'eventId'>): number {
    const eventId = this.events.length + 1;
    // Sound: an event and its id.
    this.events.push({ ...event, eventId: String(eventId) } as Event);
    return eventId;
  }
}

function payload(value: unknown): object {
  const base64 = (text: string): string => Buffer.from(text).toString('base64');
  return { metadata: { encoding: base64('json/plain') }, data: base64(JSON.stringify(value)) };
}

/** The recording up to its second turn, whose second call nobody is asked about. */
function secondTurn(): Story {
  const first = structuredClone(events.slice(0, ACTS));
  // Sound: what a model step answers, as recorded.
  const answer = first[MODEL - 1]?.['activityTaskCompletedEventAttributes'] as
    | { result: { payloads: { data: string }[] } }
    | undefined;
  const said = answer?.result.payloads[0];
  if (said === undefined) throw new Error('the model said nothing');
  const step = JSON.parse(Buffer.from(said.data, 'base64').toString()) as {
    judged: { judgements: { verdict: object }[] };
  };
  const [, second] = step.judged.judgements;
  if (second === undefined) throw new Error('the model called one tool');
  second.verdict = { kind: 'allow', rules: ['organisation/servers/notes/default'] };
  Object.assign(said, payload(step));
  return new Story(first);
}

async function failureOf(told: Story, using: WorkflowBundle): Promise<string | undefined> {
  const history = historyFromJSON({ events: told.events });
  const workflowId = history.events?.[0]?.workflowExecutionStartedEventAttributes?.workflowId ?? '';
  const options = { bundle: using, config: CONFIG, sinks: new CommandLog().sinks };
  for await (const { error } of replayHistories([{ kind: 'history', name: 'told', workflowId, history }], options))
    return error?.message;
  throw new Error('nothing was replayed');
}

/** One call is sent again, and the other has come back unsent: each as the release does it, in this order. */
function bothAtOnce(): Story {
  const story = secondTurn();
  const one = story.activity(6);
  const other = story.activity(7);
  story.answer(one, NOT_SENT);
  story.task();
  const again = story.timer(3);
  story.fires(3, again);
  story.answer(other, NOT_SENT);
  story.task();
  story.activity(8);
  story.timer(4);
  story.task(true);
  return story;
}

test('a call that is sent again goes before the wait of one that came back in the same task (INV-D1)', async () => {
  expect(await failureOf(bothAtOnce(), bundle)).toBeUndefined();
});

test('one promise more between an answer and what follows from it is noticed (INV-D1)', async () => {
  const later = await bundleMutant(
    replaced(
      'dispatch',
      'if ($again === undefined) $conclude; else await $again;',
      'if ($again === undefined) $conclude; else await (async () => await $again)();',
    ),
  );
  expect(await failureOf(bothAtOnce(), later)).toMatch(/TMPRL1100/);
});
