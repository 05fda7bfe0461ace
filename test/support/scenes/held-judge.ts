/** Makes the judge of a world wait: what it needs is away, and the workers that had read it are gone. */
import { rename } from 'node:fs/promises';
import { join } from 'node:path';
import type { RunHandle } from '../../../client/index.ts';
import { until } from '../until.ts';
import { factsOf } from '../world/run-record.ts';
import type { World } from '../world/world.ts';

/** @returns lets the judge answer again */
export async function holdJudge(world: World, run: RunHandle): Promise<() => Promise<void>> {
  const [found] = factsOf(await run.ledger(), 'tools.discovered');
  if (found === undefined) throw new Error('the run has found tools');
  const { toolsHash } = found;
  const root = join(world.engine.directory, world.config.artifacts.directory);
  const stored = join(root, toolsHash.slice(0, 2), toolsHash.slice(2, 4), toolsHash);
  await rename(stored, `${stored}.away`);
  await world.restartWorkers();
  return async () => {
    await rename(`${stored}.away`, stored);
  };
}

/** Waits until this many edits of a run are being judged. */
export async function judging(world: World, run: RunHandle, count = 1): Promise<void> {
  const handle = world.client.workflow.getHandle(run.runId);
  await until(
    async () => {
      const { raw } = await handle.describe();
      const under = (raw.pendingActivities ?? []).filter(({ activityType }) => activityType?.name === 'judge');
      return under.length === count;
    },
    { what: `${count} edits of ${run.runId} being judged` },
  );
}
