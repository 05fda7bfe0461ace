/**
 * Installs the native Temporal runtime. A process has only one, so the first to install it decides where its logs go.
 */
import { IllegalStateError } from '@temporalio/common';
import { DefaultLogger, Runtime } from '@temporalio/worker';
import type { LoadedConfig } from '../../workers/config/load.ts';
import { installLog, type Log } from '../../workers/log.ts';

/** Returns undefined if another part of the process has installed a runtime. */
export function installWorkerLog({
  config,
  headerSecrets,
}: Pick<LoadedConfig, 'config' | 'headerSecrets'>): Log | undefined {
  return once(() => installLog(config, headerSecrets));
}

/** Installs a runtime without logs, for commands whose answer already contains every trouble. */
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
