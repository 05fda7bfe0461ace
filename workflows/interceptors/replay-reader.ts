/**
 * Shows a replay worker what a run or a catalog would answer to its queries, after each activation: so is read what no worker can
 * take on.
 *
 * In the bundle of reading only (`workers/replay/replayed-run.ts`), never in that of runs.
 * 1. The handlers that queries ask are asked: they change nothing, and command nothing.
 */
import { proxySinks, type Sinks, type WorkflowInterceptors } from '@temporalio/workflow';
import { QUERIES, READING_QUEUE } from '../../contracts/names.ts';

/** By query, as JSON. */
export type ReadAnswers = Readonly<Record<string, string>>;

export interface ReaderSinks extends Sinks {
  readonly replayReader: { answers(answers: ReadAnswers): void };
}

const ASKED: readonly (readonly [string, ...unknown[]])[] = [
  [QUERIES.state],
  [QUERIES.requests],
  [QUERIES.snapshot],
  [QUERIES.ledger, 0, Number.MAX_SAFE_INTEGER],
];

export function interceptors(): WorkflowInterceptors {
  const { replayReader } = proxySinks<ReaderSinks>();
  return {
    internals: [
      {
        concludeActivation: (input, next) => {
          const output = next(input);
          const { queryHandlers, info } = activator();
          if (!info.taskQueue.startsWith(READING_QUEUE)) return output;
          replayReader.answers(
            Object.fromEntries(ASKED.flatMap(([name, ...given]) => answerOf(queryHandlers, name, given))),
          );
          return output;
        },
      },
    ],
  };
}

/** As much of the SDK's own state as is read here. */
interface Activator {
  readonly info: { readonly taskQueue: string };
  readonly queryHandlers: ReadonlyMap<string, { readonly handler: (...args: readonly unknown[]) => unknown }>;
}

function activator(): Activator {
  // Sound: the SDK keeps it there for the workflow whose code runs (its lib/global-attributes), and has no other way to its handlers.
  return (globalThis as unknown as { readonly __TEMPORAL_ACTIVATOR__: Activator }).__TEMPORAL_ACTIVATOR__;
}

function answerOf(
  handlers: Activator['queryHandlers'],
  name: string,
  given: readonly unknown[],
): readonly (readonly [string, string])[] {
  const said: unknown = handlers.get(name)?.handler(...given);
  return said === undefined ? [] : [[name, JSON.stringify(said)]];
}
