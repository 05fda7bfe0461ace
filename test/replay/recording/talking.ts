/** These scenarios record runs that get messages, and calls that the model repeats. */
import { RawValue } from '@temporalio/common';
import { SIGNALS } from '../../../contracts/names.ts';
import { payloadConverter } from '../../../contracts/payload-converter.ts';
import type { ApprovalRequest } from '../../../contracts/schemas/request.ts';
import { createDataConverter } from '../../../workers/codec.ts';
import type { Attempt } from './recording.ts';
import { approve, APPROVER, calls, refused, says, type Scenario, wrongDecisions } from './scene.ts';
import { CORPUS_ENCRYPTION } from './stage.ts';
import { until } from '../../support/until.ts';

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

// These scenarios record runs under rules that depend on earlier calls.

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

// This scenario records a run that got unreadable messages, one of them sealed with a key that its worker did not have.
// Replays have that key.

const BRACE = { metadata: { encoding: Buffer.from('json/plain') }, data: Buffer.from('{') };

export const UNREADABLE: readonly Scenario[] = [
  {
    name: 'unread',
    points: ['unread'],
    script: { steps: [calls(['write_note', 'monday']), says('The notes are in order.')] },
    play: async (scene) => {
      await scene.start();
      const request = await scene.openOne('t1.c0');
      const [codec] = createDataConverter({ encryption: CORPUS_ENCRYPTION }).payloadCodecs;
      const [sealed = BRACE] =
        (await codec?.encode([payloadConverter.toPayload(approve(request, 'a sealed approval').input)])) ?? [];
      const handle = scene.deployment.client.workflow.getHandle(scene.workflowId);
      for (const payload of [BRACE, sealed]) await handle.signal(SIGNALS.decide, RawValue.fromPayload(payload));
      await until(
        async () => {
          const ledger = await scene.run.ledger();
          return ledger.filter(({ fact }) => fact.kind === 'decision.refused').length === 2 ? true : undefined;
        },
        { what: 'two refused signals' },
      );
      await scene.take('unread', { refused: wrongDecisions(request), accepted: [approve(request, 'approval')] });
    },
  },
];
