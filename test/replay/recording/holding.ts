/**
 * These scenarios record calls whose server asks people on an open connection. People answer, or nobody does, or the
 * worker with the connection is lost.
 */
import type { InputRequests } from '../../../contracts/schemas/input.ts';
import type { DispatchInput, DispatchResult } from '../../../contracts/wire/tools.ts';
import { until } from '../../support/until.ts';
import { provide, wrongAnswers } from './questioning.ts';
import type { Attempt } from './recording.ts';
import { resolve, wrongAnswers as wrongWords } from './resolving.ts';
import {
  approve,
  APPROVER,
  calls,
  type Expected,
  INTERRUPTION,
  refused,
  type Scenario,
  scenario,
  type Scene,
} from './scene.ts';
import { type Deployment, PATIENT_QUEUE } from './stage.ts';

type Ended = Extract<DispatchResult, { kind: 'ended' }>;
const KEPT: Ended = {
  kind: 'ended',
  outcome: { kind: 'succeeded', result: { content: [{ type: 'text', text: 'kept' }] } },
};
/** The last result of a worker that must end. Its `resume` value decrypts to nothing. */
const GONE: Ended = {
  kind: 'ended',
  outcome: { kind: 'unknown', code: 'OUTCOME_UNKNOWN', message: 'Its worker has gone.' },
  resume: { protected: 'corpus', iv: 'corpus', ciphertext: 'corpus', tag: 'corpus' },
};
const QUESTION: InputRequests = {
  who: {
    kind: 'form',
    message: 'Who has asked for it?',
    fields: { text: { type: 'text', minLength: 2 } },
    required: ['text'],
    hash: '1'.repeat(64),
  },
};

/** A dispatch taken by a worker that keeps its server's connection open. */
interface Holding {
  readonly input: DispatchInput;
  end(result: DispatchResult): Promise<void>;
}

/**
 * Starts the run, has its call approved, and takes the dispatch.
 * @param beats true if heartbeats are sent until the dispatch ends
 */
async function holding(scene: Scene, policy: object, beats: boolean): Promise<Holding> {
  await scene.approvedAway(await scene.stage.patient(), { policy });
  return await taken(scene, beats);
}

async function taken(scene: Scene, beats: boolean): Promise<Holding> {
  const activity = await scene.takeActivity(PATIENT_QUEUE);
  const beating = beats ? setInterval(() => void activity.beat(), 2_000) : undefined;
  return {
    input: activity.input<DispatchInput>(),
    end: async (result) => {
      clearInterval(beating);
      await activity.end(result);
    },
  };
}

/** Makes the update with which the dispatch reports questions, under the update's real id. */
function tells({ input }: Holding, round: number, over: object = {}): Attempt {
  const { callId, attempt } = input;
  const questions = { callId, attempt, round, requests: QUESTION, ...over };
  return { name: `held/${callId}/${attempt}/${round}`, update: 'inputAsked', input: questions };
}

/**
 * Makes one such update for each way in which it can be wrong.
 * @param round the next round
 */
function wrongTales(held: Holding, round: number): Expected[] {
  const tale = (name: string, over: object): Attempt => ({ ...tells(held, round, over), name });
  return [
    refused(tale('of another dispatch', { attempt: 2 }), 'REQUEST_NOT_OPEN'),
    refused(tale('of a round that was asked before', { round: round - 1 }), 'REQUEST_NOT_OPEN'),
    refused(tale('of more rounds than there are', { round: 11 }), 'LIMIT_REACHED'),
    refused(tale('of an unknown call', { callId: 't9.c9' }), 'CALL_UNKNOWN'),
    refused(tale('of no known kind', { requests: { who: { kind: 'sampling' } } }), 'MESSAGE_INVALID'),
  ];
}

const ASKS = { action: 'ask' as const, approvers: { ids: [APPROVER.id] } };
const POLICY = { approvers: { ids: [APPROVER.id] }, servers: { notes: { tools: { write_note: ASKS } } } };
const steps = [calls(['write_note', 'monday'])];

