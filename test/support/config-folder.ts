/** Makes folders, of configuration files or others, and removes them after the tests of the file that uses them. */
import { mkdir, mkdtemp, rm, writeFile } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { afterAll, beforeAll, expect } from '@jest/globals';
import { stringify } from 'yaml';
import { type Environment, loadConfig, type LoadedConfig } from '../../workers/config/load.ts';
import { refusalOf } from './refusal.ts';

export interface ConfigFolders {
  /** Makes a new folder with these files. */
  folder(files?: Readonly<Record<string, string>>): Promise<string>;
  /** Loads a `countersign.yaml` with this text. */
  load(yaml: string, environment?: Environment): Promise<LoadedConfig>;
  /** Expects that this is refused at the path, and that nothing called `canary` is shown. @returns what is said */
  refusedAt(path: string, config: object): Promise<string>;
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
  const load: ConfigFolders['load'] = async (yaml, environment = {}) =>
    await loadConfig(undefined, environment, await folder({ 'countersign.yaml': yaml }));
  return {
    folder,
    load,
    refusedAt: async (path, config) => {
      const { code, facts, message } = await refusalOf(load(stringify(config)));
      expect({ code, facts }).toEqual({ code: 'CONFIG_INVALID', facts: { path } });
      expect(message).not.toContain('canary');
      return message;
    },
  };
}
