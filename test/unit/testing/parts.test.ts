/** A world for tests leaves nothing behind, and reads artifacts where its worker has put them. */
import { createHash } from 'node:crypto';
import { mkdir, writeFile } from 'node:fs/promises';
import { join } from 'node:path';
import { expect, test } from '@jest/globals';
import { Config, type ConfigInput } from '../../../contracts/schemas/config.ts';
import { readerOf, stopAll } from '../../../testing/parts.ts';
import { useConfigFolders } from '../../support/config-folder.ts';
import { withCode } from '../../support/refusal.ts';

const { folder } = useConfigFolders();

test('every part is stopped, the last first, and the first failure is told', async () => {
  const stopped: string[] = [];
  const part = (name: string, failure?: string) => ({
    stop: async () => {
      stopped.push(name);
      if (failure !== undefined) throw new Error(failure);
    },
  });
  const started = [part('folder'), part('engine', 'late'), part('server'), part('worker', 'first')];
  await expect(stopAll(started)).rejects.toThrow('first');
  expect(stopped).toEqual(['worker', 'server', 'engine', 'folder']);
  await expect(stopAll(started)).resolves.toBeUndefined();
  expect(stopped).toHaveLength(4);
});

const CONTENT = Buffer.from('stored');
const SHA256 = createHash('sha256').update(CONTENT).digest('hex');
const REF = { sha256: SHA256, bytes: CONTENT.length, contentType: 'text/plain' };

test.each([
  ['beside the configuration', (root: string) => ({ directory: 'own', root: join(root, 'own') })],
  ['elsewhere', (root: string) => ({ directory: join(root, 'far'), root: join(root, 'far') })],
])('artifacts of a directory %s are read where workers store them', async (_what, place) => {
  const base = await folder();
  const { directory, root } = place(base);
  const inside = join(root, SHA256.slice(0, 2), SHA256.slice(2, 4));
  await mkdir(inside, { recursive: true });
  await writeFile(join(inside, SHA256), CONTENT);
  const config = Config.parse({ artifacts: { directory } } satisfies ConfigInput);
  const read = await readerOf(config, base).get(REF);
  expect(Buffer.from(read).toString()).toBe('stored');
});

test('artifacts of a bucket are read from the bucket', async () => {
  // Nobody listens there.
  const s3 = { endpoint: 'http://127.0.0.1:1', region: 'r', bucket: 'agents', accessKeyId: 'a', secretAccessKey: 's' };
  const config = Config.parse({ artifacts: { s3 }, egress: { allowLoopback: true } } satisfies ConfigInput);
  await expect(readerOf(config, await folder()).get(REF)).rejects.toMatchObject(
    withCode('ARTIFACT_MISSING', '127.0.0.1:1/agents'),
  );
});
