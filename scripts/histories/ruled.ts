/** These scenarios record runs under rules that depend on earlier calls. */
import { APPROVER, approve, wrongDecisions } from './attempts.ts';
import { calls, says, type Scenario } from './scene.ts';

const DONE = says('The notes are in order.');

export const RULED: readonly Scenario[] = [
  {
    name: 'counted',
    points: ['counted', 'counted-sent'],
    script: {
      steps: [calls(['read_note', 'monday']), calls(['read_note', 'tuesday'], ['read_note', 'wednesday']), DONE],
    },
    play: async (scene) => {
      const when = 'earlier["notes/read_note"].total >= 2';
      const match = { server: 'notes', tool: 'read_*' };
      await scene.start({
        policy: {
          rules: [
            {
              id: 'enough',
              match,
              when,
              then: 'ask',
              approvers: { ids: [APPROVER.id] },
              explain: 'Two notes are enough.',
            },
          ],
        },
      });
      const request = await scene.openOne('t2.c1');
      await scene.ledgered('outcome', 't2.c0');
      await scene.take('counted', { refused: wrongDecisions(request), accepted: [approve(request, 'approval')] });
      await scene.ended();
      await scene.take('counted-sent');
    },
  },
];
