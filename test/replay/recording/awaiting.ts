/**
 * These scenarios record runs whose tool server is away at their start. No worker serves its queue; in history that
 * looks the same as a server that is down.
 */
import { says, type Scenario, type Scene } from './scene.ts';
import { until } from '../../support/until.ts';

const DONE = says('The notes are in order.');
const START = { policy: { strategy: 'never' as const } };

async function listing(scene: Scene, runId?: string): Promise<string> {
  return await until(
    async () => {
      const handle = scene.deployment.client.workflow.getHandle(scene.workflowId);
      const { runId: current, raw } = await handle.describe();
      const isListed = raw.pendingActivities?.some(({ activityType }) => activityType?.name === 'discoverTools');
      return isListed === true && current !== runId ? current : undefined;
    },
    { what: `the list of tools of ${scene.workflowId}` },
  );
}

export const AWAITING: readonly Scenario[] = [
  {
    name: 'away',
    points: ['away', 'away-first', 'away-continued', 'away-ended'],
    script: { steps: [DONE] },
    play: async (scene) => {
      const { split } = scene.stage;
      await scene.start(START, { on: split });
      const runId = await listing(scene);
      await scene.take('away');
      await scene.deployment.client.workflow.getHandle(scene.workflowId).signal('nudge');
      await listing(scene, runId);
      await scene.take('away-first', { runId });
      await scene.take('away-continued');
      const tools = await split.serveTools();
      await scene.ended();
      await tools.stop();
      await scene.take('away-ended');
    },
  },
  {
    name: 'away-stopped',
    points: ['away-stopped'],
    script: { steps: [DONE] },
    play: async (scene) => {
      await scene.start(START, { on: scene.stage.split });
      await listing(scene);
      await scene.run.stop({ by: 'ben', reason: 'not today' });
      await scene.ended();
      await scene.take('away-stopped');
    },
  },
];
