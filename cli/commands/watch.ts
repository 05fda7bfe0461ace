/** `countersign watch`: the ledger as it grows. */
import type { Command } from 'commander';
import { print } from '../answer.ts';
import { examples } from '../examples.ts';
import { type GlobalOptions, wholeNumber } from '../options.ts';
import { withSession } from '../session.ts';
import type { Terminal } from '../terminal.ts';
import { entryText } from '../views/ledger.ts';

interface WatchOptions extends GlobalOptions {
  readonly from?: number;
}

export function addWatch(program: Command, terminal: Terminal): void {
  program
    .command('watch')
    .summary('the events of a run as they happen')
    .description('The events of a run as they happen, until it ends; with --json one entry per line')
    .argument('<run>', 'run id')
    .option('--from <number>', 'number of the first entry wanted (default: 0)', wholeNumber)
    .addHelpText('after', examples('watch nightly-42', 'watch nightly-42 --from 17 --json'))
    .action(async (runId: string, _own: unknown, command: Command) => {
      const options = command.optsWithGlobals<WatchOptions>();
      const signal = terminal.interrupted();
      await withSession(terminal, options, async ({ countersign }) => {
        for await (const entry of countersign.run(runId).watch({ cursor: options.from ?? 0, signal })) {
          print(terminal, { json: entry, text: (paint) => entryText(entry, paint) }, options.json === true);
        }
      });
    });
}
