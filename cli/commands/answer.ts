/**
 * `countersign answer`: answers what a server asks in the middle of a call.
 *
 * 1. Answers may be personal data: they are sent, and not printed.
 * 2. A server may ask something else at any time: an answer names the question that was read, or the question is shown and nothing sent.
 */
import type { Command } from 'commander';
import type { RunHandle } from '../../client/index.ts';
import { CountersignError } from '../../contracts/errors.ts';
import type { ProvisionInput } from '../../contracts/schemas/provision.ts';
import { type Answer, print } from '../answer.ts';
import { examples } from '../examples.ts';
import { readInput } from '../input-file.ts';
import { responsesFrom, type Words } from '../input-values.ts';
import { repeated } from '../options.ts';
import { type Answered, type AnswerOptions, answerPause, withAnswerOptions } from '../pause-answer.ts';
import { withSession } from '../session.ts';
import type { Terminal } from '../terminal.ts';
import { pauseAnswer } from '../views/pause-answer.ts';
import { requestsAnswer } from './requests.ts';

interface ProvideOptions extends AnswerOptions {
  readonly set?: readonly string[];
  readonly file?: string;
  readonly accept?: boolean;
  readonly decline?: boolean;
  readonly cancel?: boolean;
}

export function addAnswer(program: Command, terminal: Terminal): void {
  const command = program
    .command('answer')
    .summary('answer what a server asks in the middle of a call')
    .description(
      'Answer what a server asks before it goes on with a call. `countersign requests` shows the questions, each with its digest; what you answer goes to the server',
    )
    .argument('<run>', 'run id')
    .argument('<call>', 'call id, such as t2.c0')
    .requiredOption('--as <id>', 'who answers')
    .option('--set <field=value>', 'a field of the form; may be given several times', repeated)
    .option('--file <path>', 'the fields as JSON or YAML; - reads standard input')
    .option('--accept', 'you have opened the page, or the form needs no field')
    .option('--decline', 'say no; the server is told so')
    .option('--cancel', 'give no answer; the server is told so');
  withAnswerOptions(
    command,
    'of the question that you have read (see `requests`); without it you are shown the question',
  )
    .addHelpText(
      'after',
      examples(
        'answer nightly-42 t2.c0 --as ann --digest 3f8a… --set name=Ann --set seats=2',
        'answer nightly-42 t2.c0 --as ann --digest 3f8a… --file answer.yaml',
        'answer nightly-42 t2.c0 --as ann --digest 3f8a… --decline',
      ),
    )
    .action(async (runId: string, callId: string, _own: unknown, used: Command) => {
      const options = used.optsWithGlobals<ProvideOptions>();
      assertOneWord(options);
      const content =
        options.file === undefined
          ? undefined
          : await readInput(options.file, { what: 'answer', code: 'DECISION_INVALID' }, terminal);
      const words: Words = {
        ...(options.set === undefined ? {} : { set: options.set }),
        ...(content === undefined ? {} : { content }),
        ...(options.accept === undefined ? {} : { accept: options.accept }),
      };
      const answered = await withSession(
        terminal,
        options,
        async ({ countersign }) => await answerCall(countersign.run(runId), callId, words, options, terminal),
      );
      print(terminal, answeredText(runId, answered), options.json === true);
    });
}

function assertOneWord({ set, file, accept, decline, cancel }: ProvideOptions): void {
  const says = set !== undefined || file !== undefined || accept === true;
  if ([says, decline === true, cancel === true].filter(Boolean).length === 1) return;
  throw new CountersignError(
    'USAGE',
    'Say what you answer: --set, --file or --accept; or --decline; or --cancel. Nothing was sent.',
  );
}

async function answerCall(
  run: RunHandle,
  callId: string,
  words: Words,
  options: ProvideOptions,
  terminal: Terminal,
): Promise<Answered> {
  const { comment, decline, cancel } = options;
  return await answerPause(run, callId, options, {
    kind: 'input',
    asksNot: 'is asked nothing by its server',
    unread: (request) => print(terminal, requestsAnswer(run.runId, [request], { full: true }), options.json === true),
    say: ({ requests }, base): ProvisionInput => {
      const answer = { ...base, ...(comment === undefined ? {} : { comment }) };
      if (decline === true) return { kind: 'decline', ...answer };
      if (cancel === true) return { kind: 'cancel', ...answer };
      return { kind: 'provide', ...answer, responses: responsesFrom(requests, words) };
    },
    send: async (said) => await run.provideInput(said),
    // Fields are read by the form, which is gone by then.
    told: (fact) => [
      [fact.answer, decline === true ? 'decline' : cancel === true ? 'cancel' : 'provide'],
      [fact.comment, comment],
    ],
  });
}

const WORDS = { provide: 'answered', decline: 'declined', cancel: 'cancelled' } as const;

function answeredText(runId: string, answered: Answered): Answer {
  const { answer } = answered.ack;
  return pauseAnswer(runId, answered, {
    // Sound: it was just seen to be a key of it.
    word: Object.hasOwn(WORDS, answer) ? WORDS[answer as keyof typeof WORDS] : answer,
    colour: answer === 'provide' ? 'green' : 'yellow',
    next: 'the server is told',
  });
}
