/**
 * Trust mode `signed`, where a run has no keys to believe by: it believes nobody (INV-G4), and no replay goes on with
 * keys that it only has because this worker cannot prove newer ones (INV-D1, docs/adr/0047). Recordings are told
 * otherwise here: no worker of ours writes such.
 */
import { execFile } from 'node:child_process';
import { mkdtemp, readFile, rm, writeFile } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { basename, join } from 'node:path';
import { fileURLToPath } from 'node:url';
import { promisify } from 'node:util';
import { beforeAll, expect, jest, test } from '@jest/globals';
import { defaultPayloadConverter, type Payload } from '@temporalio/common';
import { CORPUS_TRUST } from './recording/stage.ts';
import type { History } from '../../workers/replay/recorded-history.ts';
import { answersOf, bundleForReading, type HistoryEvent, historyOf } from '../../workers/replay/replayed-run.ts';
import type { WorkflowBundle } from '../../workers/bundle.ts';
import { zoneKeysOf } from '../../workers/config/secrets.ts';
import { ZoneCodec } from '../../workers/zone.ts';
import { KEY_FIELD } from '../../contracts/zone.ts';
import { SIGNALS } from '../../contracts/names.ts';
import { factsOf } from '../support/world/run-record.ts';
import { decisionOn } from '../support/world/world.ts';
import { sharedBundle } from '../support/shared-bundle.ts';
import { CONFIG, placeOf, recorded as corpus } from './corpus.ts';
import { fileOf } from './recording/recording.ts';

jest.setTimeout(120_000);

/** Number of temporal.api.enums.v1. */
const SIGNALED = 26;

const ENTRY = fileURLToPath(new URL('replay-entry.ts', import.meta.url));

let bundle: WorkflowBundle;

beforeAll(async () => {
  bundle = await sharedBundle(bundleForReading);
});

async function recorded(name: string): Promise<{ readonly workflowId: string; readonly events: HistoryEvent[] }> {
  for await (const each of corpus([name]))
    if (each.kind === 'history') return { workflowId: each.workflowId, events: [...(each.history.events ?? [])] };
  throw new Error(`no history ${name}`);
}

/** Index of the event with what an activity of this type has answered. */
function answerOf(events: readonly HistoryEvent[], type: string): number {
  const scheduled = events.find(({ activityTaskScheduledEventAttributes: of }) => of?.activityType?.name === type);
  const at = events.findIndex(
    ({ activityTaskCompletedEventAttributes: of }) =>
      of && scheduled && Number(of.scheduledEventId) === Number(scheduled.eventId),
  );
  if (at === -1) throw new Error(`no answer of ${type}`);
  return at;
}

async function otherwise(
  events: readonly HistoryEvent[],
  type: string,
  change: (payload: Payload) => Payload | Promise<Payload>,
): Promise<HistoryEvent[]> {
  const at = answerOf(events, type);
  const event = events[at];
  const completed = event?.activityTaskCompletedEventAttributes;
  const [payload] = completed?.result?.payloads ?? [];
  if (event === undefined || !completed || !payload) throw new Error(`${type} answered nothing`);
  const result = { payloads: [await change(payload)] };
  return events.with(at, { ...event, activityTaskCompletedEventAttributes: { ...completed, result } });
}

/** A signal that came behind this event, and the workflow task that takes it in, not ended. */
function signalledBehind(events: readonly HistoryEvent[], eventId: number, decision: object): History {
  const before = events.slice(0, eventId);
  const task = events.slice(events.findLastIndex(({ workflowTaskStartedEventAttributes: of }) => of) - 1).slice(0, 2);
  const [scheduled, started] = task;
  const [last] = before.slice(-1);
  if (!last || !scheduled || !started?.workflowTaskStartedEventAttributes) throw new Error('no workflow task');
  const more = [
    {
      eventId: eventId + 1,
      eventTime: last.eventTime,
      eventType: SIGNALED,
      workflowExecutionSignaledEventAttributes: {
        signalName: SIGNALS.decide,
        input: { payloads: [defaultPayloadConverter.toPayload(decision)] },
      },
    },
    { ...scheduled, eventId: eventId + 2, eventTime: last.eventTime },
    {
      ...started,
      eventId: eventId + 3,
      eventTime: last.eventTime,
      workflowTaskStartedEventAttributes: {
        ...started.workflowTaskStartedEventAttributes,
        scheduledEventId: eventId + 2,
      },
    },
  ];
  // Sound: protobuf takes plain numbers where its own messages hold Long.
  return historyOf([...before, ...more] as HistoryEvent[]);
}

async function read(workflowId: string, history: History) {
  const runId = history.events?.[0]?.workflowExecutionStartedEventAttributes?.originalExecutionRunId ?? '';
  const { answers } = await answersOf(workflowId, { history, runId }, { config: CONFIG, bundle });
  return answers;
}

/** As `historyToJSON` writes it. */
interface WrittenEvent {
  readonly activityTaskScheduledEventAttributes?: { readonly activityType: { readonly name: string } };
  readonly activityTaskCompletedEventAttributes?: {
    readonly scheduledEventId: string;
    readonly result: { readonly payloads: readonly { readonly metadata: Record<string, string> }[] };
  };
}

