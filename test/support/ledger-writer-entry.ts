/**
 * This program delivers a chain of this many entries into a ledger directory, and reports the result.
 *
 * Run it with `node --import tsx ledger-writer-entry.ts <root> <length>`.
 */
import { createLedgerDirectory } from '../../activities/ledger/directory.ts';
import { CountersignError } from '../../contracts/errors.ts';
import { chainOf, recordOf } from './builders/ledger-record.ts';

const [root = '', length = '0'] = process.argv.slice(2);
try {
  await createLedgerDirectory(root).deliver(recordOf(chainOf(Number(length))));
  process.stdout.write('delivered\n');
} catch (error) {
  process.stdout.write(error instanceof CountersignError ? `${error.code} ${error.message}\n` : `${String(error)}\n`);
}
