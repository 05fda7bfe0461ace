/**
 * `countersign answer`: answers what a server asks in the middle of a call.
 *
 * 1. What is answered is the request as the run shows it now, its digest recomputed; a digest that is named must be that one.
 * 2. Answers may be personal data: they are sent, and not printed.
 */
import { randomUUID } from 'node:crypto';
import type { Command } from 'commander';
import type { RunHandle } from '../../client/index.ts';
import { CountersignError } from '../../contracts/errors.ts';
import type { PauseAck } from '../../contracts/schemas/pause.ts';
import type { ProvisionInput } from '../../contracts/schemas/provision.ts';
import type { ApprovalRequest } from '../../contracts/schemas/request.ts';
import { visible } from '../../domain/escape.ts';
import { type Answer, print } from '../answer.ts';
import { answeredBefore, sentUnder } from '../answered-before.ts';
import type { DecideOptions } from '../decide.ts';
import { withComment } from '../decision-command.ts';
import { examples } from '../examples.ts';
import { readInput } from '../input-file.ts';
import { responsesFrom, type Words } from '../input-values.ts';
import { repeated } from '../options.ts';
import { withSession } from '../session.ts';
import type { Terminal } from '../terminal.ts';
import { shortInstant } from '../views/duration.ts';
import { fields } from '../views/fields.ts';

interface AnswerOptions extends DecideOptions {
  readonly set?: readonly string[];
  readonly file?: string;
  readonly accept?: boolean;
  readonly decline?: boolean;
  readonly cancel?: boolean;
  readonly comment?: string;
}

export function addAnswer(program: Command, terminal: Terminal): void {
  const command = program
    .command('answer')
    .summary('answer what a server asks in the middle of a call')
    .description(
      'Answer what a server asks before it goes on with a call. `countersign requests` shows the questions; what you answer goes to the server',
    )
    .argument('<run>', 'run id')
    .argument('<call>', 'call id, such as t2.c0')
    .requiredOption('--as <id>', 'who answers')
    .option('--set <field=value>', 'a field of the form; may be given several times', repeated)
    .option('--file <path>', 'the fields as JSON or YAML; - reads standard input')
    .option('--accept', 'you have opened the page, or the form needs no field')
    .option('--decline', 'say no; the server is told so')
    .option('--cancel', 'give no answer; the server is told so');
  withComment(command)
    .option('--group <name>', 'a group the decider belongs to; may be given several times', repeated)
    .option('--digest <sha256>', 'answer only the request with this digest')
    .option('--decision-id <id>', 'the id of an answer whose receipt got lost: sent again, it counts once')
    .addHelpText(
      'after',
      examples(
        'answer nightly-42 t2.c0 --as ann --set name=Ann --set seats=2',
        'answer nightly-42 t2.c0 --as ann --file answer.yaml',
        'answer nightly-42 t2.c0 --as ann --decline',
      ),
    )
    .action(async (runId: string, callId: string, _own: unknown, used: Command) => {
      const options = used.optsWithGlobals<AnswerOptions>();
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
        async ({ countersign }) => await answerCall(countersign.run(runId), callId, words, options),
      );
      print(terminal, answeredText(runId, answered), options.json === true);
    });
}

function assertOneWord({ set, file, accept, decline, cancel }: AnswerOptions): void {
  const says = set !== undefined || file !== undefined || accept === true;
  if ([says, decline === true, cancel === true].filter(Boolean).length === 1) return;
  throw new CountersignError(
    'USAGE',
    'Say what you answer: --set, --file or --accept; or --decline; or --cancel. Nothing was sent.',
  );
}

interface Answered {
  readonly ack: PauseAck;
  /** Absent where the answer was found in the ledger only. */
  readonly request?: ApprovalRequest;
}

async function answerCall(run: RunHandle, callId: string, words: Words, options: AnswerOptions): Promise<Answered> {
  const { runId } = run;
  const before = options.decisionId === undefined ? [] : await answeredBefore(run, callId, 'input.provided');
  const own = before.find(({ decisionId }) => decisionId === options.decisionId);
  if (own !== undefined) return { ack: own };
  const request = (await run.requests()).find((shown) => shown.callId === callId);
  if (request?.about?.kind !== 'input')
    throw new CountersignError(
      'REQUEST_NOT_OPEN',
      `Call ${callId} of run ${runId} is asked nothing by its server (countersign requests ${runId}). Nothing was sent.`,
      { runId, callId },
    );
  if (options.digest !== undefined && options.digest !== request.digest)
    throw new CountersignError(
      'DIGEST_MISMATCH',
      `Call ${callId} now has digest ${request.digest}, not the one you named. Read it again (countersign requests ${runId}); nothing was sent.`,
      { runId, callId },
    );
  const decisionId = options.decisionId ?? randomUUID();
  const answer = {
    decisionId,
    callId,
    digest: request.digest,
    runId: request.runId,
    approver: { id: options.as, groups: [...(options.group ?? [])] },
    ...(options.comment === undefined ? {} : { comment: options.comment }),
  };
  const said: ProvisionInput =
    options.decline === true
      ? { kind: 'decline', ...answer }
      : options.cancel === true
        ? { kind: 'cancel', ...answer }
        : { kind: 'provide', ...answer, responses: responsesFrom(request.about.requests, words) };
  return { ack: await sentUnder(said, async () => await run.provideInput(said)), request };
}

const WORDS = { provide: 'answered', decline: 'declined', cancel: 'cancelled' } as const;

function answeredText(runId: string, { ack, request }: Answered): Answer {
  const { callId, decisionId, answer, decidedBy, decidedAt } = ack;
  const about = request === undefined ? {} : { server: request.server, tool: request.tool, digest: request.digest };
  const tool = request === undefined ? '' : `  ${visible(request.server)}/${visible(request.tool)}`;
  // Sound: it was just seen to be a key of it.
  const word = Object.hasOwn(WORDS, answer) ? WORDS[answer as keyof typeof WORDS] : answer;
  return {
    json: { runId, ...ack, ...about },
    text: (paint) =>
      `${paint(answer === 'provide' ? 'green' : 'yellow', word)}  ${paint('bold', visible(callId))}${tool}\n${fields(
        paint,
        [
          ['by', `${visible(decidedBy)} at ${shortInstant(decidedAt)}`],
          ['digest', request?.digest],
          ['decision', visible(decisionId)],
          ['next', `the server is told; see: countersign watch ${visible(runId)}`],
        ],
      )}`,
  };
}
