/** An option that would change nothing is a mistake that is told, before anything is read or sent. */
import { expect, test } from '@jest/globals';
import { errorOf, runCommand } from '../../support/cli.ts';
import { useConfigFolders } from '../../support/config-folder.ts';

const { folder } = useConfigFolders();

test.each([
  ['verify-ledger run-1 --keys keys.json', '--records DIRECTORY'],
  ['verify-ledger run-1 --keys keys.json --live', '--records DIRECTORY'],
  ['verify-ledger run-1 --trust trust.jwks --no-history', 'Leave out --no-history'],
  ['verify-ledger catalog/default/bank --trust trust.jwks', 'are verified when it is changed'],
  ['verify-ledger run-1 --first-run r', '--first-run is of --records'],
  ['verify-ledger run-1 --first-run r --file one.jsonl', '--first-run is of --records'],
  ['ledger run-1 --export jsonl --first-run r', '--first-run is of --records'],
  ['ledger run-1 --file one.jsonl', 'Add --export'],
  ['ledger run-1 --records records', 'Add --export'],
  ['ledger run-1 --segment abc', 'Add --export'],
  ['ledger run-1 --first-run r', 'Add --export'],
  ['ledger run-1 --export csv', 'two formats'],
  ['approve run-1 t1.c0 --as ann --remember-until 2026-02-01T09:00Z', '--remember-until is the end of --remember'],
  ['stop run-1 --as ann --reason no --group ops', '--key FILE'],
  ['say run-1 --as ann --text hello --group ops', '--key FILE'],
])('%s', async (line, reason) => {
  // Nobody listens there.
  const args = [...line.split(' '), '--address', '127.0.0.1:1', '--deadline', '1', '--json'];
  const refused = await runCommand(args, { directory: await folder() });
  expect(errorOf(refused)).toMatchObject({ code: 'USAGE', message: expect.stringContaining(reason) });
  expect(refused.exitCode).toBe(2);
});
