/** Which S3-compatible server is tested against: the one that is named, else the first that runs on PATH, or was built here. */
import { expect, test } from '@jest/globals';
import { ensureS3Server } from '../../../scripts/s3-server.mjs';
import { useOwnPath } from '../../support/own-path.ts';

// Nothing of this machine is found: neither a server, nor the Go that would build one.
const { program } = useOwnPath('S3_SERVER_PATH');

async function fake(folder: string, exitCode = 0): Promise<string> {
  return await program(`${folder}/versitygw`, `echo "Version  : 1.8.0"\nexit ${exitCode}`);
}

test('S3_SERVER_PATH goes before PATH, PATH before what was built here', async () => {
  const built = await fake('cache/countersign/s3-server/1.8.0');
  expect(await ensureS3Server()).toBe(built);
  const installed = await fake('bin');
  expect(await ensureS3Server()).toBe(installed);
  const named = await fake('named');
  process.env['S3_SERVER_PATH'] = named;
  expect(await ensureS3Server()).toBe(named);
});

test('a named one that does not run is an error, not a reason to take another', async () => {
  await fake('bin');
  process.env['S3_SERVER_PATH'] = await fake('named', 1);
  await expect(ensureS3Server()).rejects.toThrow('S3_SERVER_PATH is');
});

test('where there is none, and no Go to build one, it is said what to do', async () => {
  await expect(ensureS3Server()).rejects.toThrow(
    /Go, which would build it, is not installed[\s\S]*install Go 1\.25[\s\S]*S3_SERVER_PATH/,
  );
});
