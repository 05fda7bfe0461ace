/** Starts workers with one server of well-behaved tools, known by as many names as a test needs. */
import type { ConfigInput } from '../../../contracts/schemas/config.ts';
import { type RecordingServer, startRecordingServer } from '../servers/recording-server.ts';
import { beforehand, partsOf } from './during.ts';
import { startWorld, type World, type WorldOptions } from './world.ts';

export interface BankWorld {
  readonly bank: RecordingServer;
  readonly world: World;
}

export type BankOptions = Omit<WorldOptions, 'config'> & { readonly names?: readonly string[] };

/**
 * Starts a world whose server ends with it.
 * @param config its servers are added to the named ones
 */
export async function startBank(
  config: ConfigInput = {},
  { names = ['bank'], ...options }: BankOptions = {},
): Promise<BankWorld> {
  const bank = await startRecordingServer();
  const at = { url: bank.url, credentials: { kind: 'none' } } as const;
  const servers = { ...Object.fromEntries(names.map((name) => [name, at])), ...config.servers };
  const beside = [bank, ...(options.beside ?? [])];
  return { bank, world: await startWorld({ ...options, beside, config: { ...config, servers } }) };
}

/**
 * Has one during the tests of a file or group.
 * @param config a function, where it names what is made before it
 */
export function useBank(config: ConfigInput | (() => ConfigInput) = {}, options?: BankOptions): BankWorld {
  const start = async () => await startBank(typeof config === 'function' ? config() : config, options);
  return partsOf(
    beforehand(start, ({ world }) => world.stop()),
    'bank',
    'world',
  );
}
