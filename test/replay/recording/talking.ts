/** These scenarios record runs that get messages, and calls that the model repeats. */
import { RawValue } from '@temporalio/common';
import { SIGNALS } from '../../../contracts/names.ts';
import { payloadConverter } from '../../../contracts/payload-converter.ts';
import { createDataConverter } from '../../../workers/codec.ts';
import { until } from '../../support/until.ts';
import type { Attempt } from './recording.ts';
import { approve, APPROVER, calls, refused, reject, type Scenario, scenario, wrongDecisions } from './scene.ts';
import { CORPUS_ENCRYPTION } from './stage.ts';

export const TALKING: readonly Scenario[] = [
  scenario(
    'again',
    {
      points: ['duplicate', 'repeated'],
      steps: [
        calls(['write_note', 'monday'], ['write_note', 'monday']),
        calls(['write_note', 'monday'], ['delete_note', 'monday'], ['write_note', 'tuesday']),
        calls(['delete_note', 'monday'], ['write_note', 'monday'], ['write_note', 'tuesday']),
      ],
    },
    async (scene) => {
      await scene.start();
      const [first, second] = await scene.open(['t1.c0', 't1.c1']);
      await scene.take('duplicate', {
        refused: [refused(approve(second, 'approval of the other', { callId: 't1.c0' }), 'DIGEST_MISMATCH')],
        accepted: [approve(second, 'approval of the second')],
      });
      await scene.decide(reject(first, 'no'));
      await scene.decide(approve(await scene.openOne('t2.c2'), 'yes'));
      // Repeated calls get the earlier denial and the earlier rejection. A repeated call that was approved asks again.
      const last = await scene.openOne('t3.c2');
      const repeat = refused(approve(last, 'approval of what was answered', { callId: 't3.c1' }), 'REQUEST_NOT_OPEN');
      await scene.take('repeated', {
        refused: [repeat, ...wrongDecisions(last)],
        accepted: [approve(last, 'approval')],
      });
    },
  ),
  scenario(
    'interrupted',
    {
      points: ['interrupted', 'interrupt-read'],
      steps: [calls(['hold_note', 'monday'], ['write_note', 'tuesday']), calls(['write_note', 'tuesday'])],
    },
    async (scene) => {
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
  ),
];

// These scenarios record runs under rules that depend on earlier calls.

export const RULED: readonly Scenario[] = [
  scenario(
    'counted',
    {
      points: ['counted', 'counted-sent'],
      steps: [calls(['read_note', 'monday']), calls(['read_note', 'tuesday'], ['read_note', 'wednesday'])],
    },
    async (scene) => {
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
      await scene.ended('counted-sent');
    },
  ),
];

// This scenario records a run that got unreadable messages, one of them sealed with a key that its worker did not have.
// Replays have that key.

const BRACE = { metadata: { encoding: Buffer.from('json/plain') }, data: Buffer.from('{') };

export const UNREADABLE: readonly Scenario[] = [
  scenario('unread', { steps: [calls(['write_note', 'monday'])] }, async (scene) => {
    await scene.start();
    const request = await scene.openOne('t1.c0');
    const [codec] = createDataConverter({ encryption: CORPUS_ENCRYPTION }).payloadCodecs;
    const [sealed = BRACE] =
      (await codec?.encode([payloadConverter.toPayload(approve(request, 'a sealed approval').input)])) ?? [];
    const { handle } = scene;
    for (const payload of [BRACE, sealed]) await handle.signal(SIGNALS.decide, RawValue.fromPayload(payload));
    await until(
      async () => {
        const ledger = await scene.run.ledger();
        return ledger.filter(({ fact }) => fact.kind === 'decision.refused').length === 2;
      },
      { what: 'two refused signals' },
    );
    await scene.take('unread', { refused: wrongDecisions(request), accepted: [approve(request, 'approval')] });
  }),
];
