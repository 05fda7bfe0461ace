/**
 * Shows a replay worker how a run or catalog would answer its queries after each activation. In the bundle of reading
 * only (`workers/replay/replayed-run.ts`). The query handlers change nothing, and issue no command.
 */
import { proxySinks, type Sinks, type WorkflowInterceptors } from '@temporalio/workflow';
import { QUERIES, READING_QUEUE } from '../../contracts/names.ts';

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

interface Activator {
  readonly info: { readonly taskQueue: string };
  readonly queryHandlers: ReadonlyMap<string, { readonly handler: (...args: readonly unknown[]) => unknown }>;
}

function activator(): Activator {
  // Sound: the SDK keeps it there for the running workflow (its lib/global-attributes).
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
