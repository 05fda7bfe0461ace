/** `countersign withdraw`: takes back an approval while others are still needed. */
import type { Command } from 'commander';
import { print } from '../answer.ts';
import { decideCall, type DecideOptions } from '../decide.ts';
import { examples } from '../examples.ts';
import { repeated } from '../options.ts';
import { withSession } from '../session.ts';
import type { Terminal } from '../terminal.ts';
import { decisionAnswer } from '../views/decision.ts';

interface WithdrawOptions extends DecideOptions {
  readonly comment?: string;
}

export function addWithdraw(program: Command, terminal: Terminal): void {
  program
    .command('withdraw')
    .summary('take back your approval of a call that waits for others')
    .description('Take back your approval, while the call waits for others to agree')
    .argument('<run>', 'run id')
    .argument('<call>', 'call id, such as t2.c0')
    .requiredOption('--as <id>', 'who agreed')
    .option('--group <name>', 'a group the decider belongs to; may be given several times', repeated)
    .option('--digest <sha256>', 'decide only the request with this digest')
    .option('--comment <text>', 'kept in the ledger')
    .option('--decision-id <id>', 'the id of a decision whose answer got lost: sent again, it counts once')
    .addHelpText(
      'after',
      examples('withdraw nightly-42 t2.c0 --as ann', 'withdraw nightly-42 t2.c0 --as ann --comment "wrong amount"'),
    )
    .action(async (runId: string, callId: string, _own: unknown, command: Command) => {
      const options = command.optsWithGlobals<WithdrawOptions>();
      const judged = {
        kind: 'withdraw',
        ...(options.comment === undefined ? {} : { comment: options.comment }),
      } as const;
      const decided = await withSession(terminal, options, ({ countersign }) =>
        decideCall(countersign.run(runId), callId, judged, options),
      );
      print(terminal, decisionAnswer(runId, decided), options.json === true);
    });
}
