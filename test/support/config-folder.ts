/** Configuration files in folders of their own, removed after the tests of the file that uses them. */
import { mkdir, mkdtemp, rm, writeFile } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { afterAll, beforeAll } from '@jest/globals';
import { type Environment, loadConfig, type LoadedConfig } from '../../workers/config/load.ts';

export interface ConfigFolders {
  /** A new folder with these files. */
  folder(files?: Readonly<Record<string, string>>): Promise<string>;
  /** What a `countersign.yaml` of this text loads as. */
  load(yaml: string, environment?: Environment): Promise<LoadedConfig>;
}

export function useConfigFolders(): ConfigFolders {
  let root: string;
  let count = 0;
  beforeAll(async () => {
    root = await mkdtemp(join(tmpdir(), 'countersign-config-'));
  });
  afterAll(async () => rm(root, { recursive: true, force: true }));

  const folder: ConfigFolders['folder'] = async (files = {}) => {
    count += 1;
    const directory = join(root, String(count));
    await mkdir(directory);
    for (const [name, text] of Object.entries(files)) await writeFile(join(directory, name), text);
    return directory;
  };
  return {
    folder,
    load: async (yaml, environment = {}) =>
      loadConfig(undefined, environment, await folder({ 'countersign.yaml': yaml })),
  };
}
