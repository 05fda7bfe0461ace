/**
 * `countersign resolve`: says what became of a call that was sent and whose answer was lost.
 *
 * 1. What is answered is the request as the run shows it now, its digest recomputed; a digest that is named must be that one.
 */
import { randomUUID } from 'node:crypto';
import type { Command } from 'commander';
import type { RunHandle } from '../../client/index.ts';
import { CountersignError } from '../../contracts/errors.ts';
import type { PauseAck } from '../../contracts/schemas/pause.ts';
import type { ApprovalRequest } from '../../contracts/schemas/request.ts';
import type { ResolutionInput } from '../../contracts/schemas/resolution.ts';
import { visible } from '../../domain/escape.ts';
import { type Answer, print } from '../answer.ts';
import { answeredBefore, sentUnder } from '../answered-before.ts';
import type { DecideOptions } from '../decide.ts';
import { withComment } from '../decision-command.ts';
import { examples } from '../examples.ts';
import { repeated } from '../options.ts';
import { withSession } from '../session.ts';
import type { Terminal } from '../terminal.ts';
import { shortInstant } from '../views/duration.ts';
import { fields } from '../views/fields.ts';

interface ResolveOptions extends DecideOptions {
  readonly result?: string;
  readonly message?: string;
  readonly comment?: string;
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
  withComment(command)
    .option('--group <name>', 'a group the decider belongs to; may be given several times', repeated)
    .option('--digest <sha256>', 'answer only the request with this digest')
    .option('--decision-id <id>', 'the id of an answer whose receipt got lost: sent again, it counts once')
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
      print(terminal, resolvedAnswer(runId, resolved), options.json === true);
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

interface Resolved {
  readonly ack: PauseAck;
  /** Absent where the answer was found in the ledger only. */
  readonly request?: ApprovalRequest;
}

async function resolveCall(run: RunHandle, callId: string, word: Word, options: ResolveOptions): Promise<Resolved> {
  const { runId } = run;
  const request = (await run.requests()).find((shown) => shown.callId === callId);
  // After a retry the call waits for something else, or for nothing: what was said of it stands in the ledger.
  const before =
    request === undefined || options.decisionId !== undefined
      ? await answeredBefore(run, callId, 'outcome.resolved')
      : undefined;
  const own = before?.find(({ decisionId }) => decisionId === options.decisionId);
  if (own !== undefined) return { ack: own };
  if (request === undefined) throw notAsked(runId, callId, before?.at(-1));
  if (options.digest !== undefined && options.digest !== request.digest)
    throw new CountersignError(
      'DIGEST_MISMATCH',
      `Call ${callId} now has digest ${request.digest}, not the one you named. Read it again (countersign requests ${runId}); nothing was sent.`,
      { runId, callId },
    );
  const decisionId = options.decisionId ?? randomUUID();
  const said: ResolutionInput = {
    ...word,
    decisionId,
    callId,
    digest: request.digest,
    runId: request.runId,
    approver: { id: options.as, groups: [...(options.group ?? [])] },
    ...(options.comment === undefined ? {} : { comment: options.comment }),
  };
  return { ack: await sentUnder(said, async () => await run.resolveOutcome(said)), request };
}

function notAsked(runId: string, callId: string, last: PauseAck | undefined): CountersignError {
  if (last === undefined)
    return new CountersignError(
      'REQUEST_NOT_OPEN',
      `Run ${runId} does not ask what became of ${callId}; its ledger says how it ended (countersign ledger ${runId}).`,
      { runId, callId },
    );
  const { answer, decidedBy, decidedAt } = last;
  return new CountersignError(
    'ALREADY_DECIDED',
    `Call ${callId} was resolved (${answer}) by ${decidedBy} at ${decidedAt}; nothing was changed.`,
    { runId, callId, decidedBy, decidedAt },
  );
}

function resolvedAnswer(runId: string, { ack, request }: Resolved): Answer {
  const { callId, decisionId, answer, decidedBy, decidedAt } = ack;
  const about = request === undefined ? {} : { server: request.server, tool: request.tool, digest: request.digest };
  const tool = request === undefined ? '' : `  ${visible(request.server)}/${visible(request.tool)}`;
  return {
    json: { runId, ...ack, ...about },
    text: (paint) =>
      `${paint(answer === 'failed' ? 'red' : 'green', answer)}  ${paint('bold', visible(callId))}${tool}\n${fields(
        paint,
        [
          ['by', `${visible(decidedBy)} at ${shortInstant(decidedAt)}`],
          ['digest', request?.digest],
          ['decision', visible(decisionId)],
          ['next', answer === 'retry' ? `it is sent again; see: countersign watch ${visible(runId)}` : undefined],
        ],
      )}`,
  };
}
