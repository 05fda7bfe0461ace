/**
 * These scenarios record runs whose tool server is away at their start. No worker serves its queue; in history that
 * looks the same as a server that is down.
 */
import { until } from '../../support/until.ts';
import { type Scenario, scenario, type Scene } from './scene.ts';

const START = { policy: { strategy: 'never' as const } };

async function listing(scene: Scene, runId?: string): Promise<string> {
  return await until(
    async () => {
      const { handle } = scene;
      const { runId: current, raw } = await handle.describe();
      const isListed = raw.pendingActivities?.some(({ activityType }) => activityType?.name === 'discoverTools');
      return isListed === true && current !== runId ? current : undefined;
    },
    { what: `the list of tools of ${scene.workflowId}` },
  );
}

export const AWAITING: readonly Scenario[] = [
  scenario('away', { points: ['away', 'away-first', 'away-continued', 'away-ended'], steps: [] }, async (scene) => {
    const { split } = scene.stage;
    await scene.start(START, { on: split });
    const runId = await listing(scene);
    await scene.take('away');
    await scene.handle.signal('nudge');
    await listing(scene, runId);
    await scene.take('away-first', { runId });
    await scene.take('away-continued');
    const tools = await split.serveTools();
    await scene.ended();
    await tools.stop();
    await scene.take('away-ended');
  }),
  scenario('away-stopped', { steps: [] }, async (scene) => {
    await scene.start(START, { on: scene.stage.split });
    await listing(scene);
    await scene.run.stop({ by: 'ben', reason: 'not today' });
    await scene.ended('away-stopped');
  }),
];
