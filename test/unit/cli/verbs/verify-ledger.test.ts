/** What `verify-ledger` says of a copy that holds little or nothing: where nothing was checked, nothing is called good (J). */
import { expect, test } from '@jest/globals';
import { chainOf } from '../../../support/builders/ledger-record.ts';
import { documentOf, runCommand } from '../../../support/cli.ts';
import { fileOf } from '../../../support/stories/signed-ledger.ts';

async function verified(file: string, ...args: readonly string[]) {
  const result = await runCommand(['verify-ledger', 'run-1', '--file', file, '--json', ...args]);
  return { exitCode: result.exitCode, ...documentOf<{ verdict: string; faults: readonly object[] }>(result) };
}
const copyOf = async (length: number) =>
  await fileOf(JSON.stringify({ runId: 'run-1', entries: chainOf(length) }), 'ledger.json');
const trust = async () => await fileOf('{"keys":[]}', 'trust.jwks');

test('with trusted keys, a chain that names no start and no signer is not intact: whoever has the file can have made it', async () => {
  expect(await verified(await copyOf(3), '--trust', await trust())).toMatchObject({
    exitCode: 7,
    verdict: 'broken',
    faults: [{ kind: 'proof-unsigned', seq: 0 }],
  });
  // Without keys nobody is asked who signed.
  expect(await verified(await copyOf(3))).toMatchObject({ exitCode: 0, verdict: 'chained', faults: [] });
});
