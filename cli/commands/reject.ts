/** `countersign reject`: refuses one waiting call. */
import type { Command } from 'commander';
import { print } from '../answer.ts';
import { decideCall, type DecideOptions } from '../decide.ts';
import { examples } from '../examples.ts';
import { repeated } from '../options.ts';
import { withSession } from '../session.ts';
import type { Terminal } from '../terminal.ts';
import { decisionAnswer } from '../views/decision.ts';

interface RejectOptions extends DecideOptions {
  readonly reason: string;
}

export function addReject(program: Command, terminal: Terminal): void {
  program
    .command('reject')
    .summary('refuse one waiting call')
    .description('Refuse one waiting call: it does not run, and the model is told why')
    .argument('<run>', 'run id')
    .argument('<call>', 'call id, such as t2.c0')
    .requiredOption('--as <id>', 'who decides')
    .requiredOption('--reason <text>', 'told to the model, and kept in the ledger')
    .option('--group <name>', 'a group the decider belongs to; may be given several times', repeated)
    .option('--digest <sha256>', 'decide only the request with this digest')
    .option('--decision-id <id>', 'the id of a decision whose answer got lost: sent again, it counts once')
    .addHelpText('after', examples('reject nightly-42 t2.c0 --as ann --reason "wrong customer"'))
    .action(async (runId: string, callId: string, _own: unknown, command: Command) => {
      const options = command.optsWithGlobals<RejectOptions>();
      const judged = { kind: 'reject', reason: options.reason } as const;
      const decided = await withSession(terminal, options, ({ countersign }) =>
        decideCall(countersign.run(runId), callId, judged, options),
      );
      print(terminal, decisionAnswer(runId, decided), options.json === true);
    });
}
