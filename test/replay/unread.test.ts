/**
 * A run never reads what it could not read when it came, and keeps to the reason of then: its history replays whatever
 * keys a worker has today (INV-D1, docs/adr/0046). Keys decide whether a payload is sealed for somebody else, changed,
 * or plain and malformed, and whoever may write to the namespace chooses under which key id his bytes come.
 */
import { readFile } from 'node:fs/promises';
import { beforeAll, describe, expect, jest, test } from '@jest/globals';
import { historyFromJSON } from '@temporalio/common/lib/proto-utils.js';
import { CORPUS_ENCRYPTION } from './recording/stage.ts';
import type { WorkflowBundle } from '../../workers/bundle.ts';
import { EncryptionCodec } from '../../workers/codec.ts';
import { CommandLog, compareHistories } from '../../workers/replay/semantics.ts';
import { takeoverFault } from '../../workers/replay/refusals.ts';
import { replayHistories } from '../../workers/replay/replay.ts';
import { bundleForReading, soundnessOf } from '../../workers/replay/replayed-run.ts';
import { encoded } from '../support/forgery/raw-messages.ts';
import { sharedBundle } from '../support/shared-bundle.ts';
import { CONFIG, placeOf } from './corpus.ts';
import { fileOf } from './recording/recording.ts';

jest.setTimeout(120_000);

interface Payload {
  readonly metadata: Readonly<Record<string, string>>;
  readonly data: string;
}
/** As `historyToJSON` writes it. */
interface Event {
  readonly eventId: string;
  readonly eventType: string;
  readonly workflowExecutionSignaledEventAttributes?: { readonly input: { payloads: readonly Payload[] } };
  readonly markerRecordedEventAttributes?: {
    readonly details: { readonly 'patch-data': { payloads: readonly Payload[] } };
  };
}

const RECORDED = 'agent-run.unread';
/** Of the recording: a sealed signal, and the marker of the task that refuses it. */
const SIGNALLED = 31;
const STARTED = 33;
const MARKED = 35;

const NO_KEYS: typeof CONFIG = { ...CONFIG, encryption: { keys: [] } };
const ITS_KEY = CONFIG;
/** The same id and other bytes. */
const ANOTHER_KEY = {
  ...CONFIG,
  encryption: { keys: CORPUS_ENCRYPTION.keys.map(({ id }) => ({ id, key: Buffer.alloc(32, 7).toString('base64') })) },
};

let recorded: readonly Event[];
let bundle: WorkflowBundle;

beforeAll(async () => {
  // Sound: a file of the corpus.
  ({ events: recorded } = JSON.parse(await readFile(fileOf(placeOf(RECORDED)), 'utf8')) as { events: Event[] });
  bundle = await sharedBundle(bundleForReading);
});

/** The recording, in which this reason was found. */
function markedAs(reason: string): Event[] {
  const events = structuredClone([...recorded]);
  const patch = events[MARKED - 1]?.markerRecordedEventAttributes?.details['patch-data'];
  const [payload] = patch?.payloads ?? [];
  if (patch === undefined || payload === undefined) throw new Error(`${RECORDED} has no marker`);
  const { id } = JSON.parse(Buffer.from(payload.data, 'base64').toString()) as { id: string };
  const marker = JSON.stringify({ id: id.replace(/[a-z]+$/, reason), deprecated: false });
  patch.payloads = [{ ...payload, data: Buffer.from(marker).toString('base64') }];
  return events;
}

/** Sealed under the key of the recording, and no JSON within. */
async function withSealedBrace(events: Event[]): Promise<Event[]> {
  const keys = CORPUS_ENCRYPTION.keys.map(({ id, key }) => ({ id, key: Buffer.from(key, 'base64') }));
  const [sealed] = await new EncryptionCodec(keys).encode([encoded('json/plain', '{')]);
  const input = events[SIGNALLED - 1]?.workflowExecutionSignaledEventAttributes?.input;
  if (input === undefined || !sealed?.data) throw new Error(`${RECORDED} has no signal`);
  const base64 = (bytes: Uint8Array): string => Buffer.from(bytes).toString('base64');
  const metadata = Object.fromEntries(
    Object.entries(sealed.metadata ?? {}).map(([name, value]) => [name, base64(value)]),
  );
  input.payloads = [{ metadata, data: base64(sealed.data) }];
  return events;
}

function told(events: readonly Event[]) {
  const history = historyFromJSON({ events });
  const workflowId = history.events?.[0]?.workflowExecutionStartedEventAttributes?.workflowId ?? '';
  return [{ kind: 'history', name: 'told', workflowId, history } as const];
}

async function differenceIn(events: readonly Event[], config: typeof CONFIG): Promise<string | undefined> {
  for await (const { error } of compareHistories(told(events), { bundle, config })) return error?.message;
  throw new Error('nothing was replayed');
}

describe.each([
  ['no key', NO_KEYS],
  ['its key', ITS_KEY],
  ['another key of its id', ANOTHER_KEY],
])('a worker that has %s', (_, config) => {
  test.each(['sealed', 'changed'])('goes on with a run that refused a signal as %s', async (reason) => {
    expect(await differenceIn(markedAs(reason), config)).toBeUndefined();
  });

  test('goes on with a run that refused what was sealed and is no JSON', async () => {
    expect(await differenceIn(await withSealedBrace(markedAs('sealed')), config)).toBeUndefined();
  });
});

/** Up to the task that takes the signal, which is not ended. */
async function markersOf(events: readonly Event[], config: typeof CONFIG): Promise<readonly unknown[]> {
  const log = new CommandLog();
  for await (const { error } of replayHistories(told(events), { bundle, config, sinks: log.sinks })) {
    expect(error).toBeUndefined();
  }
  return log.take().commands.flatMap(({ setPatchMarker }) => setPatchMarker?.patchId ?? []);
}

