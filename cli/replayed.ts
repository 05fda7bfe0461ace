/** What a command needs to replay histories with the code that it is made of. */
import type { ReplayOptions } from '../workers/replay.ts';
import type { ClientSettings } from './settings.ts';

/** The code of workflows, bundled, with what shows its answers. Takes some seconds. */
export async function readingOptions(settings: ClientSettings, namespace: string): Promise<ReplayOptions> {
  const [{ bundleForReading }, { installSilentLog }] = await Promise.all([
    import('../workers/replayed-run.ts'),
    import('./runtime.ts'),
  ]);
  installSilentLog();
  return { bundle: await bundleForReading(), config: settings, namespace };
}
