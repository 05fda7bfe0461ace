/** These scenarios record runs that get messages, and calls that the model repeats. */
import type { ApprovalRequest } from '../../contracts/schemas/request.ts';
import { approve, refused, wrongDecisions } from './attempts.ts';
import type { Attempt } from './inputs.ts';
import { calls, says, type Scenario } from './scene.ts';

const DONE = says('The notes are in order.');

export const TALKING: readonly Scenario[] = [
  {
    name: 'again',
    points: ['duplicate', 'repeated'],
    script: {
      steps: [
        calls(['write_note', 'monday'], ['write_note', 'monday']),
        calls(['write_note', 'monday'], ['delete_note', 'monday'], ['write_note', 'tuesday']),
        calls(['delete_note', 'monday'], ['write_note', 'monday'], ['write_note', 'tuesday']),
        DONE,
      ],
    },
    play: async (scene) => {
      await scene.start();
      const [first, second] = await scene.open(['t1.c0', 't1.c1']);
      if (first === undefined || second === undefined) throw new Error('two requests were open');
      await scene.take('duplicate', {
        refused: [refused(approve(second, 'approval of the other', { callId: 't1.c0' }), 'DIGEST_MISMATCH')],
        accepted: [approve(second, 'approval of the second')],
      });
      const ann = { approver: { id: 'ann' } };
      const of = ({ callId, digest, runId }: ApprovalRequest) => ({
        decisionId: callId,
        callId,
        digest,
        runId,
        ...ann,
      });
      await scene.run.decide({ kind: 'reject', ...of(first), reason: 'not on a monday' });
      await scene.run.decide({ kind: 'approve', ...of(await scene.openOne('t2.c2')) });
      // Repeated calls get the earlier denial and the earlier rejection. A repeated call that was approved asks again.
      const last = await scene.openOne('t3.c2');
      const repeat = refused(approve(last, 'approval of what was answered', { callId: 't3.c1' }), 'REQUEST_NOT_OPEN');
      await scene.take('repeated', {
        refused: [repeat, ...wrongDecisions(last)],
        accepted: [approve(last, 'approval')],
      });
    },
  },
  {
    name: 'interrupted',
    points: ['interrupted', 'interrupt-read'],
    script: {
      steps: [calls(['hold_note', 'monday'], ['write_note', 'tuesday']), calls(['write_note', 'tuesday']), DONE],
    },
    play: async (scene) => {
      await scene.start();
      await scene.stage.tools.held(1);
      const request = await scene.openOne('t1.c1');
      const message = { messageId: 'hint', text: 'Tuesday is a holiday.', from: 'ben', interrupt: true } as const;
      const say = (name: string, over: object): Attempt => ({ name, update: 'say', input: { ...message, ...over } });
      await scene.run.say(message);
      const other = refused(say('another message of that id', { text: 'It is none.' }), 'MESSAGE_INVALID');
      const late = refused(approve(request, 'approval of what was withdrawn'), 'REQUEST_NOT_OPEN');
      await scene.take('interrupted', { refused: [other, late], accepted: [say('the same message', {})] });
      scene.stage.tools.release();
      const next = await scene.openOne('t2.c0');
      await scene.take('interrupt-read', {
        refused: [
          other,
          refused(say('an interruption that is none', { interrupt: false }), 'MESSAGE_INVALID'),
          ...wrongDecisions(next),
        ],
        accepted: [say('another interruption', { messageId: 'second' })],
      });
    },
  },
];
