/**
 * Implements `countersign ledger`, which shows the whole ledger of a run or catalog, or exports it for other
 * programs.
 */
import { type Command, Option } from 'commander';
import { CountersignError } from '../../contracts/errors.ts';
import { print } from '../session/answered.ts';
import { examples } from '../session/options.ts';
import { liveCopy, liveLedger, namedCopy, type SourceOptions } from '../session/ledger-sources.ts';
import { withSession } from '../session/session.ts';
import type { Terminal } from '../session/terminal.ts';
import { entryText, type ExportFormat, exportText } from '../views/ledger.ts';
import { stuckJson, stuckText } from '../views/recovery.ts';

interface LedgerOptions extends SourceOptions {
  readonly export?: ExportFormat;
}

export function addLedger(program: Command, terminal: Terminal): void {
  program
    .command('ledger')
    .summary('the whole record of a run')
    .description('Everything that was judged, asked, decided, sent and answered in a run, oldest first')
    .argument('<run>', 'run id, or catalog/<tenant>/<server>')
    .addOption(
      new Option(
        '--export <format>',
        'write it for other programs: one JSON line or one CSV row for each entry',
      ).choices(['jsonl', 'csv']),
    )
    .option('--file <file>', 'with --export: of what was exported before, without a server')
    .option('--records <directory>', 'with --export: of what ledger.directory holds of the run, without a server')
    .option('--first-run <id>', 'with --records: which run of this id, by its first Temporal run id')
    .option(
      '--segment <sha256>',
      'with --export: of the artifact store, from the newest segment back, without a server',
    )
    .addHelpText(
      'after',
      examples(
        'ledger nightly-42',
        'ledger nightly-42 --json > nightly-42.ledger.json',
        'ledger nightly-42 --export csv > nightly-42.csv',
        'ledger nightly-42 --export jsonl --records /srv/ledger > nightly-42.jsonl',
        'ledger catalog/default/files',
      ),
    )
    .action(async (runId: string, _own: unknown, command: Command) => {
      const options = command.optsWithGlobals<LedgerOptions>();
      assertMeant(options);
      const format = options.export;
      if (format !== undefined) {
        const named = await namedCopy(runId, options, terminal);
        if (named !== undefined) return terminal.out(exportText(format, named));
        const { stuck, ...copy } = await withSession(terminal, options, async (session) => liveCopy(session, runId));
        // An export holds only entries, so this note goes to standard error.
        if (stuck !== undefined) terminal.err(`${stuckText(stuck, terminal.paint)}\n`);
        return terminal.out(exportText(format, copy));
      }
      const { entries, stuck } = await withSession(terminal, options, async (session) => liveLedger(session, runId));
      print(
        terminal,
        {
          json: { runId, entries, ...(stuck && { stuck: stuckJson(stuck) }) },
          text: (paint) =>
            [...entries.map((entry) => entryText(entry, paint)), ...(stuck ? [stuckText(stuck, paint)] : [])].join(
              '\n',
            ),
        },
        options.json === true,
      );
    });
}

/** @throws CountersignError `USAGE` for an option that would have no effect */
function assertMeant({ export: format, json, file, records, segment, firstRun }: LedgerOptions): void {
  if (format === undefined && [file, records, segment, firstRun].some((source) => source !== undefined))
    throw new CountersignError(
      'USAGE',
      '--file, --records, --first-run and --segment are read with --export. Add --export jsonl or csv, or leave them out.',
    );
  if (format === 'csv' && json === true)
    throw new CountersignError('USAGE', '--json and --export csv are two formats. Name one, or --export jsonl.');
}
