/**
 * Finds the Temporal CLI, which contains the development server. In a clone `scripts/temporal-cli.mjs` builds it where
 * it is missing.
 */
import { existsSync } from 'node:fs';
import { delimiter, join } from 'node:path';
import { CountersignError } from '../contracts/errors.ts';
import type { Environment } from './config/load.ts';

const EXECUTABLE = process.platform === 'win32' ? 'temporal.exe' : 'temporal';

/** @throws CountersignError `ENGINE_UNAVAILABLE` if there is none */
export function findTemporalCli(env: Environment): string {
  const given = env['TEMPORAL_CLI_PATH'];
  if (given !== undefined && given !== '') {
    if (existsSync(given)) return given;
    const message = `TEMPORAL_CLI_PATH names ${given}, which is not there. Correct it, or unset it.`;
    throw new CountersignError('ENGINE_UNAVAILABLE', message);
  }
  const folders = (env['PATH'] ?? '').split(delimiter).filter((folder) => folder !== '');
  const found = folders.map((folder) => join(folder, EXECUTABLE)).find((path) => existsSync(path));
  if (found !== undefined) return found;
  throw new CountersignError(
    'ENGINE_UNAVAILABLE',
    'The Temporal CLI is needed and is not on PATH. Install it (https://docs.temporal.io/cli), or set TEMPORAL_CLI_PATH. In a clone, countersign dev builds one.',
  );
}
