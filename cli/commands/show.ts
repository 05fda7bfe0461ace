/** `countersign show`: where a run is. */
import type { Command } from 'commander';
import { print } from '../answer.ts';
import { examples } from '../examples.ts';
import type { GlobalOptions } from '../options.ts';
import { withSession } from '../session.ts';
import type { Paint, Terminal } from '../terminal.ts';
import { stateText } from '../views/run.ts';

export function addShow(program: Command, terminal: Terminal): void {
  program
    .command('show')
    .summary('where a run is')
    .description('Where a run is: status, what waits, what stands, tokens, spend, limits, ledger head')
    .argument('<run>', 'run id')
    .addHelpText('after', examples('show nightly-42', 'show nightly-42 --json'))
    .action(async (runId: string, _own: unknown, command: Command) => {
      const options = command.optsWithGlobals<GlobalOptions>();
      const { state, retries } = await withSession(terminal, options, async ({ countersign }) => {
        const run = countersign.run(runId);
        return { state: await run.state(), retries: await run.retries() };
      });
      const json = { ...state, ...(retries.length === 0 ? {} : { retries }) };
      const text = (paint: Paint): string => stateText(state, Date.now(), paint, retries);
      print(terminal, { json, text }, options.json === true);
    });
}
