/** Where Temporal is: the standard environment and profile of every Temporal tool (`TEMPORAL_*`, temporal.toml). */
import { loadClientConnectConfig } from '@temporalio/envconfig';
import type { NativeConnectionOptions } from '@temporalio/worker';

export interface EngineAddress {
  readonly connectionOptions: NativeConnectionOptions;
  readonly namespace: string;
}

export interface EngineOverrides {
  readonly address?: string | undefined;
  readonly namespace?: string | undefined;
  readonly profile?: string | undefined;
}

export function locateEngine({ address, namespace, profile }: EngineOverrides = {}): EngineAddress {
  const found = loadClientConnectConfig(profile === undefined ? {} : { profile });
  return {
    connectionOptions: { ...found.connectionOptions, ...(address === undefined ? {} : { address }) },
    namespace: namespace ?? found.namespace ?? 'default',
  };
}
