/** `countersign ledger`: the whole record of a run, or of a catalog. */
import type { Command } from 'commander';
import { print } from '../answer.ts';
import { examples } from '../examples.ts';
import type { GlobalOptions } from '../options.ts';
import { ledgerOwner } from '../record.ts';
import { withSession } from '../session.ts';
import type { Terminal } from '../terminal.ts';
import { entryText } from '../views/ledger.ts';

export function addLedger(program: Command, terminal: Terminal): void {
  program
    .command('ledger')
    .summary('the whole record of a run')
    .description('Everything that was judged, asked, decided, sent and answered in a run, oldest first')
    .argument('<run>', 'run id, or catalog/<tenant>/<server>')
    .addHelpText(
      'after',
      examples(
        'ledger nightly-42',
        'ledger nightly-42 --json > nightly-42.ledger.json',
        'ledger catalog/default/files',
      ),
    )
    .action(async (runId: string, _own: unknown, command: Command) => {
      const options = command.optsWithGlobals<GlobalOptions>();
      const entries = await withSession(terminal, options, ({ countersign }) =>
        ledgerOwner(countersign, runId).ledger(),
      );
      print(
        terminal,
        { json: { runId, entries }, text: (paint) => entries.map((entry) => entryText(entry, paint)).join('\n') },
        options.json === true,
      );
    });
}
