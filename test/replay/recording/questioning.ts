/**
 * These scenarios record runs whose server asks people before it goes on. People answer or decline, and the run may
 * continue as new meanwhile.
 */
import type { ApprovalRequest } from '../../../contracts/schemas/request.ts';
import type { Attempt } from './recording.ts';
import { answer, approve, APPROVER, calls, type Expected, refused, type Scenario, scenario } from './scene.ts';

/** Nobody was asked for consent, so the people whom the run names answer. */
const POLICY = { approvers: { ids: [APPROVER.id] } };

export function provide(request: ApprovalRequest, name: string, key: string, over: object = {}): Attempt {
  const responses = { [key]: { action: 'accept', content: { text: 'the gardener' } } };
  return answer('provideInput', request, name, { kind: 'provide', responses, ...over });
}

/** Makes one answer for each way in which an answer to a server can be wrong. */
export function wrongAnswers(request: ApprovalRequest, key: string): Expected[] {
  const given = (name: string, over: object): Attempt => provide(request, name, key, over);
  const short = { [key]: { action: 'accept', content: { text: 'x' } } };
  return [
    refused(given('a stale answer', { digest: '0'.repeat(64) }), 'DIGEST_MISMATCH'),
    refused(given('by a stranger', { approver: { id: 'mallory' } }), 'APPROVER_NOT_ENTITLED'),
    refused(given('too short a text', { responses: short }), 'DECISION_INVALID'),
    refused(given('to nothing', { responses: {} }), 'DECISION_INVALID'),
    refused(given('of no kind', { kind: 'maybe' }), 'DECISION_INVALID'),
    refused(approve(request, 'a decision'), 'DECISION_NOT_PERMITTED'),
  ];
}

export const QUESTIONING: readonly Scenario[] = [
  scenario(
    'server-asks',
    {
      points: ['server-asks', 'server-asks-again', 'server-asks-ended'],
      steps: [calls(['ask_first', 'twice'], ['ask_first', 'monday'])],
    },
    async (scene) => {
      await scene.start({ policy: POLICY });
      const [first, second] = await scene.open(['t1.c0', 't1.c1']);
      await scene.take('server-asks', {
        refused: wrongAnswers(first, 'who'),
        accepted: [provide(first, 'an answer', 'who')],
      });
      await scene.send(provide(second, 'a no', 'who', { kind: 'decline', responses: undefined }));
      const again = await scene.question('t1.c0', 2);
      await scene.take('server-asks-again', {
        refused: [
          refused(provide(first, 'what was shown before', 'who'), 'DIGEST_MISMATCH'),
          refused({ ...provide(first, 'an answer', 'other'), name: 'an id used before' }, 'DECISION_INVALID'),
          refused(provide(second, 'a second answer', 'who'), 'ALREADY_DECIDED'),
          ...wrongAnswers(again, 'why'),
        ],
        accepted: [provide(again, 'a second answer to it', 'why')],
      });
      await scene.ended('server-asks-ended');
    },
  ),
  scenario(
    'server-asks-consent',
    { points: ['server-asks-continued-first', 'server-asks-continued'], steps: [calls(['ask_first', 'twice'])] },
    async (scene) => {
      const asks = { action: 'ask' as const, approvers: { ids: [APPROVER.id] } };
      await scene.start({ policy: { servers: { notes: { tools: { ask_first: asks } } } } });
      await scene.send(approve(await scene.openOne('t1.c0'), 'approval'));
      await scene.send(provide(await scene.question('t1.c0', 1), 'an answer', 'who'));
      const before = await scene.question('t1.c0', 2);
      const runId = await scene.continued(before.runId);
      const request = await scene.openOne('t1.c0', runId);
      await scene.take('server-asks-continued-first', { runId: before.runId });
      // The request was shown in the first execution; its answer counts in the second all the same.
      await scene.take('server-asks-continued', {
        refused: wrongAnswers(request, 'why'),
        accepted: [provide(before, 'what was shown before', 'why')],
      });
      await scene.ended();
    },
  ),
];
