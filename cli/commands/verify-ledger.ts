/**
 * `countersign verify-ledger`: is the record of a run, or of a catalog, whole and unchanged?
 *
 * 1. Exit code 7 where it is not, with the number of the first entry that is wrong.
 */
import { readFile } from 'node:fs/promises';
import { resolve } from 'node:path';
import type { Command } from 'commander';
import { z } from 'zod';
import { assertIntact, type LedgerEntry } from '../../client/index.ts';
import { CountersignError } from '../../contracts/errors.ts';
import { LedgerEntry as LedgerEntrySchema } from '../../contracts/schemas/ledger.ts';
import { parseAs } from '../../contracts/schemas/parse.ts';
import { visible } from '../../domain/escape.ts';
import { print } from '../answer.ts';
import { examples } from '../examples.ts';
import type { GlobalOptions } from '../options.ts';
import { ledgerOwner } from '../record.ts';
import { withSession } from '../session.ts';
import type { Terminal } from '../terminal.ts';

interface VerifyOptions extends GlobalOptions {
  readonly file?: string;
  readonly head?: string;
}

export function addVerifyLedger(program: Command, terminal: Terminal): void {
  program
    .command('verify-ledger')
    .summary('is the record of a run whole and unchanged?')
    .description("Check a run's ledger: every entry follows the one before it, none was changed, dropped or swapped")
    .argument('<run>', 'run id, or catalog/<tenant>/<server>')
    .option('--file <file>', 'check what `countersign ledger --json` wrote, without a server')
    .option('--head <sha256>', 'the head that was noted earlier or elsewhere; it must be an entry of this ledger')
    .addHelpText(
      'after',
      examples('verify-ledger nightly-42', 'verify-ledger nightly-42 --file nightly-42.ledger.json --head 5c1d…'),
    )
    .action(async (runId: string, _own: unknown, command: Command) => {
      const options = command.optsWithGlobals<VerifyOptions>();
      const entries =
        options.file === undefined
          ? await storedLedger(runId, options, terminal)
          : await exportedLedger(runId, resolve(terminal.directory, options.file));
      const { head, length } = assertIntact(entries, runId);
      assertHolds(entries, options.head, runId);
      print(
        terminal,
        {
          json: { runId, intact: true, length, head },
          text: (paint) => `${paint('green', 'intact')}  ${visible(runId)}: ${length} entries, head ${head}`,
        },
        options.json === true,
      );
    });
}

/** The run's own count and head are compared too: a ledger cut off at its end is a valid chain. */
async function storedLedger(
  runId: string,
  options: VerifyOptions,
  terminal: Terminal,
): Promise<readonly LedgerEntry[]> {
  return await withSession(terminal, options, async ({ countersign }) => {
    const owner = ledgerOwner(countersign, runId);
    // Asked first: the ledger may grow meanwhile, and never shrinks.
    const { ledgerHead, ledgerLength } = await owner.head();
    const entries = await owner.ledger();
    if (entries.length < ledgerLength) {
      throw new CountersignError(
        'LEDGER_BROKEN',
        `The ledger of ${runId} has ${entries.length} entries; ${ledgerLength} were written.`,
        { runId, seq: entries.length },
      );
    }
    if (ledgerLength > 0) assertHolds(entries, ledgerHead, runId);
    return entries;
  });
}

const ExportedLedger = z.object({ runId: z.string(), entries: z.array(LedgerEntrySchema) });

async function exportedLedger(runId: string, path: string): Promise<readonly LedgerEntry[]> {
  const text = await readFile(path, 'utf8').catch((error: NodeJS.ErrnoException) => {
    throw new CountersignError(
      'USAGE',
      `The ledger file cannot be read (${error.code ?? 'error'}).`,
      {},
      { cause: error },
    );
  });
  const exported = parseAs(ExportedLedger, parseJson(text), 'USAGE', 'ledger file');
  if (exported.runId === runId) return exported.entries;
  throw new CountersignError('USAGE', 'The ledger file is of another run.', { runId: exported.runId });
}

function parseJson(text: string): unknown {
  try {
    return JSON.parse(text);
  } catch {
    return undefined;
  }
}

function assertHolds(entries: readonly LedgerEntry[], head: string | undefined, runId: string): void {
  if (head === undefined || entries.some(({ hash }) => hash === head)) return;
  throw new CountersignError('LEDGER_BROKEN', `The ledger of ${runId} has no entry with hash ${head}.`, { runId });
}
