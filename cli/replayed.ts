/** What a command needs to replay histories with the code that it is made of. */
import type { WorkflowBundle } from '../workers/bundle.ts';
import type { Diagnosis } from '../workers/replay-diagnosis.ts';
import type { ReplayOptions } from '../workers/replay.ts';
import type { ClientSettings } from './settings.ts';

let bundled: Promise<WorkflowBundle> | undefined;

/** The code of workflows, bundled, with what shows its answers. Takes some seconds, once. */
export async function readingOptions(settings: ClientSettings, namespace: string): Promise<ReplayOptions> {
  const [{ bundleForReading }, { installSilentLog }] = await Promise.all([
    import('../workers/replayed-run.ts'),
    import('./runtime.ts'),
  ]);
  installSilentLog();
  return { bundle: await (bundled ??= bundleForReading()), config: settings, namespace };
}

/** What programs are told of it. */
export function toldOf({ mended: _, ...told }: Diagnosis): Omit<Diagnosis, 'mended'> {
  return told;
}
