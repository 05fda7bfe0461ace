/** Where a worker makes its artifact store, and where it waits for one. */
import { mkdtemp, readdir, rm } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { afterAll, beforeAll, expect, test } from '@jest/globals';
import { Config } from '../../../contracts/schemas/config.ts';
import { openArtifacts } from '../../../workers/composition.ts';

let folder: string;
beforeAll(async () => {
  folder = await mkdtemp(join(tmpdir(), 'countersign-composition-'));
});
afterAll(async () => rm(folder, { recursive: true, force: true }));

const opened = (baseDirectory: string, artifacts?: { directory: string }) =>
  openArtifacts({ config: Config.parse({ artifacts }), path: undefined, baseDirectory });

test("the store of the defaults is made in the configuration's folder", async () => {
  const store = await opened(folder);
  const ref = await store.put(new Uint8Array([7]), 'text/plain');
  expect(Buffer.from(await store.get(ref))).toEqual(Buffer.from([7]));
});

test.each(['../elsewhere', join(tmpdir(), 'countersign-not-mounted')])(
  'INV-D3: a store in another place is not made: a volume may be missing (%s)',
  async (directory) => {
    const base = join(folder, 'base');
    await expect(opened(base, { directory })).rejects.toMatchObject({ code: 'SETUP_INCOMPLETE' });
    expect(await readdir(folder)).not.toContain('elsewhere');
  },
);
