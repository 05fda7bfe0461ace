/**
 * These scenarios record runs that are moved while a request is open: to the next execution, to another policy, or back
 * by a reset.
 */
import { approve, APPROVER, calls, refused, type Scenario, scenario, type Scene, wrongDecisions } from './scene.ts';
import { STRICTER } from './stage.ts';
import { noteUri } from './tool-server.ts';

/** A call that was sent before a reset is not sent again, and nobody is asked what became of it. */
const RECORDED = { policy: { unknownOutcomes: 'record' as const } };

export const MOVING: readonly Scenario[] = [
  scenario(
    'continued',
    {
      points: ['continued-first', 'continued-second', 'continued-resent'],
      steps: [calls(['read_note', 'monday'], ['write_note', 'tuesday'])],
    },
    async (scene) => {
      await scene.start();
      const shownFirst = await scene.openOne('t1.c1');
      await scene.ledgered('outcome', 't1.c0');
      const runId = await scene.continued(shownFirst.runId);
      const request = await scene.openOne('t1.c1', runId);
      await scene.take('continued-first', { runId: shownFirst.runId });
      // The request was shown in the first execution; its approval counts in the second all the same.
      const approval = approve(shownFirst, 'approval of what was shown before');
      await scene.take('continued-second', { refused: wrongDecisions(request), accepted: [approval] });
      const sentAgain = scene.handle.executeUpdate('decide', { args: [approval.input], updateId: 'sent-again' });
      await Promise.allSettled([sentAgain, scene.ended()]);
      await scene.take('continued-resent', {
        refused: [refused(approve(request, 'approval of a run that is over'), 'RUN_CLOSED')],
      });
    },
  ),
  scenario(
    'reopened',
    { points: ['decided-not-dispatched', 'reopened'], steps: [calls(['write_note', 'monday'])] },
    async (scene) => {
      const { split } = scene.stage;
      const request = await scene.approvedAway(split);
      await scene.take('decided-not-dispatched', {
        refused: [refused(approve(request, 'a second decision'), 'ALREADY_DECIDED')],
      });
      // The tool worker comes back with a policy under which ann may not decide.
      const stricter = await split.serveTools(STRICTER);
      const reopened = await scene.asked('t1.c0', 2);
      const zoe = { approver: { id: 'zoe', groups: [] } };
      const notAnyMore = refused(approve(reopened, 'who may not decide any more'), 'APPROVER_NOT_ENTITLED');
      const stale = refused(approve(request, 'what was shown before', zoe), 'DIGEST_MISMATCH');
      await scene.take('reopened', { refused: [notAnyMore, stale], accepted: [approve(reopened, 'approval', zoe)] });
      await scene.ended();
      await stricter.stop();
    },
  ),
  scenario(
    'reset',
    {
      points: ['reset-waiting', 'reset-decided'],
      steps: [calls(['read_note', 'sunday'], ['write_note', 'monday'])],
    },
    async (scene) => {
      await scene.start(RECORDED);
      const before = await scene.openOne('t1.c1');
      await scene.ledgered('outcome', 't1.c0');
      await scene.decide(approve(before, 'yes'));
      await scene.ended();
      const newRunId = await resetBeforeDecision(scene);
      const after = await scene.openOne('t1.c1', newRunId);
      const stale = refused(approve(before, 'what was shown before the reset'), 'DECISION_STALE_RUN');
      await scene.take('reset-waiting', {
        refused: [stale, ...wrongDecisions(after)],
        accepted: [approve(after, 'a fresh approval')],
      });
      await scene.ended('reset-decided');
    },
  ),
  scenario(
    'reset-continued',
    {
      points: ['reset-continued', 'reset-continued-decided'],
      steps: [calls(['read_note', 'sunday'], ['write_note', 'monday'])],
    },
    async (scene) => {
      await scene.start(RECORDED);
      const first = await scene.openOne('t1.c1');
      await scene.ledgered('outcome', 't1.c0');
      const second = await scene.openOne('t1.c1', await scene.continued(first.runId));
      await scene.decide(approve(second, 'yes'));
      await scene.ended();
      const third = await scene.openOne('t1.c1', await resetBeforeDecision(scene));
      const stale = [first, second].map((request, index) =>
        refused(approve(request, `what was shown in execution ${index + 1}`), 'DECISION_STALE_RUN'),
      );
      await scene.take('reset-continued', { refused: stale, accepted: [approve(third, 'a fresh approval')] });
      await scene.ended('reset-continued-decided');
    },
  ),
];

/**
 * Resets the run to before its first accepted update, which Temporal then sends again.
 * @returns the id of the Temporal run that takes its place
 */
export async function resetBeforeDecision({ deployment: { client }, workflowId }: Scene): Promise<string> {
  const { events } = await client.workflow.getHandle(workflowId).fetchHistory();
  const decided = events?.findIndex(({ workflowExecutionUpdateAcceptedEventAttributes: accepted }) => accepted) ?? -1;
  const before = events?.slice(0, decided).findLast(({ workflowTaskCompletedEventAttributes: completed }) => completed);
  if (before?.eventId === undefined || before.eventId === null) throw new Error('no decision is in the history');
  const { runId } = await client.workflow.getHandle(workflowId).describe();
  const { runId: newRunId } = await client.workflowService.resetWorkflowExecution({
    namespace: client.options.namespace,
    workflowExecution: { workflowId, runId },
    reason: 'recorded',
    requestId: 'reset-1',
    workflowTaskFinishEventId: before.eventId,
    identity: 'operator',
  });
  return newRunId;
}

// These scenarios record runs that read what results link to, and that continue as new between link and read.

const read = (note: string) => ({ tool: 'notes/resources:read', arguments: { uri: noteUri(note) } });

export const LINKING: readonly Scenario[] = [
  scenario(
    'linked',
    {
      points: ['linked-continued-first', 'linked-continued', 'linked-read'],
      steps: [
        calls(['link_note', 'monday']),
        // No result has linked to tuesday.
        { calls: [read('monday'), read('tuesday')], branches: [], repeat: 1 },
      ],
    },
    async (scene) => {
      const asks = { action: 'ask' as const, approvers: { ids: [APPROVER.id], groups: APPROVER.groups } };
      const policy = { servers: { notes: { default: 'allow' as const, tools: { 'resources:read': asks } } } };
      await scene.start({ policy }, { on: await scene.stage.linked() });
      const first = await scene.openOne('t2.c0');
      const runId = await scene.continued(first.runId);
      const request = await scene.openOne('t2.c0', runId);
      await scene.take('linked-continued-first', { runId: first.runId });
      await scene.take('linked-continued', {
        refused: wrongDecisions(request),
        accepted: [approve(request, 'approval of a read')],
      });
      await scene.ended('linked-read');
    },
  ),
];
