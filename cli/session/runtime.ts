/** The native Temporal runtime of this process: one per process, so whoever installs it first says where its logs go. */
import { IllegalStateError } from '@temporalio/common';
import { DefaultLogger, Runtime } from '@temporalio/worker';
import type { Config } from '../../contracts/schemas/config.ts';
import { installLog, type Log } from '../../workers/log.ts';

/** Undefined where somebody else has installed one. */
export function installWorkerLog(config: Config): Log | undefined {
  return once(() => installLog(config));
}

/** Where every trouble is an answer of the command already. */
export function installSilentLog(): void {
  once(() =>
    Runtime.install({
      logger: new DefaultLogger('ERROR', () => undefined),
      telemetryOptions: { logging: { filter: { core: 'ERROR', other: 'ERROR' }, forward: {} } },
    }),
  );
}

function once<T>(install: () => T): T | undefined {
  try {
    return install();
  } catch (error) {
    if (!(error instanceof IllegalStateError)) throw error;
    return undefined;
  }
}
