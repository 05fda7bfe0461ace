/**
 * These scenarios record runs whose server works on a call as a task. The runs wait, continue as new meanwhile, and are
 * stopped.
 */
import { rename } from 'node:fs/promises';
import { join } from 'node:path';
import { MARKER } from '../../../activities/artifacts/root.ts';
import { until } from '../../support/until.ts';
import { calls, type Scenario, scenario, type Scene } from './scene.ts';

async function asked(scene: Scene, times: number): Promise<void> {
  await until(async () => (await scene.run.state()).tasks?.find(({ polls }) => polls >= times), {
    what: `question ${times} about the task of ${scene.workflowId}`,
  });
}

async function nudged({ deployment: { client }, workflowId }: Scene): Promise<void> {
  await client.workflow.getHandle(workflowId).signal('nudge');
}

/**
 * Takes away the artifact store, which all deployments share.
 * @returns brings it back
 */
async function withoutStore({ stage }: Scene): Promise<() => Promise<void>> {
  const marker = join((await stage.editable()).directory, MARKER);
  await rename(marker, `${marker}.away`);
  return async () => await rename(`${marker}.away`, marker);
}

/** Waits until the run stores a segment and fails to, since its store is away. */
async function storing({ deployment: { client }, workflowId }: Scene): Promise<void> {
  await until(
    async () => {
      const { raw } = await client.workflow.getHandle(workflowId).describe();
      const pending = raw.pendingActivities ?? [];
      return pending.some(({ activityType, attempt }) => activityType?.name === 'storeSegment' && Number(attempt) > 1);
    },
    { what: `the store of ${workflowId}` },
  );
}

export const TASKS: readonly Scenario[] = [
  scenario('task-stopped', { steps: [calls(['dig_note', 'tuesday'])] }, async (scene) => {
    await scene.start({}, { on: await scene.stage.atWork() });
    await asked(scene, 1);
    await scene.run.stop({ by: 'ben', reason: 'It takes too long.', inFlight: 'cancel' });
    await scene.ended('task-stopped');
  }),
  // Another run would continue as new by this nudge.
  scenario('task-finishing', { steps: [calls(['dig_note', 'wednesday'])] }, async (scene) => {
    await scene.start({}, { on: await scene.stage.atWork() });
    await asked(scene, 1);
    await scene.run.stop({ by: 'ben', reason: 'This one, and no more.', inFlight: 'finish' });
    await nudged(scene);
    await asked(scene, 3);
    scene.stage.tools.finish();
    await scene.ended('task-finishing');
  }),
  scenario('task-stopped-rolling', { steps: [calls(['dig_note', 'thursday'])] }, async (scene) => {
    await scene.start({}, { on: await scene.stage.atWork() });
    await asked(scene, 1);
    const bringBack = await withoutStore(scene);
    await nudged(scene);
    await storing(scene);
    await scene.run.stop({ by: 'ben', reason: 'It takes too long.', inFlight: 'cancel' });
    await bringBack();
    await scene.ended('task-stopped-rolling');
  }),
  scenario(
    'task',
    {
      points: ['task', 'task-continued-first', 'task-continued', 'task-ended'],
      steps: [calls(['dig_note', 'monday'])],
    },
    async (scene) => {
      await scene.start({}, { on: await scene.stage.atWork() });
      await asked(scene, 2);
      await scene.take('task');
      const { runId } = await scene.run.state();
      await scene.continued(runId);
      await scene.take('task-continued-first', { runId });
      await asked(scene, 4);
      await scene.take('task-continued');
      scene.stage.tools.finish();
      await scene.ended('task-ended');
    },
  ),
];