test.each([
  ['sealed', NO_KEYS],
  ['changed', ANOTHER_KEY],
])('the first time it is found to be %s, and so it is marked', async (reason, config) => {
  expect(await markersOf(recorded.slice(0, STARTED), config)).toEqual([expect.stringMatching(`^unread-.*-${reason}$`)]);
});

test('a replay marks nothing but what was marked, and goes on to mark what comes then', async () => {
  const [signal, scheduled, started] = recorded.slice(SIGNALLED - 1, STARTED).map((event, index) => ({
    ...event,
    eventId: String(recorded.length + 1 + index),
  }));
  if (signal === undefined || scheduled === undefined || started === undefined) throw new Error(`${RECORDED} is short`);
  const longer = [
    ...recorded,
    signal,
    scheduled,
    { ...started, workflowTaskStartedEventAttributes: { scheduledEventId: scheduled.eventId } },
  ];
  expect(await markersOf(longer, ANOTHER_KEY)).toEqual(['unread-5-sealed', 'unread-6-changed']);
});

test.each([
  ['no key', NO_KEYS, 'encryption.keys does not have its key'],
  ['another key of its id', ANOTHER_KEY, 'changed or cut off'],
])('what was read once, and cannot be with %s, fails the task', async (_, config, says) => {
  const error = await differenceIn(readOnce(), config);
  expect(error).toMatch(says);
  expect(error).toMatch('Give this worker the encryption.keys');
});

/** The recording of a run that has read the signal: it has no marker. */
function readOnce(): readonly Event[] {
  const [, ...later] = recorded.slice(MARKED - 1);
  return [
    ...recorded.slice(0, MARKED - 1),
    ...later.map((event) => ({ ...event, eventId: String(Number(event.eventId) - 1) })),
  ];
}

test.each([
  ['no key', NO_KEYS],
  ['another key of its id', ANOTHER_KEY],
])('a command that has %s says nothing of the code, names no build, and moves and resets no run', async (_, config) => {
  const [history] = told(readOnce());
  if (history === undefined) throw new Error('nothing was recorded');
  for await (const outcome of compareHistories([history], { bundle, config }))
    expect(outcome).toMatchObject({
      isUnread: true,
      error: { code: 'CONFIG_INVALID', message: expect.stringMatching(/^The history cannot be read here/) },
    });
  await expect(soundnessOf(history.workflowId, history.history, { bundle, config })).rejects.toMatchObject({
    code: 'CONFIG_INVALID',
  });
  // A drain leaves the run where it is, and goes on with the others.
  await expect(takeoverFault(history, { bundle, config })).rejects.toMatchObject({ code: 'ENGINE_UNAVAILABLE' });
});

// The word of a gateway that the client of a call is back is a signal, too. Where it was unread, the call stayed.

const BACK = 'agent-run.client-back';
/** Event ids: the signal, the start of the task that takes it, and the end of that task. */
const [PRESENT, TAKEN, LET_GO] = [8, 10, 11];

/** The recording up to this event, in which the word is sealed. */
async function sealedWord(to: number): Promise<Event[]> {
  // Sound: a file of the corpus.
  const { events } = JSON.parse(await readFile(fileOf(placeOf(BACK)), 'utf8')) as { events: Event[] };
  const keys = CORPUS_ENCRYPTION.keys.map(({ id, key }) => ({ id, key: Buffer.from(key, 'base64') }));
  const input = events[PRESENT - 1]?.workflowExecutionSignaledEventAttributes?.input;
  const [word] = input?.payloads ?? [];
  const [sealed] = await new EncryptionCodec(keys).encode([
    encoded('json/plain', Buffer.from(word?.data ?? '', 'base64').toString()),
  ]);
  if (input === undefined || !sealed?.data) throw new Error(`${BACK} has no signal`);
  const base64 = (bytes: Uint8Array): string => Buffer.from(bytes).toString('base64');
  const metadata = Object.fromEntries(
    Object.entries(sealed.metadata ?? {}).map(([name, value]) => [name, base64(value)]),
  );
  input.payloads = [{ metadata, data: base64(sealed.data) }];
  return events.slice(0, to);
}

test('the word that a client is back is marked, too, where it cannot be read', async () => {
  expect(await markersOf(await sealedWord(TAKEN), NO_KEYS)).toEqual(['unread-present-1-sealed']);
  expect(await markersOf(await sealedWord(TAKEN), ITS_KEY)).toEqual([]);
});

test.each([
  ['no key', NO_KEYS],
  ['its key', ITS_KEY],
])('a worker that has %s does not send the call that stayed then', async (_, config) => {
  const [marker, shown] = recorded.slice(MARKED - 1, MARKED + 1);
  const patch = Buffer.from(JSON.stringify({ id: 'unread-present-1-sealed', deprecated: false })).toString('base64');
  const events = [
    ...(await sealedWord(LET_GO)),
    {
      ...marker,
      eventId: String(LET_GO + 1),
      markerRecordedEventAttributes: {
        ...marker?.markerRecordedEventAttributes,
        details: {
          'patch-data': {
            payloads: [{ ...marker?.markerRecordedEventAttributes?.details['patch-data'].payloads[0], data: patch }],
          },
        },
        workflowTaskCompletedEventId: String(LET_GO),
      },
    },
    { ...shown, eventId: String(LET_GO + 2) },
  ];
  // Sound: the events of a recording, with other numbers.
  expect(await differenceIn(events as Event[], config)).toBeUndefined();
});
