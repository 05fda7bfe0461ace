/**
 * This scenario records a run in trust mode `signed` whose activities are answered by somebody without a key. The run
 * believes none of it (docs/adr/0047).
 */
import { defaultPayloadConverter } from '@temporalio/common';
import type { Discovery } from '../../../contracts/schemas/tool.ts';
import type { DispatchResult } from '../../../contracts/wire/tools.ts';
import { asked, resolve } from './resolving.ts';
import { calls, refused, says, type Scenario, type Scene } from './scene.ts';
import { SIGNED_TOOLS_QUEUE } from './stage.ts';
import { until } from '../../support/until.ts';

const ANN = { id: 'acme|ann', groups: [] as string[] };
const POLICY = {
  servers: { notes: { tools: { read_note: { action: 'ask' as const, approvers: { ids: [ANN.id] } } } } },
};
const NO_TOOLS: Discovery = {
  server: 'notes',
  tools: { sha256: '0'.repeat(64), bytes: 2, contentType: 'application/json' },
  count: 0,
  refused: [],
};
/** If the run believed this result, it would send the call a second time. */
const NOT_SENT: DispatchResult = { kind: 'not-sent', code: 'TOOL_UNAVAILABLE', message: 'It was not sent.' };

/** Ends the next tool activity in a worker's place. */
async function answers({ deployment: { client } }: Scene, result: object): Promise<void> {
  const { namespace } = client.options;
  const { workflowService } = client;
  const identity = 'client';
  const { taskToken } = await until(
    async () => {
      const taskQueue = { name: SIGNED_TOOLS_QUEUE };
      const task = await client.withDeadline(
        Date.now() + 10_000,
        async () => await workflowService.pollActivityTaskQueue({ namespace, taskQueue, identity }),
      );
      return task.taskToken.length > 0 ? task : undefined;
    },
    { what: 'an activity' },
  );
  const payloads = [defaultPayloadConverter.toPayload(result)];
  await workflowService.respondActivityTaskCompleted({ namespace, taskToken, identity, result: { payloads } });
}

export const UNPROVEN: readonly Scenario[] = [
  {
    name: 'unproven',
    points: ['unproven-listed', 'unproven-sent'],
    script: { steps: [calls(['read_note', 'monday']), says('The notes are in order.')] },
    play: async (scene) => {
      const { deployment, keys, trust, serveTools } = await scene.stage.openSignedApart();
      await trust([keys.backend]);
      await scene.start({ initiator: { id: ANN.id, tenant: 'office' }, policy: POLICY }, { on: deployment });
      await answers(scene, NO_TOOLS);
      const tools = await serveTools();
      const { callId, digest, runId } = await scene.openOne('t1.c0');
      await tools.stop();
      await scene.take('unproven-listed');
      await scene.run.decide({ kind: 'approve', decisionId: 'yes', callId, digest, runId, approver: ANN });
      await answers(scene, NOT_SENT);
      const lost = await asked(scene, 't1.c0', 2);
      await scene.take('unproven-sent', {
        refused: [
          refused(resolve(lost, 'an answer that nobody signed', { kind: 'retry', approver: ANN }), 'SIGNATURE_MISSING'),
        ],
      });
    },
  },
];