/** The recording, whose newest keys are proven by this key of the zone. */
async function withKeysOf(key: string): Promise<string> {
  // Sound: a file of the corpus.
  const history = JSON.parse(await readFile(fileOf(placeOf('agent-run.signed-sent')), 'utf8')) as {
    events: readonly WrittenEvent[];
  };
  const asked = history.events.findIndex(
    ({ activityTaskScheduledEventAttributes: of }) => of?.activityType.name === 'readTrust',
  );
  const answers = history.events.flatMap(({ activityTaskCompletedEventAttributes: of }) => of ?? []);
  const [payload] = answers.find((of) => Number(of.scheduledEventId) === asked + 1)?.result.payloads ?? [];
  if (payload === undefined) throw new Error('keys were not read');
  payload.metadata[KEY_FIELD] = Buffer.from(key).toString('base64');
  return JSON.stringify(history);
}

test('keys that were read anew, and that this worker cannot prove, fail the task', async () => {
  const folder = await mkdtemp(join(tmpdir(), 'countersign-'));
  try {
    const files = ['corpus', 'gone'].map((key) => join(folder, `${key}.json`));
    for (const file of files) await writeFile(file, await withKeysOf(basename(file, '.json')));
    const { stdout } = await promisify(execFile)(process.execPath, ['--import', 'tsx', ENTRY, ...files]);
    expect(JSON.parse(stdout)).toEqual([
      '',
      expect.stringContaining('its key is not among trust.zone.keys of this worker'),
    ]);
  } finally {
    await rm(folder, { recursive: true });
  }
});

test.each([
  ['agent-run.signed', 'TRUST_KEY_UNKNOWN'],
  ['agent-run.completed', 'CALL_UNKNOWN'],
])('a run that is not prepared yet refuses a signal, and goes on: %s, %s', async (name, code) => {
  const { workflowId, events } = await recorded(name);
  const signal = { kind: 'approve', callId: 't1.c0', decisionId: 'early', digest: '0'.repeat(64), runId: 'r' };
  const history = signalledBehind(events, 1, { ...signal, approver: { id: 'acme|ben' } });
  const { ledger } = await read(workflowId, history);
  expect(factsOf(ledger?.entries ?? [], 'decision.refused')).toEqual([
    expect.objectContaining({ decisionId: 'early', code }),
  ]);
});

test('a run that was started signed and prepared without keys believes no signal', async () => {
  const { workflowId, events } = await recorded('agent-run.signed');
  const zone = new ZoneCodec(zoneKeysOf({ trust: CORPUS_TRUST }));
  const unkeyed = await otherwise(events, 'prepareRun', async (payload) => {
    const { trust: _, ...prepared } = defaultPayloadConverter.fromPayload<{ trust: unknown }>(payload);
    const [proven] = await zone.encode([
      { ...payload, data: defaultPayloadConverter.toPayload(prepared).data ?? null },
    ]);
    return proven ?? {};
  });
  // Its last answered activity has judged a call: three events of a task, and two of what people see, ask about it.
  const asked = Number(unkeyed.findLast(({ activityTaskCompletedEventAttributes: of }) => of)?.eventId) + 5;
  const [request] = (await read(workflowId, historyOf(unkeyed.slice(0, asked)))).requests ?? [];
  if (request === undefined) throw new Error('no request');
  const decision = { ...decisionOn(request, 'acme|ann'), approver: { id: 'acme|ann', groups: ['leads'] } };
  const { ledger } = await read(workflowId, signalledBehind(unkeyed, asked, decision));
  expect(factsOf(ledger?.entries ?? [], 'decision.refused')).toEqual([
    expect.objectContaining({ decisionId: decision.decisionId, code: 'TRUST_KEY_UNKNOWN' }),
  ]);
});

/** The recording, in which the update that came last says something else than was signed. */
function saidOtherwise(events: readonly HistoryEvent[], over: object): History {
  const at = events.findLastIndex(({ workflowExecutionUpdateAcceptedEventAttributes: of }) => of);
  const event = events[at];
  const accepted = event?.workflowExecutionUpdateAcceptedEventAttributes;
  const request = accepted?.acceptedRequest;
  const [payload] = request?.input?.args?.payloads ?? [];
  if (event === undefined || !accepted || !request || !payload) throw new Error('no update');
  const said = { ...defaultPayloadConverter.fromPayload<object>(payload), ...over };
  const args = { payloads: [defaultPayloadConverter.toPayload(JSON.parse(JSON.stringify(said)))] };
  const acceptedRequest = { ...request, input: { ...request.input, args } };
  const changed = { ...event, workflowExecutionUpdateAcceptedEventAttributes: { ...accepted, acceptedRequest } };
  return historyOf(events.with(at, changed));
}

test.each<[string, object, number]>([
  ['control: as it was signed', {}, 1],
  ['unsigned', { signature: undefined }, 0],
  ['with a signature of something else: a rejection', { kind: 'reject', reason: 'no' }, 0],
  ['with a signature of something else: an answer in place of the tool', { kind: 'respond', answer: 'done' }, 0],
  ['with a signature of somebody else', { approver: { id: 'acme|ann', groups: ['leads'] } }, 0],
])('an answer that came into history past the validator, %s (INV-G2)', async (_, over, believed) => {
  const { workflowId, events } = await recorded('agent-run.signed');
  const { ledger, requests } = await read(workflowId, saidOtherwise(events, over));
  expect(factsOf(ledger?.entries ?? [], 'decision.accepted')).toHaveLength(believed);
  expect(requests).toHaveLength(1);
});
