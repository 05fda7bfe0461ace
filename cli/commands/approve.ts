/** `countersign approve`: lets one waiting call run. */
import type { Command } from 'commander';
import { print } from '../answer.ts';
import { decideCall, type DecideOptions } from '../decide.ts';
import { examples } from '../examples.ts';
import { repeated } from '../options.ts';
import { withSession } from '../session.ts';
import type { Terminal } from '../terminal.ts';
import { decisionAnswer } from '../views/decision.ts';

interface ApproveOptions extends DecideOptions {
  readonly comment?: string;
}

export function addApprove(program: Command, terminal: Terminal): void {
  program
    .command('approve')
    .summary('countersign one waiting call')
    .description('Countersign one waiting call: it then runs, once')
    .argument('<run>', 'run id')
    .argument('<call>', 'call id, such as t2.c0')
    .requiredOption('--as <id>', 'who decides')
    .option('--group <name>', 'a group the decider belongs to; may be given several times', repeated)
    .option('--digest <sha256>', 'decide only the request with this digest')
    .option('--comment <text>', 'kept in the ledger')
    .option('--decision-id <id>', 'the id of a decision whose answer got lost: sent again, it counts once')
    .addHelpText(
      'after',
      examples(
        'approve nightly-42 t2.c0 --as ann',
        'approve nightly-42 t2.c0 --as ben --group ops --digest 3f8a… --comment "checked with Eve"',
      ),
    )
    .action(async (runId: string, callId: string, _own: unknown, command: Command) => {
      const options = command.optsWithGlobals<ApproveOptions>();
      const judged = {
        kind: 'approve',
        ...(options.comment === undefined ? {} : { comment: options.comment }),
      } as const;
      const decided = await withSession(terminal, options, ({ countersign }) =>
        decideCall(countersign.run(runId), callId, judged, options),
      );
      print(terminal, decisionAnswer(runId, decided), options.json === true);
    });
}
