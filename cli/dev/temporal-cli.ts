/** The Temporal CLI, whose development server `countersign dev` runs. Finding or building one is the work of `scripts/temporal-cli.mjs`. */
import { existsSync } from 'node:fs';
import { delimiter, join } from 'node:path';
import { CountersignError } from '../../contracts/errors.ts';
import type { Terminal } from '../terminal.ts';

const EXECUTABLE = process.platform === 'win32' ? 'temporal.exe' : 'temporal';

export function findTemporalCli({ env }: Pick<Terminal, 'env'>): string {
  const given = env['TEMPORAL_CLI_PATH'];
  if (given !== undefined && given !== '') {
    if (existsSync(given)) return given;
    throw new CountersignError(
      'ENGINE_UNAVAILABLE',
      `TEMPORAL_CLI_PATH names ${given}, which is not there. Correct it, or unset it.`,
    );
  }
  const folders = (env['PATH'] ?? '').split(delimiter).filter((folder) => folder !== '');
  const found = folders.map((folder) => join(folder, EXECUTABLE)).find((path) => existsSync(path));
  if (found !== undefined) return found;
  throw new CountersignError(
    'ENGINE_UNAVAILABLE',
    'The Temporal CLI is needed and is not on PATH. Start with `npm run dev`, which finds or builds one, or install it (https://docs.temporal.io/cli), or set TEMPORAL_CLI_PATH.',
  );
}
