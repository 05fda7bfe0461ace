/** `countersign forget`: takes a standing decision back. */
import type { Command } from 'commander';
import { visible } from '../../domain/escape.ts';
import { print } from '../answer.ts';
import { examples } from '../examples.ts';
import { type GlobalOptions, repeated } from '../options.ts';
import { withSession } from '../session.ts';
import type { Terminal } from '../terminal.ts';
import { shortInstant } from '../views/duration.ts';

interface ForgetOptions extends GlobalOptions {
  readonly as: string;
  readonly group?: string[];
  readonly comment?: string;
}

export function addForget(program: Command, terminal: Terminal): void {
  program
    .command('forget')
    .summary('take a standing decision back')
    .description('Take a standing decision back: later calls that it would have answered are asked again')
    .argument('<run>', 'run id')
    .argument('<decision>', 'id of the decision, as `countersign show` lists it')
    .requiredOption('--as <id>', 'who takes it back; somebody who may decide such calls')
    .option('--group <name>', 'a group the decider belongs to; may be given several times', repeated)
    .option('--comment <text>', 'kept in the ledger')
    .addHelpText('after', examples('forget nightly-42 5b0c… --as ann'))
    .action(async (runId: string, standing: string, _own: unknown, command: Command) => {
      const options = command.optsWithGlobals<ForgetOptions>();
      const { as: id, group = [], comment } = options;
      const ack = await withSession(terminal, options, ({ countersign }) =>
        countersign.run(runId).forget({
          standing,
          by: { id, groups: group },
          ...(comment === undefined ? {} : { comment }),
        }),
      );
      print(
        terminal,
        {
          json: { runId, ...ack },
          text: (paint) =>
            `${paint('yellow', 'forgotten')}  ${visible(ack.standing)} by ${visible(ack.forgottenBy)} at ${shortInstant(ack.forgottenAt)}`,
        },
        options.json === true,
      );
    });
}
