/**
 * These scenarios record runs with calls that may or may not have run. A person says what became of them, and the run
 * may continue as new meanwhile.
 */
import type { ApprovalRequest } from '../../../contracts/schemas/request.ts';
import { until } from '../../support/until.ts';
import type { Attempt } from './recording.ts';
import {
  answer,
  approve,
  APPROVER,
  calls,
  digestIn,
  type Expected,
  NO_RUN,
  refused,
  type Scenario,
  scenario,
  type Scene,
} from './scene.ts';

/** Nobody was asked for consent, so the people whom the run names answer. */
const POLICY = { approvers: { ids: [APPROVER.id] } };

export function resolve(request: ApprovalRequest, name: string, over: object = { kind: 'retry' }): Attempt {
  return answer('resolveOutcome', request, name, over);
}

const recorded = { kind: 'succeeded', result: 'The note is there.' };
const gone = { kind: 'failed', message: 'No note is there.' };

/** Makes one answer for each way in which an answer to such a request can be wrong. */
export function wrongAnswers(request: ApprovalRequest): Expected[] {
  const retry = { kind: 'retry' };
  return [
    refused(resolve(request, 'a stale answer', { ...retry, digest: '0'.repeat(64) }), 'DIGEST_MISMATCH'),
    refused(
      resolve(request, 'for a run that never was', { ...retry, runId: NO_RUN, digest: digestIn(request, NO_RUN) }),
      'DECISION_STALE_RUN',
    ),
    refused(resolve(request, 'by a stranger', { ...retry, approver: { id: 'mallory' } }), 'APPROVER_NOT_ENTITLED'),
    refused(resolve(request, 'of no kind', { kind: 'maybe' }), 'DECISION_INVALID'),
    refused(resolve(request, 'of no result', { kind: 'succeeded' }), 'DECISION_INVALID'),
    refused(approve(request, 'a decision'), 'DECISION_NOT_PERMITTED'),
  ];
}

export const RESOLVING: readonly Scenario[] = [
  scenario(
    'lost',
    {
      points: ['lost', 'lost-answered', 'lost-ended'],
      steps: [calls(['lose_answer', 'monday'], ['lose_answer', 'tuesday'], ['lose_answer', 'sunday'])],
    },
    async (scene) => {
      await scene.start({ policy: POLICY });
      const [first, second, third] = await scene.open(['t1.c0', 't1.c1', 't1.c2']);
      await scene.take('lost', { refused: wrongAnswers(first), accepted: [resolve(first, 'sent again')] });
      await scene.send(resolve(second, 'recorded', recorded));
      await scene.send(resolve(third, 'recorded as failed', gone));
      const again = await scene.asked('t1.c0', 2);
      await scene.take('lost-answered', {
        refused: [
          refused(resolve(first, 'what was shown before'), 'DIGEST_MISMATCH'),
          refused(resolve(second, 'a second answer'), 'ALREADY_DECIDED'),
          refused({ ...resolve(second, 'recorded', gone), name: 'an id used before' }, 'DECISION_INVALID'),
          ...wrongAnswers(again),
        ],
        accepted: [resolve(again, 'recorded in the end', recorded)],
      });
      await scene.ended('lost-ended');
    },
  ),
  scenario(
    'lost-consent',
    {
      points: ['lost-continued-first', 'lost-continued', 'lost-sent-again'],
      steps: [calls(['lose_answer', 'monday'])],
    },
    async (scene) => {
      const asks = { action: 'ask' as const, approvers: { ids: [APPROVER.id] } };
      await scene.start({ policy: { servers: { notes: { tools: { lose_answer: asks } } } } });
      await scene.send(approve(await scene.openOne('t1.c0'), 'approval'));
      const before = await scene.asked('t1.c0', 2);
      const runId = await scene.continued(before.runId);
      const request = await scene.openOne('t1.c0', runId);
      await scene.take('lost-continued-first', { runId: before.runId });
      // The request was shown in the first execution; its answer counts in the second all the same.
      await scene.take('lost-continued', {
        refused: wrongAnswers(request),
        accepted: [resolve(before, 'what was shown before')],
      });
      const again = await scene.asked('t1.c0', 3);
      await scene.take('lost-sent-again', {
        refused: [refused(resolve(request, 'the one before'), 'DIGEST_MISMATCH'), ...wrongAnswers(again)],
        accepted: [resolve(again, 'recorded', recorded)],
      });
      await scene.ended();
    },
  ),
];

// These scenarios record calls whose worker is lost in the middle. The server is asked for the answer, and people if it
// has none.

const TOOLS_QUEUE = 'countersign-tools';

/** The last heartbeat of a worker that has sent the call. It decrypts to nothing. */
const LAST_WORD = {
  phase: 'sent',
  sentAt: '2026-01-01T00:00:00.000Z',
  resume: { protected: 'corpus', iv: 'corpus', ciphertext: 'corpus', tag: 'corpus' },
};

/** Starts a run whose approved call is taken by a worker that is then lost: one heartbeat, and nothing more. */
async function workerLost(scene: Scene): Promise<void> {
  const policy = { approvers: { ids: ['ann'] }, servers: { notes: { tools: { read_note: 'ask' as const } } } };
  await scene.approvedAway(scene.stage.split, { policy });
  await (await scene.takeActivity(TOOLS_QUEUE)).beat(LAST_WORD);
}

export const RESUMING: readonly Scenario[] = [
  scenario('resuming-stopped', { steps: [calls(['read_note', 'tuesday'])] }, async (scene) => {
    await workerLost(scene);
    await scene.run.stop({ by: 'ben', reason: 'This one, and no more.', inFlight: 'finish' });
    await scene.scheduled('resumeCall');
    await scene.take('resuming-stopped');
    const tools = await scene.stage.split.serveTools();
    await scene.ended();
    await tools.stop();
  }),
  scenario('handed-on', { steps: [calls(['keep_note', 'monday'])] }, async (scene) => {
    const kept = await scene.stage.kept();
    await scene.start({}, { on: kept });
    await until(
      async () => {
        const { raw } = await scene.handle.describe();
        const text = JSON.stringify(raw.pendingActivities?.map(({ heartbeatDetails }) => heartbeatDetails) ?? []);
        const decoded = [...text.matchAll(/"data":"([^"]+)"/g)].map(([, data = '']) => Buffer.from(data, 'base64'));
        return decoded.some((each) => each.includes('"resume"'));
      },
      { what: 'where the answer comes' },
    );
    await kept.restart();
    await scene.ended('handed-on');
  }),
  scenario(
    'worker-lost',
    { points: ['resuming', 'resumed-in-vain'], steps: [calls(['read_note', 'monday'])] },
    async (scene) => {
      await workerLost(scene);
      await scene.scheduled('resumeCall');
      await scene.take('resuming');
      const tools = await scene.stage.split.serveTools();
      const lost = await scene.asked('t1.c0', 2);
      await scene.take('resumed-in-vain', {
        refused: wrongAnswers(lost),
        accepted: [resolve(lost, 'recorded', { kind: 'succeeded', result: 'The note is there.' })],
      });
      await scene.ended();
      await tools.stop();
    },
  ),
];
