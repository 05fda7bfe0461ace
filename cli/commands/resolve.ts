/** `countersign resolve`: says what became of a call that was sent and whose answer was lost. */
import type { Command } from 'commander';
import type { RunHandle } from '../../client/index.ts';
import { CountersignError } from '../../contracts/errors.ts';
import type { ResolutionInput } from '../../contracts/schemas/resolution.ts';
import { type Answer, print } from '../answer.ts';
import { recordedHash } from '../../domain/resolution.ts';
import { examples } from '../examples.ts';
import { type Answered, type AnswerOptions, answerPause, withAnswerOptions } from '../pause-answer.ts';
import { withSession } from '../session.ts';
import type { Terminal } from '../terminal.ts';
import { pauseAnswer } from '../views/pause-answer.ts';

interface ResolveOptions extends AnswerOptions {
  readonly result?: string;
  readonly message?: string;
}

type Word =
  | { readonly kind: 'retry' }
  | { readonly kind: 'succeeded'; readonly result: string }
  | { readonly kind: 'failed'; readonly message: string };

export function addResolve(program: Command, terminal: Terminal): void {
  const command = program
    .command('resolve')
    .summary('say what became of a call whose answer was lost')
    .description(
      'Say what became of a call that was sent and whose answer was lost. Look at its server first. retry sends it again; succeeded and failed record what you found, and the model is told that you did',
    )
    .argument('<run>', 'run id')
    .argument('<call>', 'call id, such as t2.c0')
    .argument('<answer>', 'retry, succeeded or failed')
    .requiredOption('--as <id>', 'who says so')
    .option('--result <text>', 'of succeeded: told to the model as your words')
    .option('--message <text>', 'of failed: told to the model as your words');
  withAnswerOptions(command)
    .addHelpText(
      'after',
      examples(
        'resolve nightly-42 t2.c0 succeeded --as ann --result "Payment 4711 is booked."',
        'resolve nightly-42 t2.c0 failed --as ann --message "No payment is there."',
        'resolve nightly-42 t2.c0 retry --as ann --digest 3f8a…',
      ),
    )
    .action(async (runId: string, callId: string, answer: string, _own: unknown, used: Command) => {
      const options = used.optsWithGlobals<ResolveOptions>();
      const word = wordOf(answer, options);
      const resolved = await withSession(
        terminal,
        options,
        async ({ countersign }) => await resolveCall(countersign.run(runId), callId, word, options),
      );
      print(terminal, resolvedText(runId, resolved), options.json === true);
    });
}

function wordOf(answer: string, { result, message }: ResolveOptions): Word {
  if (answer === 'retry' && result === undefined && message === undefined) return { kind: 'retry' };
  if (answer === 'succeeded' && result !== undefined && message === undefined) return { kind: 'succeeded', result };
  if (answer === 'failed' && message !== undefined && result === undefined) return { kind: 'failed', message };
  throw new CountersignError(
    'USAGE',
    'Say retry, or succeeded with --result TEXT, or failed with --message TEXT. Nothing was sent.',
  );
}

async function resolveCall(run: RunHandle, callId: string, word: Word, options: ResolveOptions): Promise<Answered> {
  const { comment } = options;
  return await answerPause(run, callId, options, {
    kind: 'outcome',
    asksNot: 'does not wait to hear what became of it',
    say: (_, base): ResolutionInput => ({ ...word, ...base, ...(comment === undefined ? {} : { comment }) }),
    send: async (said) => await run.resolveOutcome(said),
    told: (fact) => [
      [fact.answer, word.kind],
      [fact.comment, comment],
      [fact.recordedHash, recordedHash(word)],
    ],
  });
}

function resolvedText(runId: string, answered: Answered): Answer {
  const { answer } = answered.ack;
  return pauseAnswer(runId, answered, {
    word: answer,
    colour: answer === 'failed' ? 'red' : 'green',
    ...(answer === 'retry' ? { next: 'it is sent again' } : {}),
  });
}