export const HOLDING: readonly Scenario[] = [
  scenario(
    'open-question',
    { points: ['open-question', 'open-question-answered', 'open-question-ended'], steps },
    async (scene) => {
      const held = await holding(scene, POLICY, true);
      await scene.send(tells(held, 1));
      const first = await scene.question('t1.c0', 1);
      await scene.take('open-question', {
        refused: [...wrongAnswers(first, 'who'), ...wrongTales(held, 2)],
        accepted: [provide(first, 'an answer', 'who')],
      });
      await scene.take('open-question-answered', {
        refused: [
          refused(provide(first, 'a second answer', 'who'), 'ALREADY_DECIDED'),
          refused(approve(first, 'a decision'), 'ALREADY_DECIDED'),
          ...wrongTales(held, 2),
        ],
        accepted: [tells(held, 2)],
      });
      await scene.send(
        provide(await scene.question('t1.c0', 2), 'a no', 'who', { kind: 'decline', responses: undefined }),
      );
      await held.end({
        ...KEPT,
        held: [
          { round: 1, told: 'accept' },
          { round: 2, told: 'decline' },
        ],
      });
      await scene.ended('open-question-ended');
    },
  ),
  scenario(
    'open-question-replaced',
    { points: ['open-question-second', 'open-question-third'], steps },
    async (scene) => {
      const held = await holding(scene, POLICY, true);
      await scene.send(tells(held, 1));
      const first = await scene.question('t1.c0', 1);
      await scene.take('open-question-second', {
        refused: wrongTales(held, 2),
        // Round 2 is left out, as if the run had refused it.
        accepted: [tells(held, 3)],
      });
      const third = await scene.question('t1.c0', 3);
      await scene.take('open-question-third', {
        refused: [refused(provide(first, 'to what is closed', 'who'), 'DIGEST_MISMATCH'), ...wrongTales(held, 3)],
        accepted: [provide(third, 'an answer', 'who')],
      });
      await held.end(KEPT);
      await scene.ended();
    },
  ),
  scenario('open-question-too-late', { steps }, async (scene) => {
    const held = await holding(scene, POLICY, true);
    await held.end(GONE);
    await scene.ledgered('resumed', 't1.c0');
    const asksForAnswer = await taken(scene, true);
    await scene.take('open-question-too-late', { refused: [refused(tells(held, 1), 'REQUEST_NOT_OPEN')] });
    await asksForAnswer.end(KEPT);
    await scene.ended();
  }),
  scenario('open-question-unanswered', { points: ['open-question-expired'], steps }, async (scene) => {
    const held = await holding(scene, { ...POLICY, deadlineSeconds: 8 }, true);
    await scene.send(tells(held, 1));
    const first = await scene.question('t1.c0', 1);
    await scene.ledgered('request.closed', 't1.c0');
    await scene.take('open-question-expired', {
      refused: [refused(provide(first, 'too late', 'who'), 'DECISION_EXPIRED'), ...wrongTales(held, 2)],
      accepted: [tells(held, 2)],
    });
    await held.end(KEPT);
    await scene.ended();
  }),
  scenario('open-question-lost', { steps }, async (scene) => {
    const held = await holding(scene, POLICY, false);
    await scene.send(tells(held, 1));
    const first = await scene.question('t1.c0', 1);
    // Temporal takes the worker for lost after 30 s without a heartbeat.
    const lost = await scene.asked('t1.c0', 3, 90_000);
    await scene.take('open-question-lost', {
      refused: [
        refused(provide(first, 'to nobody', 'who'), 'DECISION_NOT_PERMITTED'),
        refused(tells(held, 2), 'REQUEST_NOT_OPEN'),
        ...wrongWords(lost),
      ],
      accepted: [resolve(lost, 'recorded', { kind: 'succeeded', result: 'The note is there.' })],
    });
    await scene.ended();
  }),
];

// These scenarios record runs whose calls are throttled by their server's limits.

/** More dispatches than a call has attempts: throttled dispatches do not count as attempts. */
const DISPATCHES = 7;

/** What a server wants holds for its tenant at the same worker, so scenes of that have one of their own. */
async function unhurried({ stage }: Scene): Promise<Deployment> {
  return await stage.limited({ concurrency: 8, perSecond: 100 });
}

export const HELD: readonly Scenario[] = [
  scenario(
    'held',
    {
      points: ['held', 'held-sent'],
      steps: [calls(['hold_note', 'monday'], ['hold_note', 'tuesday'], ['write_note', 'sunday'])],
    },
    async (scene) => {
      const { tools } = scene.stage;
      await scene.start({}, { on: await scene.stage.limited({ concurrency: 1 }) });
      const request = await scene.openOne('t1.c2');
      await tools.held(1);
      // The count covers both calls, whichever of them the server takes first.
      await until(
        async () => {
          const dispatched = (await scene.run.ledger()).filter(({ fact }) => fact.kind === 'dispatched');
          return dispatched.length > DISPATCHES;
        },
        { what: 'a call that came back again and again' },
      );
      const waits = refused(
        approve({ ...request, callId: 't1.c1' }, 'a call that waits for its server'),
        'REQUEST_NOT_OPEN',
      );
      await scene.take('held', { refused: [waits], accepted: [approve(request, 'approval')] });
      tools.release();
      await tools.held(1);
      tools.release();
      await scene.ended('held-sent');
    },
  ),
  scenario(
    'held-continued',
    { points: ['held-first', 'held-second'], steps: [calls(['read_note', 'monday'], ['read_note', 'tuesday'])] },
    async (scene) => {
      await scene.start({}, { on: await scene.stage.limited({ perSecond: 0.1 }) });
      await scene.ledgered('held');
      await scene.ledgered('outcome');
      const { runId } = await scene.run.state();
      await scene.continued(runId);
      await scene.take('held-first', { runId });
      await scene.ended('held-second');
    },
  ),
  scenario(
    'put-off',
    { points: ['put-off-first', 'put-off', 'put-off-withdrawn'], steps: [calls(['refuse_once', 'tomorrow'])] },
    async (scene) => {
      await scene.start({ initiator: { id: 'ben', tenant: 'archive' } }, { on: await unhurried(scene) });
      await scene.ledgered('held');
      const { runId } = await scene.run.state();
      await scene.continued(runId);
      await scene.take('put-off-first', { runId });
      await scene.take('put-off', { accepted: [INTERRUPTION] });
      await scene.ended('put-off-withdrawn');
    },
  ),
  scenario(
    'retry-withdrawn',
    { points: ['retry', 'retry-withdrawn'], steps: [calls(['refuse_once', 'soon'], ['write_note', 'monday'])] },
    async (scene) => {
      await scene.start({}, { on: await unhurried(scene) });
      await scene.openOne('t1.c1');
      await scene.timed('try t1.c0 again');
      await scene.take('retry', { accepted: [INTERRUPTION] });
      await scene.ended('retry-withdrawn');
    },
  ),
];
