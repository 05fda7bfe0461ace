/** A model's own deadline comes before that of its activity: the error then names the model, not the activity. */
import { expect, jest, test } from '@jest/globals';
import { msToNumber } from '@temporalio/common/lib/time.js';
import { defined } from '../../../../contracts/defined.ts';
import { Config } from '../../../../contracts/schemas/config.ts';

// What a workflow hands to Temporal, seen without one.
jest.unstable_mockModule('@temporalio/workflow', () => ({ ActivityCancellationType: {} }));
jest.unstable_mockModule('../../../../workflows/interceptors/zone.ts', () => ({
  provenActivities: (options: unknown) => options,
}));

/** For what comes before and after the request: reading the transcript, judging the calls. */
const ROOM_SECONDS = 60;

function timeoutOf(timeoutSeconds?: number): number | undefined {
  const { success, data } = Config.safeParse({
    models: { main: { provider: 'openai', model: 'm', ...defined({ timeoutSeconds }) } },
  });
  const model = success ? data.models['main'] : undefined;
  return model === undefined || model.provider === 'scripted' ? undefined : model.timeoutSeconds;
}

test('timeoutSeconds goes up to a minute below the limit of a model step, and its default is within', async () => {
  const { modelActivities } = await import('../../../../workflows/run/activities.ts');
  const { startToCloseTimeout } = modelActivities('', {
    priorityKey: 3,
    fairnessKey: '',
    fairnessWeight: 1,
  }) as unknown as { startToCloseTimeout: '15m' };
  const most = msToNumber(startToCloseTimeout) / 1_000 - ROOM_SECONDS;
  expect(timeoutOf(most)).toBe(most);
  expect(timeoutOf(most + 1)).toBeUndefined();
  expect(timeoutOf()).toBeLessThanOrEqual(most);
});
