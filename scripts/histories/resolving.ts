/**
 * These scenarios record runs with calls that may or may not have run. A person says what became of them, and the run
 * may continue as new meanwhile.
 */
import type { ApprovalRequest } from '../../contracts/schemas/request.ts';
import { requestDigest } from '../../domain/request/digest.ts';
import { approve, APPROVER, type Expected, refused } from './attempts.ts';
import type { Attempt } from './inputs.ts';
import { continued } from './moving.ts';
import { calls, says, type Scenario, type Scene } from './scene.ts';
import { until } from './until.ts';

const DONE = says('The notes are in order.');
/** Nobody was asked for consent, so the people whom the run names answer. */
const POLICY = { approvers: { ids: [APPROVER.id] } };

export function resolve(request: ApprovalRequest, name: string, over: object = { kind: 'retry' }): Attempt {
  const { callId, digest, runId } = request;
  const decisionId = name.replaceAll(' ', '-');
  return { name, update: 'resolveOutcome', input: { decisionId, callId, digest, runId, approver: APPROVER, ...over } };
}

const recorded = { kind: 'succeeded', result: 'The note is there.' };
const gone = { kind: 'failed', message: 'No note is there.' };

/** Makes one answer for each way in which an answer to such a request can be wrong. */
export function wrongAnswers(request: ApprovalRequest): Expected[] {
  const retry = { kind: 'retry' };
  const noRun = '00000000-0000-4000-8000-000000000000';
  return [
    refused(resolve(request, 'a stale answer', { ...retry, digest: '0'.repeat(64) }), 'DIGEST_MISMATCH'),
    refused(
      resolve(request, 'for a run that never was', { ...retry, ...shownIn(request, noRun) }),
      'DECISION_STALE_RUN',
    ),
    refused(resolve(request, 'by a stranger', { ...retry, approver: { id: 'mallory' } }), 'APPROVER_NOT_ENTITLED'),
    refused(resolve(request, 'of no kind', { kind: 'maybe' }), 'DECISION_INVALID'),
    refused(resolve(request, 'of no result', { kind: 'succeeded' }), 'DECISION_INVALID'),
    refused(approve(request, 'a decision'), 'DECISION_NOT_PERMITTED'),
  ];
}

function shownIn(request: ApprovalRequest, runId: string): object {
  const { server, serverUrl, tool, definitionHash } = request;
  const target = { server, serverUrl, tool, definitionHash };
  return { runId, digest: requestDigest({ ...request, runId, target }) };
}

export async function asked(scene: Scene, callId: string, generation = 1): Promise<ApprovalRequest> {
  return await until(
    async () =>
      (await scene.run.requests()).find(
        (each) => each.callId === callId && each.about !== undefined && each.generation === generation,
      ),
    `what became of ${callId} of ${scene.workflowId}`,
  );
}

export const RESOLVING: readonly Scenario[] = [
  {
    name: 'lost',
    points: ['lost', 'lost-answered', 'lost-ended'],
    script: { steps: [calls(['lose_answer', 'monday'], ['lose_answer', 'tuesday'], ['lose_answer', 'sunday']), DONE] },
    play: async (scene) => {
      await scene.start({ policy: POLICY });
      const [first, second, third] = await scene.open(['t1.c0', 't1.c1', 't1.c2']);
      if (first === undefined || second === undefined || third === undefined) throw new Error('three were lost');
      await scene.take('lost', { refused: wrongAnswers(first), accepted: [resolve(first, 'sent again')] });
      await scene.send(resolve(second, 'recorded', recorded));
      await scene.send(resolve(third, 'recorded as failed', gone));
      const again = await asked(scene, 't1.c0', 2);
      await scene.take('lost-answered', {
        refused: [
          refused(resolve(first, 'what was shown before'), 'DIGEST_MISMATCH'),
          refused(resolve(second, 'a second answer'), 'ALREADY_DECIDED'),
          refused({ ...resolve(second, 'recorded', gone), name: 'an id used before' }, 'DECISION_INVALID'),
          ...wrongAnswers(again),
        ],
        accepted: [resolve(again, 'recorded in the end', recorded)],
      });
      await scene.ended();
      await scene.take('lost-ended');
    },
  },
  {
    name: 'lost-consent',
    points: ['lost-continued-first', 'lost-continued', 'lost-sent-again'],
    script: { steps: [calls(['lose_answer', 'monday']), DONE] },
    play: async (scene) => {
      const asks = { action: 'ask' as const, approvers: { ids: [APPROVER.id] } };
      await scene.start({ policy: { servers: { notes: { tools: { lose_answer: asks } } } } });
      await scene.send(approve(await scene.openOne('t1.c0'), 'approval'));
      const before = await asked(scene, 't1.c0', 2);
      const runId = await continued(scene, before.runId);
      const request = await scene.openOne('t1.c0', runId);
      await scene.take('lost-continued-first', { runId: before.runId });
      // The request was shown in the first execution; its answer counts in the second all the same.
      await scene.take('lost-continued', {
        refused: wrongAnswers(request),
        accepted: [resolve(before, 'what was shown before')],
      });
      const again = await asked(scene, 't1.c0', 3);
      await scene.take('lost-sent-again', {
        refused: [refused(resolve(request, 'the one before'), 'DIGEST_MISMATCH'), ...wrongAnswers(again)],
        accepted: [resolve(again, 'recorded', recorded)],
      });
      await scene.ended();
    },
  },
  {
    // The workflow is that of an earlier build (`--bundle`), and its activities are of this one, as while workers are
    // replaced a few at a time.
    name: 'lost-unasked',
    points: ['lost-unasked'],
    script: { steps: [calls(['lose_answer', 'monday']), DONE] },
    play: async (scene) => {
      await scene.start({ policy: POLICY });
      await scene.ended();
      await scene.take('lost-unasked');
    },
  },
];
