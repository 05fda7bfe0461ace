/**
 * These scenarios record calls whose worker is lost in the middle. The server is asked for the answer, and people if it
 * has none.
 */
import { defaultPayloadConverter } from '@temporalio/common';
import { asked, resolve, wrongAnswers } from './resolving.ts';
import { calls, says, type Scenario, type Scene } from './scene.ts';
import { until } from './until.ts';

const DONE = says('The notes are in order.');
const TOOLS_QUEUE = 'countersign-tools';

/** The last heartbeat of a worker that has sent the call. It decrypts to nothing. */
const LAST_WORD = {
  phase: 'sent',
  sentAt: '2026-01-01T00:00:00.000Z',
  resume: { protected: 'corpus', iv: 'corpus', ciphertext: 'corpus', tag: 'corpus' },
};

/** Takes the dispatch like a worker that is then lost: one heartbeat, and nothing more. */
async function takeAndBeLost({ deployment: { client } }: Scene): Promise<void> {
  const { namespace } = client.options;
  const { workflowService } = client;
  const taskToken = await until(async () => {
    const taskQueue = { name: TOOLS_QUEUE };
    const task = await client.withDeadline(
      Date.now() + 10_000,
      async () => await workflowService.pollActivityTaskQueue({ namespace, taskQueue, identity: 'worker' }),
    );
    return task.taskToken.length > 0 ? task.taskToken : undefined;
  }, 'a dispatch');
  const details = { payloads: [defaultPayloadConverter.toPayload(LAST_WORD)] };
  await workflowService.recordActivityTaskHeartbeat({ namespace, taskToken, details, identity: 'worker' });
}

async function scheduled({ deployment: { client }, workflowId }: Scene, activity: string): Promise<void> {
  await until(
    async () => {
      const { raw } = await client.workflow.getHandle(workflowId).describe();
      return raw.pendingActivities?.some(({ activityType }) => activityType?.name === activity) ? true : undefined;
    },
    `${activity} of ${workflowId}`,
    // Longer than the heartbeat timeout of a call.
    90_000,
  );
}

export const RESUMING: readonly Scenario[] = [
  {
    name: 'resuming-stopped',
    points: ['resuming-stopped'],
    script: { steps: [calls(['read_note', 'tuesday']), DONE] },
    play: async (scene) => {
      const { split } = scene.stage;
      const forDiscovery = await split.serveTools();
      const policy = { approvers: { ids: ['ann'] }, servers: { notes: { tools: { read_note: 'ask' as const } } } };
      await scene.start({ policy }, { on: split });
      const { callId, digest, runId } = await scene.openOne('t1.c0');
      await forDiscovery.stop();
      await scene.run.decide({ kind: 'approve', decisionId: 'yes', callId, digest, runId, approver: { id: 'ann' } });
      await scene.ledgered('dispatched', 't1.c0');
      await takeAndBeLost(scene);
      await scene.run.stop({ by: 'ben', reason: 'This one, and no more.', inFlight: 'finish' });
      await scheduled(scene, 'resumeCall');
      await scene.take('resuming-stopped');
      const tools = await split.serveTools();
      await scene.ended();
      await tools.stop();
    },
  },
  {
    name: 'handed-on',
    points: ['handed-on'],
    script: { steps: [calls(['keep_note', 'monday']), DONE] },
    play: async (scene) => {
      const kept = await scene.stage.kept();
      await scene.start({}, { on: kept });
      await until(async () => {
        const { raw } = await kept.client.workflow.getHandle(scene.workflowId).describe();
        const text = JSON.stringify(raw.pendingActivities?.map(({ heartbeatDetails }) => heartbeatDetails) ?? []);
        const decoded = [...text.matchAll(/"data":"([^"]+)"/g)].map(([, data = '']) => Buffer.from(data, 'base64'));
        return decoded.some((each) => each.includes('"resume"')) ? true : undefined;
      }, 'where the answer comes');
      await kept.restart();
      await scene.ended();
      await scene.take('handed-on');
    },
  },
  {
    name: 'worker-lost',
    points: ['resuming', 'resumed-in-vain'],
    script: { steps: [calls(['read_note', 'monday']), DONE] },
    play: async (scene) => {
      const { split } = scene.stage;
      const forDiscovery = await split.serveTools();
      const policy = { approvers: { ids: ['ann'] }, servers: { notes: { tools: { read_note: 'ask' as const } } } };
      await scene.start({ policy }, { on: split });
      const request = await scene.openOne('t1.c0');
      await forDiscovery.stop();
      const { callId, digest, runId } = request;
      await scene.run.decide({ kind: 'approve', decisionId: 'yes', callId, digest, runId, approver: { id: 'ann' } });
      await scene.ledgered('dispatched', 't1.c0');
      await takeAndBeLost(scene);
      await scheduled(scene, 'resumeCall');
      await scene.take('resuming');
      const tools = await split.serveTools();
      const lost = await asked(scene, 't1.c0', 2);
      await scene.take('resumed-in-vain', {
        refused: wrongAnswers(lost),
        accepted: [resolve(lost, 'recorded', { kind: 'succeeded', result: 'The note is there.' })],
      });
      await scene.ended();
      await tools.stop();
    },
  },
];
