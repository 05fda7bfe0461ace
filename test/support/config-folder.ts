/** Makes folders for configuration files, and removes them after the tests of the file that uses them. */
import { mkdir, mkdtemp, rm, writeFile } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { afterAll, beforeAll } from '@jest/globals';
import { type Environment, loadConfig, type LoadedConfig } from '../../workers/config/load.ts';

export interface ConfigFolders {
  /** Makes a new folder with these files. */
  folder(files?: Readonly<Record<string, string>>): Promise<string>;
  /** Loads a `countersign.yaml` with this text. */
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
