/** Where a worker makes its artifact store, and where it waits for one. */
import { readdir } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { expect, test } from '@jest/globals';
import { Config } from '../../../contracts/schemas/config.ts';
import { openArtifacts } from '../../../workers/composition.ts';
import { useConfigFolders } from '../../support/config-folder.ts';

const { folder } = useConfigFolders();

const opened = (baseDirectory: string, artifacts?: { directory: string }) =>
  openArtifacts({ config: Config.parse({ artifacts }), path: undefined, baseDirectory });

test("the store of the defaults is made in the configuration's folder", async () => {
  const store = await opened(await folder());
  const ref = await store.put(new Uint8Array([7]), 'text/plain');
  expect(Buffer.from(await store.get(ref))).toEqual(Buffer.from([7]));
});

test.each(['../elsewhere', join(tmpdir(), 'countersign-not-mounted')])(
  'INV-D3: a store in another place is not made: a volume may be missing (%s)',
  async (directory) => {
    const parent = await folder();
    const base = join(parent, 'base');
    await expect(opened(base, { directory })).rejects.toMatchObject({ code: 'SETUP_INCOMPLETE' });
    expect(await readdir(parent)).not.toContain('elsewhere');
  },
);
