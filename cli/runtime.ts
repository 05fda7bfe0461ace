/** The native Temporal runtime of this process: one per process, so whoever installs it first says where its logs go. */
import { IllegalStateError } from '@temporalio/common';
import { DefaultLogger, Runtime } from '@temporalio/worker';
import type { Config } from '../contracts/schemas/config.ts';
import { installLog } from '../workers/log.ts';

export function installWorkerLog(config: Config): void {
  once(() => installLog(config));
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

export function logWarning(message: string, meta: Record<string, unknown>): void {
  Runtime.instance().logger.warn(message, meta);
}

function once(install: () => unknown): void {
  try {
    install();
  } catch (error) {
    if (!(error instanceof IllegalStateError)) throw error;
  }
}
