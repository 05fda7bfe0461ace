/** The configuration of a process: one file, checked as a whole before anything is started. */
import { Config } from '../contracts/schemas/config.ts';
import { parseAs } from '../contracts/schemas/parse.ts';
import { checkConfig } from './config-checks.ts';
import { type Environment, substitute } from './config-environment.ts';
import { CONFIG_FILE, readConfigFile } from './config-file.ts';

export interface LoadedConfig {
  readonly config: Config;
  /** Absolute; undefined where there is no file and all is default. */
  readonly path: string | undefined;
  /** What relative paths of the configuration are relative to. */
  readonly baseDirectory: string;
}

/**
 * @param path `--config`; else `COUNTERSIGN_CONFIG`, else `./countersign.yaml`, else the defaults.
 * @throws CountersignError `CONFIG_INVALID` or `AUTHORIZATION_IN_HEADERS`, naming file and path.
 */
export async function loadConfig(
  path: string | undefined,
  environment: Environment,
  workingDirectory: string = process.cwd(),
): Promise<LoadedConfig> {
  const file = await readConfigFile(path, environment, workingDirectory);
  const what = file?.what ?? `configuration (there is no ${CONFIG_FILE})`;
  const value = substitute(file?.value ?? {}, environment, what);
  const config = parseAs(Config, value, 'CONFIG_INVALID', what);
  checkConfig(config, what);
  return { config, path: file?.path, baseDirectory: file?.baseDirectory ?? workingDirectory };
}
