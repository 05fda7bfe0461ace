/** These scenarios record runs that act and end: calls that are sent or lost, and runs that are stopped or limited. */
import { alone, approve, calls, refused, says, type Scenario, scenario } from './scene.ts';

const ASKING = {
  servers: { notes: { tools: { read_note: { action: 'ask' as const, approvers: { ids: ['ann'] } } } } },
};
const ANSWER = {
  type: 'object',
  properties: { notes: { type: 'integer' } },
  required: ['notes'],
  additionalProperties: false,
};

export const ENDING: readonly Scenario[] = [
  scenario(
    'completed',
    {
      steps: [
        calls(
          ['read_note', 'long'],
          ['draw_chart', 'week'],
          ['write_note', 'monday'],
          ['delete_note', 'sunday'],
          ['burn_note', 'sunday'],
        ),
        calls(['read_note', 'monday']),
      ],
    },
    async (scene) => {
      // The limit is below the length of the long note. The model sees a preview; the rest is an artifact.
      await scene.start({ limits: { resultBytes: 256 } });
      const request = await scene.openOne('t1.c2');
      const lea = { approver: { id: 'lea', groups: ['leads'] }, comment: 'go on' };
      await scene.decide(approve(request, 'yes', lea));
      await scene.ended('completed', {
        refused: [refused(approve(request, 'approval of a run that is over'), 'RUN_CLOSED')],
      });
    },
  ),
  scenario('mid-call', { steps: [calls(['hold_note', 'monday'], ['write_note', 'tuesday'])] }, async (scene) => {
    await scene.start();
    await scene.stage.tools.held(1);
    const request = await scene.openOne('t1.c1');
    const inFlight = refused(approve({ ...request, callId: 't1.c0' }, 'a call that is under way'), 'REQUEST_NOT_OPEN');
    await scene.take('mid-call', { refused: [inFlight], accepted: [approve(request, 'approval')] });
    scene.stage.tools.release();
    await scene.ended();
  }),
  scenario(
    'stopped',
    { points: ['stopping', 'stopped'], steps: [calls(['hold_note', 'monday'], ['write_note', 'tuesday'])] },
    async (scene) => {
      await scene.start();
      await scene.stage.tools.held(1);
      const request = await scene.openOne('t1.c1');
      await scene.run.stop({ by: 'ben', reason: 'the week is over' });
      await scene.ledgered('request.closed', 't1.c1');
      const withdrawn = refused(approve(request, 'approval of what was withdrawn'), 'REQUEST_NOT_OPEN');
      const nameless = refused(
        { name: 'a stop without a name', update: 'stop', input: { reason: 'now' } },
        'MESSAGE_INVALID',
      );
      await scene.take('stopping', { refused: [withdrawn, nameless] });
      scene.stage.tools.release();
      await scene.ended('stopped');
    },
  ),
  scenario('stopped-in-flight', { steps: [calls(['hold_note', 'monday'])] }, async (scene) => {
    await scene.start();
    await scene.stage.tools.held(1);
    await scene.run.stop({ by: 'ben', reason: 'the week is over', inFlight: 'cancel' });
    await scene.ended();
    scene.stage.tools.release();
    await scene.take('stopped-in-flight');
  }),
  // No worker serves the call's queue. Temporal reports the same for a call that had been taken by a worker and has
  // failed since.
  scenario('withdrawn', { steps: [calls(['read_note', 'monday'])] }, async (scene) => {
    await scene.approvedAway(scene.stage.split, { policy: ASKING });
    await scene.run.stop({ by: 'ben', reason: 'the week is over', inFlight: 'cancel' });
    await scene.ended('withdrawn');
  }),
  scenario('cancelled', { steps: [calls(['write_note', 'monday'])] }, async (scene) => {
    await scene.start();
    const request = await scene.openOne('t1.c0');
    await scene.run.cancel();
    await scene.ended('cancelled', {
      refused: [refused(approve(request, 'approval of a run that was cancelled'), 'RUN_CLOSED')],
    });
  }),
  alone('limited', [calls(['read_note', 'monday'], ['read_note', 'tuesday'])], {
    limits: { turns: 1, callsPerTurn: 1 },
  }),
  // Policy lets three calls stand and denies one. Each of the three gets a third of the turn's room, even the one
  // that is sent later.
  scenario(
    'shared',
    {
      points: ['shared', 'shared-sent'],
      steps: [
        calls(['read_note', 'long'], ['delete_note', 'sunday'], ['write_note', 'monday'], ['draw_chart', 'week']),
        calls(['read_note', 'long']),
      ],
    },
    async (scene) => {
      await scene.start({ limits: { resultBytesPerTurn: 16_384 } });
      const request = await scene.openOne('t1.c2');
      await scene.ledgered('outcome', 't1.c0');
      await scene.ledgered('outcome', 't1.c3');
      await scene.take('shared', { accepted: [approve(request, 'approval')] });
      await scene.ended('shared-sent');
    },
  ),
  // Spend is 2 + 3 for the first step and 4 + 3 for the second: exactly the limit.
  alone('spent', [calls(['read_note', 'monday']), calls(['read_note', 'tuesday'])], { limits: { spend: '0.000012' } }),
  alone('out-of-time', [calls(['write_note', 'monday'])], { limits: { wallClockSeconds: 2 } }),
  alone('unknown', [calls(['lose_answer', 'monday'])], { policy: { unknownOutcomes: 'record' } }),
  alone('sent-again', [calls(['refuse_once', 'monday'])]),
  scenario('repaired', { steps: [says('seven'), says('{"notes":7}')] }, async (scene) => {
    await scene.start({}, { agent: { output: ANSWER } });
    await scene.ended('repaired');
  }),
  scenario('bad-spec', { steps: [] }, async (scene) => {
    const { client, taskQueue } = scene.deployment;
    // A starter in another language might send this spec; the client library would refuse it.
    await client.workflow.start('agentRun', {
      workflowId: scene.workflowId,
      taskQueue,
      args: [{ agent: { name: 'clerk', model: 'bad-spec' }, input: 'Tidy the notes.', starter: 'ben' }],
    });
    await scene.ended('bad-spec');
  }),
];
