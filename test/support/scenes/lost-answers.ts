/** Makes calls whose answer is lost, and people's statements of what became of them. */
import { msToTs } from '@temporalio/common/lib/time.js';
import type { RunHandle } from '../../../client/index.ts';
import { ACTIVITIES } from '../../../contracts/names.ts';
import type { ApprovalRequest, ResolutionInput } from '../../../contracts/schemas/request.ts';
import { answerOf, requestThat, type World } from '../world/world.ts';

/** Waits until the run asks what became of a call. */
export async function lostCall(
  run: RunHandle,
  callId = 't1.c0',
  generation = 1,
  withinMs = 60_000,
): Promise<ApprovalRequest> {
  return await requestThat(
    run,
    (request) =>
      request.callId === callId &&
      request.status === 'open' &&
      request.about?.kind === 'outcome' &&
      request.generation >= generation,
    `what became of ${callId}`,
    withinMs,
  );
}

/** Makes a call in flight fail as a namespace writer can, so that Temporal would try it again after a pause. */
export async function failUnderWay({ client }: World, run: RunHandle, pauseMs: number, taskQueue?: string) {
  const { workflowService, options } = client;
  const { namespace } = options;
  const { runId, raw } = await client.workflow.getHandle(run.runId).describe();
  const activity = raw.pendingActivities?.find(({ activityType }) => activityType?.name === ACTIVITIES.callTool);
  if (!activity?.activityId) throw new Error('the call is under way');
  const id = activity.activityId;
  const execution = { workflowId: run.runId, runId };
  const moved = taskQueue === undefined ? {} : { taskQueue: { name: taskQueue } };
  await workflowService.updateActivityOptions({
    namespace,
    execution,
    id,
    activityOptions: { ...moved, retryPolicy: { maximumAttempts: 3 } },
    updateMask: {
      paths: [...(taskQueue === undefined ? [] : ['task_queue.name']), 'retry_policy.maximum_attempts'],
    },
  });
  const failure = {
    message: 'failed by an operator',
    applicationFailureInfo: { nextRetryDelay: msToTs(pauseMs) },
  };
  await workflowService.respondActivityTaskFailedById({ namespace, ...execution, activityId: id, failure });
  return { execution, id };
}

type Said =
  | { readonly kind: 'retry' }
  | { readonly kind: 'succeeded'; readonly result: string }
  | { readonly kind: 'failed'; readonly message: string };

/** Makes a person's statement of what became of the call. */
export function resolutionOf(request: ApprovalRequest, approver: string, said: Said): ResolutionInput {
  return answerOf(request, approver, said);
}
