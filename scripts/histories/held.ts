/** These scenarios record runs whose calls are throttled by their server's limits. */
import { approve, refused } from './attempts.ts';
import { continued } from './moving.ts';
import { calls, type Scenario, says } from './scene.ts';
import { until } from './until.ts';

const DONE = says('The notes are in order.');

/** More dispatches than a call has attempts: throttled dispatches do not count as attempts. */
const DISPATCHES = 7;

export const HELD: readonly Scenario[] = [
  {
    name: 'held',
    points: ['held', 'held-sent'],
    script: { steps: [calls(['hold_note', 'monday'], ['hold_note', 'tuesday'], ['write_note', 'sunday']), DONE] },
    play: async (scene) => {
      const { tools } = scene.stage;
      await scene.start({}, { on: await scene.stage.limited({ concurrency: 1 }) });
      const request = await scene.openOne('t1.c2');
      await tools.held(1);
      // The count covers both calls, whichever of them the server takes first.
      await until(async () => {
        const dispatched = (await scene.run.ledger()).filter(({ fact }) => fact.kind === 'dispatched');
        return dispatched.length > DISPATCHES ? true : undefined;
      }, 'a call that came back again and again');
      const waits = refused(
        approve({ ...request, callId: 't1.c1' }, 'a call that waits for its server'),
        'REQUEST_NOT_OPEN',
      );
      await scene.take('held', { refused: [waits], accepted: [approve(request, 'approval')] });
      tools.release();
      await tools.held(1);
      tools.release();
      await scene.ended();
      await scene.take('held-sent');
    },
  },
  {
    name: 'held-continued',
    points: ['held-first', 'held-second'],
    script: { steps: [calls(['read_note', 'monday'], ['read_note', 'tuesday']), DONE] },
    play: async (scene) => {
      await scene.start({}, { on: await scene.stage.limited({ perSecond: 0.1 }) });
      await scene.ledgered('held');
      await scene.ledgered('outcome');
      const { runId } = await scene.run.state();
      await continued(scene, runId);
      await scene.take('held-first', { runId });
      await scene.ended();
      await scene.take('held-second');
    },
  },
];
