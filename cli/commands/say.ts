/** `countersign say`: a message for the model of a run. */
import { randomUUID } from 'node:crypto';
import type { Command } from 'commander';
import type { RunHandle } from '../../client/index.ts';
import { CountersignError } from '../../contracts/errors.ts';
import type { Say } from '../../contracts/schemas/decision.ts';
import type { Advance } from '../../contracts/schemas/run-state.ts';
import { visible } from '../../domain/escape.ts';
import { print } from '../answer.ts';
import { examples } from '../examples.ts';
import { type GlobalOptions, repeated } from '../options.ts';
import { withSession } from '../session.ts';
import type { Terminal } from '../terminal.ts';

interface SayOptions extends GlobalOptions {
  readonly as: string;
  readonly text: string;
  readonly group?: readonly string[];
  readonly interrupt?: true;
  readonly messageId?: string;
}

export function addSay(program: Command, terminal: Terminal): void {
  program
    .command('say')
    .summary('tell the model of a run something')
    .description('Add a user message: the model reads it once the calls of its turn have ended')
    .argument('<run>', 'run id')
    .requiredOption('--as <id>', 'who says it')
    .requiredOption('--text <text>', 'what the model reads')
    .option(
      '--group <name>',
      'a group that a signing key claims; may be given several times (default: those of a personal key)',
      repeated,
    )
    .option('--interrupt', 'withdraw the requests that wait, so that it is read once nothing is in flight')
    .option('--message-id <id>', 'the id of a message whose answer got lost: sent again, it is read once')
    .addHelpText(
      'after',
      examples(
        'say nightly-42 --as ann --text "ticket 12 is solved, leave it out"',
        'say nightly-42 --as ann --text "wrong customer" --interrupt',
      ),
    )
    .action(async (runId: string, _own: unknown, command: Command) => {
      const options = command.optsWithGlobals<SayOptions>();
      const { as: from, text, interrupt, messageId = randomUUID() } = options;
      const message = { messageId, text, from, ...(interrupt === undefined ? {} : { interrupt }) };
      const { status } = await withSession(terminal, { ...options, claims: options.group }, ({ countersign }) =>
        sayTo(countersign.run(runId), message),
      );
      const when = interrupt === true ? 'what waited is withdrawn' : 'read when the turn ends';
      print(
        terminal,
        {
          json: { runId, messageId, status },
          text: (paint) => `Run ${paint('bold', visible(runId))} has message ${visible(messageId)}: ${when}.`,
        },
        options.json === true,
      );
    });
}

/** Whoever does not know whether it was taken is told the id under which it counts once. */
export async function sayTo(run: Pick<RunHandle, 'say'>, message: Say): Promise<Advance> {
  try {
    return await run.say(message);
  } catch (error) {
    if (!(error instanceof CountersignError) || error.code !== 'RESULT_UNCERTAIN') throw error;
    const { messageId } = message;
    const text = `${error.message} Here: add --message-id ${messageId}`;
    throw new CountersignError(error.code, text, { ...error.facts, messageId }, { cause: error });
  }
}
