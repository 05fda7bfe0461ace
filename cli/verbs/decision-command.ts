/**
 * Declares what all deciding verbs have in common: one person decides one call, or several calls in the same
 * way.
 */
import type { Command } from 'commander';
import { print } from '../session/answered.ts';
import { examples } from '../session/examples.ts';
import { repeated } from '../session/options.ts';
import { withSession } from '../session/session.ts';
import type { Terminal } from '../session/terminal.ts';
import { batchAnswer, decisionAnswer, planAnswer } from '../views/decision.ts';
import {
  assertAllDecided,
  assertForSeveral,
  type BatchOptions,
  decideCall,
  type Judged,
  notConfirmed,
  planBatch,
} from './deciding.ts';

interface DecisionVerb<Options> {
  readonly name: string;
  readonly summary: string;
  readonly description: string;
  /** Description of `--as`. */
  readonly who: string;
  readonly examples: readonly string[];
  /** Adds the verb's own options. */
  readonly own: (command: Command) => Command;
  readonly judged: (options: Options) => Judged | Promise<Judged>;
  /** True if one command may decide several calls. */
  readonly several?: true;
}

export function addDecision<Options>(program: Command, terminal: Terminal, verb: DecisionVerb<Options>): void {
  const command = program
    .command(verb.name)
    .summary(verb.summary)
    .description(verb.description)
    .argument('<run>', 'run id')
    .requiredOption('--as <id>', verb.who);
  if (verb.several === true)
    command
      .argument('[calls...]', 'call ids, such as t2.c0')
      .option('--all', 'every call that waits and that you may decide')
      .option('--yes', 'decide several calls; without it they are only shown')
      .option('--reveal', 'show arguments that policy keeps out of lists, too');
  else command.argument('<call>', 'call id, such as t2.c0');
  verb
    .own(command)
    .option('--group <name>', 'a group the decider belongs to; may be given several times', repeated)
    .option('--digest <sha256>', 'decide only the request with this digest')
    .option('--decision-id <id>', 'the id of a decision whose answer got lost: sent again, it counts once')
    .addHelpText('after', examples(...verb.examples))
    .action(async (runId: string, named: string | readonly string[], _own: unknown, used: Command) => {
      const options = used.optsWithGlobals<BatchOptions & Options>();
      const judged = await verb.judged(options);
      const callIds = typeof named === 'string' ? [named] : named;
      const [callId] = callIds;
      const isOne = callIds.length === 1 && options.all !== true;
      if (!isOne) assertForSeveral(callIds, judged, options);
      const asJson = options.json === true;
      await withSession(terminal, options, async ({ countersign }) => {
        const run = countersign.run(runId);
        if (callId !== undefined && isOne)
          return print(terminal, decisionAnswer(runId, await decideCall(run, callId, judged, options)), asJson);
        const plan = await planBatch(run, callIds, judged, options);
        if (options.yes !== true) {
          print(terminal, planAnswer(runId, plan, options.reveal === true), asJson);
          throw notConfirmed(plan);
        }
        const answers = await run.decideAll(plan.decisions);
        print(terminal, batchAnswer(runId, plan, answers), asJson);
        assertAllDecided(answers);
      });
    });
}

/** Options of verbs whose comment goes to the ledger only. */
export interface Commented {
  readonly comment?: string;
}

export function withComment(command: Command): Command {
  return command.option('--comment <text>', 'kept in the ledger');
}
