/**
 * A run that is handed messages to send, and whose first task here was that of a build without messages: its history has
 * no marker, and must go on to have none of their commands (INV-D1). No build of today records such a run, so all of
 * messages is taken out of a recorded one.
 */
import { readFile } from 'node:fs/promises';
import { join } from 'node:path';
import { expect, jest, test } from '@jest/globals';
import { historyFromJSON } from '@temporalio/common/lib/proto-utils.js';
import { type Fields, isFields } from '../../domain/shapes/inputs.ts';
import { CommandLog } from '../../workers/replay/semantics.ts';
import { replayHistories } from '../../workers/replay/replay.ts';
import { sharedBundle } from '../support/shared-bundle.ts';
import { replaced } from './change.ts';
import { CONFIG, fileOf, FOLDER } from './corpus.ts';
import { bundleMutant } from './mutant.ts';

jest.setTimeout(120_000);

const RECORDED = 'agent-run.v5.told-continued-sent';

async function failuresOf(bundle: Awaited<ReturnType<typeof bundleMutant>>): Promise<string[]> {
  // Sound: a file of the corpus.
  const { events } = JSON.parse(await readFile(join(FOLDER, fileOf(RECORDED)), 'utf8')) as { events: Fields[] };
  const history = historyFromJSON({ events: withoutMessages(events) });
  // That a request is closed is news at the end of a run, too.
  for (const payload of history.events?.[0]?.workflowExecutionStartedEventAttributes?.input?.payloads ?? [])
    payload.data = Buffer.from(
      Buffer.from(payload.data ?? [])
        .toString()
        .replaceAll('"event":"opened"', '"event":"closed"'),
    );
  const workflowId = history.events?.[0]?.workflowExecutionStartedEventAttributes?.workflowId ?? '';
  const failures: string[] = [];
  const recorded = (async function* () {
    yield { kind: 'history' as const, name: RECORDED, workflowId, history };
  })();
  for await (const { error } of replayHistories(recorded, { bundle, config: CONFIG, sinks: new CommandLog().sinks }))
    if (error !== undefined) failures.push(error.message);
  return failures;
}

/** Takes out the marker with its search attribute, the timer of the warning, and each message; numbers the rest anew. */
function withoutMessages(events: readonly Fields[]): readonly Fields[] {
  const firstTimer = events.find(({ eventType }) => eventType === 'EVENT_TYPE_TIMER_STARTED');
  const marker = events.findIndex(({ eventType }) => eventType === 'EVENT_TYPE_MARKER_RECORDED');
  const taken = new Set([events[marker], events[marker + 1], firstTimer].map((event) => event?.['eventId']));
  for (const event of events) {
    const { activityType, scheduledEventId, startedEventId } = attributesOf(event);
    const isMessage = isFields(activityType) && activityType['name'] === 'sendMessage';
    if (isMessage || taken.has(scheduledEventId) || taken.has(startedEventId)) taken.add(event['eventId']);
  }
  const kept = events.filter(({ eventId }) => !taken.has(eventId));
  const numbers = new Map(kept.map(({ eventId }, index) => [eventId, String(index + 1)]));
  const renumbered = (field: 'activityId' | 'timerId', type: string): ReadonlyMap<unknown, string> =>
    new Map(
      kept
        .filter(({ eventType }) => eventType === `EVENT_TYPE_${type}`)
        .map((event, index) => [attributesOf(event)[field], String(index + 1)]),
    );
  const [activities, timers] = [
    renumbered('activityId', 'ACTIVITY_TASK_SCHEDULED'),
    renumbered('timerId', 'TIMER_STARTED'),
  ];
  return kept.map((event) =>
    Object.fromEntries(
      Object.entries(event).map(([name, value]) => {
        if (name === 'eventId') return [name, numbers.get(value)];
        if (!isFields(value)) return [name, value];
        const changed = Object.entries(value).map(([field, inner]) => {
          if (field === 'activityId') return [field, activities.get(inner)];
          if (field === 'timerId') return [field, timers.get(inner)];
          return [field, field.endsWith('EventId') ? (numbers.get(inner) ?? inner) : inner];
        });
        return [name, Object.fromEntries(changed)];
      }),
    ),
  );
}

function attributesOf(event: Fields): Fields {
  const [, attributes] = Object.entries(event).find(([name]) => name.endsWith('EventAttributes')) ?? [];
  return isFields(attributes) ? attributes : {};
}

test('an execution that a build without messages began sends none, not at its end either', async () => {
  expect(await failuresOf(await sharedBundle())).toEqual([]);
});

test('one that sends what it was handed at its end is noticed', async () => {
  const sends = await bundleMutant(replaced('Messenger.hurries', 'this.#speaks !== true', 'false'));
  expect(await failuresOf(sends)).toEqual([expect.stringContaining('TMPRL1100')]);
});
