/**
 * Implements `countersign ledger`, which shows the whole ledger of a run or catalog, or exports it for other programs.
 */
import type { LedgerFault } from '../../client/ledger/check.ts';
import { CountersignError } from '../../contracts/errors.ts';
import { type LiveCopy, liveCopy, liveLedger, namedCopy } from '../session/ledger-sources.ts';
import * as option from '../session/options.ts';
import { verb } from '../session/verb.ts';
import { entryText, type ExportFormat, exportText } from '../views/ledger.ts';
import { stuckJson, stuckText } from '../views/recovery.ts';

const OPTIONS = {
  export: option.choice<ExportFormat>(
    ['jsonl', 'csv'],
    '<format>',
    'write it for other programs: one JSON line or one CSV row for each entry',
  ),
  file: option.text('<file>', 'with --export: read an earlier export instead of the run; needs no server'),
  records: option.text('<directory>', 'with --export: read what ledger.directory holds of the run; needs no server'),
  firstRun: option.text('<id>', 'with --records: which run of this id, by its first Temporal run id'),
  segment: option.text(
    '<sha256>',
    'with --export: read the artifact store, from the newest segment back; needs no server',
  ),
} satisfies option.OptionRows;

export const LEDGER = verb({
  name: 'ledger',
  summary: 'print the ledger of a run',
  description: 'Print everything that was judged, asked, decided, sent and answered in a run, oldest first',
  args: { run: option.one('run id, or catalog/<tenant>/<server>') },
  options: OPTIONS,
  examples: [
    'ledger nightly-42',
    'ledger nightly-42 --json > nightly-42.ledger.json',
    'ledger nightly-42 --export csv > nightly-42.csv',
    'ledger nightly-42 --export jsonl --records /srv/ledger > nightly-42.jsonl',
    'ledger catalog/default/files',
  ],
  run: async ({ args: { run: runId }, options, terminal, session }) => {
    assertMeant(options);
    if (options.export !== undefined) {
      const named = await namedCopy(runId, options, terminal);
      const copy: LiveCopy = named ?? (await session(async (opened) => liveCopy(opened, runId)));
      // An export holds only entries, so this note goes to standard error.
      if (copy.stuck !== undefined) terminal.err(`${stuckText(copy.stuck, terminal.paint)}\n`);
      terminal.out(exportText(options.export, copy));
      // Lines that could not be read are left out, and no reader of the export would know.
      const [first] = copy.faults;
      if (first !== undefined) throw incomplete(runId, first, copy.faults.length - 1);
      return undefined;
    }
    const { entries, stuck } = await session(async (opened) => liveLedger(opened, runId));
    return {
      json: { runId, entries, ...(stuck && { stuck: stuckJson(stuck) }) },
      text: (paint) =>
        [...entries.map((entry) => entryText(entry, paint)), ...(stuck ? [stuckText(stuck, paint)] : [])].join('\n'),
    };
  },
});

function incomplete(runId: string, { seq, kind, reason }: LedgerFault, others: number): CountersignError {
  const more = others === 0 ? '' : ` There are ${others} more.`;
  const message = `The export of ${runId} has only what can be read: entry ${seq} ${reason}.${more} See: countersign verify-ledger`;
  return new CountersignError('LEDGER_BROKEN', message, { runId, seq, kind });
}

function assertMeant({
  export: format,
  json,
  file,
  records,
  segment,
  firstRun,
}: option.Values<typeof OPTIONS> & option.GlobalOptions): void {
  if (format === undefined && [file, records, segment, firstRun].some((source) => source !== undefined)) {
    const message =
      '--file, --records, --first-run and --segment are read with --export. Add --export jsonl or csv, or leave them out.';
    throw option.usage(message);
  }
  if (format === 'csv' && json === true)
    throw option.usage('--json and --export csv are two formats. Name one, or --export jsonl.');
}
