/** What `approve`, `reject`, `withdraw` and `extend` have in common: one person says one thing of one call. */
import type { Command } from 'commander';
import { print } from './answer.ts';
import { decideCall, type DecideOptions, type Judged } from './decide.ts';
import { examples } from './examples.ts';
import { repeated } from './options.ts';
import { withSession } from './session.ts';
import type { Terminal } from './terminal.ts';
import { decisionAnswer } from './views/decision.ts';

interface DecisionVerb<Options> {
  readonly name: string;
  readonly summary: string;
  readonly description: string;
  /** Of `--as`. */
  readonly who: string;
  readonly examples: readonly string[];
  /** Options of its own. */
  readonly own: (command: Command) => Command;
  readonly judged: (options: Options) => Judged | Promise<Judged>;
}

export function addDecision<Options>(program: Command, terminal: Terminal, verb: DecisionVerb<Options>): void {
  const command = program
    .command(verb.name)
    .summary(verb.summary)
    .description(verb.description)
    .argument('<run>', 'run id')
    .argument('<call>', 'call id, such as t2.c0')
    .requiredOption('--as <id>', verb.who);
  verb
    .own(command)
    .option('--group <name>', 'a group the decider belongs to; may be given several times', repeated)
    .option('--digest <sha256>', 'decide only the request with this digest')
    .option('--decision-id <id>', 'the id of a decision whose answer got lost: sent again, it counts once')
    .addHelpText('after', examples(...verb.examples))
    .action(async (runId: string, callId: string, _own: unknown, used: Command) => {
      const options = used.optsWithGlobals<DecideOptions & Options>();
      const judged = await verb.judged(options);
      const decided = await withSession(terminal, options, ({ countersign }) =>
        decideCall(countersign.run(runId), callId, judged, options),
      );
      print(terminal, decisionAnswer(runId, decided), options.json === true);
    });
}

/** For verbs whose comment stands in the ledger and nowhere else. */
export interface Commented {
  readonly comment?: string;
}

export function withComment(command: Command): Command {
  return command.option('--comment <text>', 'kept in the ledger');
}
