/** What `verify-ledger` says of a copy that holds little or nothing: where nothing was checked, nothing is called good (J). */
import { mkdir, writeFile } from 'node:fs/promises';
import { join } from 'node:path';
import { expect, test } from '@jest/globals';
import { createDirectoryStore } from '../../../../activities/artifacts/directory.ts';
import { setUpRoot } from '../../../../activities/artifacts/root.ts';
import { chainOf } from '../../../support/builders/ledger-record.ts';
import { documentOf, errorOf, runCommand } from '../../../support/cli.ts';
import { useConfigFolders } from '../../../support/config-folder.ts';
import { headKey } from '../../../support/signing/keys.ts';
import { fileOf } from '../../../support/stories/signed-ledger.ts';

const { folder } = useConfigFolders();

async function verified(file: string, ...args: readonly string[]) {
  return await reported('--file', file, ...args);
}
async function reported(...args: readonly string[]) {
  const result = await runCommand(['verify-ledger', 'run-1', '--json', ...args]);
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

test('a copy without an entry is broken: a record whose files were deleted is nothing that was checked', async () => {
  const nothing = { exitCode: 7, verdict: 'broken', length: 0, faults: [{ kind: 'missing', seq: 0 }] };
  expect(await verified(await copyOf(0))).toMatchObject(nothing);
  // The rest of an export that was interrupted, or of which nothing came.
  expect(await verified(await fileOf('', 'ledger.jsonl'))).toMatchObject(nothing);
  const root = await folder();
  const records = join(root, '3f', 'run-1~3f0c-first');
  await mkdir(records, { recursive: true });
  const key = await fileOf(headKey().publicPem, 'worker.pub');
  for (const args of [[], ['--keys', key], ['--trust', await trust()]])
    expect(await reported('--records', root, ...args)).toMatchObject(nothing);
  // A file of which a crash left nothing.
  await writeFile(join(records, '000000000000-0000000000000000.jsonl'), '');
  expect(await reported('--records', root, '--keys', key)).toMatchObject(nothing);
});

test('a record that cannot be read is said to be that, with what to do; what else lies on its volume is not looked at', async () => {
  const root = await folder();
  const records = join(root, '3f', 'run-1~3f0c-first');
  const file = join(records, '000000000000-0000000000000000.jsonl');
  await mkdir(join(root, 'lost+found', 'run-1~3f0c-other'), { recursive: true });
  await mkdir(file, { recursive: true });
  const result = await runCommand(['verify-ledger', 'run-1', '--json', '--records', root]);
  expect(result.exitCode).toBe(2);
  expect(errorOf(result)).toMatchObject({
    code: 'USAGE',
    message: expect.stringMatching(/jsonl cannot be read \(EISDIR\)\. .*verify as that user/),
  });
});

test('an artifact that is no segment is refused, and nothing of it is quoted', async () => {
  const directory = await folder();
  const root = join(directory, 'store');
  setUpRoot(root, true);
  const { sha256 } = await createDirectoryStore(root).put(new TextEncoder().encode('canary in a result'), 'text/plain');
  await writeFile(join(directory, 'countersign.yaml'), 'artifacts: { directory: store }\n');
  const args = ['verify-ledger', 'run-1', '--json', '--segment', sha256, '--config', 'countersign.yaml'];
  const result = await runCommand(args, { directory });
  expect(errorOf(result)).toMatchObject({ code: 'ARTIFACT_CORRUPT', message: expect.stringContaining('segment') });
  expect(`${result.out}${result.err}`).not.toContain('canary');
});

test.each([
  [['--segment', 'abc'], /64 hexadecimal characters/],
  [['--file', 'absent.jsonl'], /ledger file absent\.jsonl cannot be read \(ENOENT\)\. Name a file/],
  [['--file', 'absent.jsonl', '--keys', 'absent.pub'], /key file absent\.pub cannot be read \(ENOENT\)\. Name a file/],
])('with %j the command line is wrong, which passes by no repeat, and says what', async (args, says) => {
  const result = await runCommand(['verify-ledger', 'run-1', '--json', ...args]);
  expect(result.exitCode).toBe(2);
  expect(errorOf(result)).toMatchObject({ code: 'USAGE', message: expect.stringMatching(says) });
});

test('a head that was noted may be its beginning, in any case; one that can be no head says nothing of the ledger', async () => {
  const copy = await copyOf(3);
  const [, noted = ''] = chainOf(3).map(({ hash }) => hash);
  for (const head of [noted, noted.toUpperCase(), noted.slice(0, 32)])
    expect(await verified(copy, '--head', head)).toMatchObject({ exitCode: 0, verdict: 'chained' });
  expect(await verified(copy, '--head', 'f'.repeat(64))).toMatchObject({ exitCode: 7, verdict: 'broken' });
  for (const head of ['', noted.slice(0, 12), `${noted}0`, 'HEAD'])
    expect((await runCommand(['verify-ledger', 'run-1', '--file', copy, '--head', head])).exitCode).toBe(2);
});
