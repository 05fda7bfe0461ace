/**
 * Asks a recorded run once more: its history, one workflow task longer, in which an update arrives.
 *
 * The SDK runs validators for updates that stand admitted in a history (as a reset leaves them), so no server is needed and
 * the run is in the very state, under the run id and at the time, in which the input was first sent.
 */
import { defaultPayloadConverter } from '@temporalio/common';
import type { AcceptedAttempt, RefusedAttempt } from './recording/recording.ts';
import type { WorkflowBundle } from '../../workers/bundle.ts';
import { DeedReader, type History, type Recorded } from '../../workers/replay/recorded-history.ts';
import { CommandLog, underRunId } from '../../workers/replay/semantics.ts';
import { replayHistories } from '../../workers/replay/replay.ts';
import type { Command } from '../../workflows/interceptors/replay-inspector.ts';
import { CONFIG, historyOf, inputsOf } from './corpus.ts';

export interface Answered {
  readonly history: string;
  readonly attempt: string;
  /** What was recorded: the code of the refusal, or `accepted`. */
  readonly expected: string;
  readonly answer: string;
}

type Asked = Pick<RefusedAttempt | AcceptedAttempt, 'name' | 'update' | 'input' | 'at'>;

/** Numbers of temporal.api.enums.v1. */
const UPDATE_ADMITTED = 47;
const WORKFLOW_TASK_SCHEDULED = 5;
const WORKFLOW_TASK_STARTED = 6;

const UPDATE_ID = 'asked-again';

export async function* askAgain(names: readonly string[], bundle: WorkflowBundle): AsyncGenerator<Answered> {
  const log = new CommandLog();
  const waiting: Omit<Answered, 'answer'>[] = [];
  for await (const { error } of replayHistories(asked(names, waiting), { bundle, config: CONFIG, sinks: log.sinks })) {
    const answer = error === undefined ? answerIn(log.take().commands) : `does not replay: ${error.message}`;
    // Sound: answers come in the order of the questions.
    yield { ...(waiting.shift() as Omit<Answered, 'answer'>), answer };
  }
}

const reader = new DeedReader([]);

async function* asked(names: readonly string[], waiting: Omit<Answered, 'answer'>[]): AsyncGenerator<Recorded> {
  for (const history of names) {
    const { workflowId, runId, refused, accepted } = await inputsOf(history);
    const before = await underRunId(await historyOf(history), runId, reader);
    const attempts = [
      // A run that is over is not asked any more.
      ...refused
        .filter(({ answeredBy }) => answeredBy === 'run')
        .map((attempt) => ({ attempt, expected: attempt.code as string })),
      ...accepted.map((attempt) => ({ attempt, expected: 'accepted' })),
    ];
    for (const { attempt, expected } of attempts) {
      waiting.push({ history, attempt: attempt.name, expected });
      yield { kind: 'history', name: history, workflowId, history: withUpdate(before, attempt) };
    }
  }
}

function withUpdate({ events }: History, { update, input, at }: Asked): History {
  const last = Number(events?.at(-1)?.eventId);
  const time = Date.parse(at);
  const eventTime = { seconds: Math.floor(time / 1_000), nanos: (time % 1_000) * 1_000_000 };
  const request = {
    meta: { updateId: UPDATE_ID, identity: 'client' },
    input: { name: update, args: { payloads: [defaultPayloadConverter.toPayload(input)] } },
  };
  const suffix = [
    {
      eventId: last + 1,
      eventTime,
      eventType: UPDATE_ADMITTED,
      workflowExecutionUpdateAdmittedEventAttributes: { request },
    },
    {
      eventId: last + 2,
      eventTime,
      eventType: WORKFLOW_TASK_SCHEDULED,
      workflowTaskScheduledEventAttributes: { attempt: 1 },
    },
    {
      eventId: last + 3,
      eventTime,
      eventType: WORKFLOW_TASK_STARTED,
      workflowTaskStartedEventAttributes: { scheduledEventId: last + 2 },
    },
  ];
  // Sound: protobuf takes plain numbers where its own messages hold Long.
  return { events: [...(events ?? []), ...suffix] } as History;
}

function answerIn(commands: readonly Command[]): string {
  const answers = commands.flatMap(({ updateResponse }) =>
    updateResponse?.protocolInstanceId === UPDATE_ID ? [updateResponse] : [],
  );
  const rejected = answers.find((answer) => answer.rejected)?.rejected;
  if (rejected) return rejected.applicationFailureInfo?.type ?? rejected.message ?? 'refused without a code';
  // A catalog asks the configuration first, and answers later.
  return answers.some(({ completed, accepted }) => completed || accepted) ? 'accepted' : 'no answer';
}
