/** `countersign result`: waits for the end of a run. */
import type { Command } from 'commander';
import { print } from '../answer.ts';
import { examples } from '../examples.ts';
import type { GlobalOptions } from '../options.ts';
import { withSession } from '../session.ts';
import type { Terminal } from '../terminal.ts';
import { resultText } from '../views/run.ts';
import { pauseTeller, waitForResult } from '../wait.ts';

export function addResult(program: Command, terminal: Terminal): void {
  program
    .command('result')
    .summary('wait for the end of a run')
    .description('Wait for the end of a run and print its answer; with --deadline, no longer than that')
    .argument('<run>', 'run id')
    .addHelpText('after', examples('result nightly-42', 'result nightly-42 --deadline 60 --json'))
    .action(async (runId: string, _own: unknown, command: Command) => {
      const options = command.optsWithGlobals<GlobalOptions>();
      const result = await withSession(terminal, options, ({ countersign }) =>
        waitForResult(countersign.run(runId), options.deadline, pauseTeller(terminal, options)),
      );
      print(
        terminal,
        { json: { runId, ...result }, text: (paint) => resultText(runId, result, paint) },
        options.json === true,
      );
    });
}
