/**
 * Asks a recorded run once more: its history, one workflow task longer, in which an update arrives.
 *
 * The SDK runs validators for updates that stand admitted in a history (as a reset leaves them), so no server is needed
 * and the run is in the very state, under the run id and at the time, in which the input was first sent.
 */
import type { WorkflowBundle } from '../../workers/bundle.ts';
import { DeedReader, type Recorded } from '../../workers/replay/recorded-history.ts';
import { answerTo, withMessages } from '../../workers/replay/refusals.ts';
import { CommandLog, underRunId } from '../../workers/replay/semantics.ts';
import { replayHistories } from '../../workers/replay/replay.ts';
import { CONFIG, historyOf, inputsOf } from './corpus.ts';

export interface Answered {
  readonly history: string;
  readonly attempt: string;
  /** What was recorded: the code of the refusal, or `accepted`. */
  readonly expected: string;
  readonly answer: string;
}

const UPDATE_ID = 'asked-again';

export async function* askAgain(names: readonly string[], bundle: WorkflowBundle): AsyncGenerator<Answered> {
  const log = new CommandLog();
  const waiting: Omit<Answered, 'answer'>[] = [];
  for await (const { error } of replayHistories(asked(names, waiting), { bundle, config: CONFIG, sinks: log.sinks })) {
    const answer = error === undefined ? answerTo(UPDATE_ID, log.take().commands) : `does not replay: ${error.message}`;
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
      const { update, input, at } = attempt;
      const asking = withMessages(before, [{ id: UPDATE_ID, update, input }], Date.parse(at));
      yield { kind: 'history', name: history, workflowId, history: asking };
    }
  }
}
