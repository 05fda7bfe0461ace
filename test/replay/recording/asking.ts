/** These scenarios record runs that wait for people: requests that are open, decided or late, and messages. */
import { until } from '../../support/until.ts';
import type { Attempt } from './recording.ts';
import { approve, calls, DONE, refused, reject, type Scenario, scenario, wrongDecisions } from './scene.ts';

export const ASKING: readonly Scenario[] = [
  scenario('pending', { steps: [calls(['read_note', 'monday'], ['write_note', 'tuesday'])] }, async (scene) => {
    await scene.start();
    const request = await scene.openOne('t1.c1');
    await scene.ledgered('outcome', 't1.c0');
    const notAsked = refused(approve({ ...request, callId: 't1.c0' }, 'a call that was allowed'), 'REQUEST_NOT_OPEN');
    await scene.take('pending', {
      refused: [...wrongDecisions(request), notAsked],
      accepted: [approve(request, 'approval')],
    });
  }),
  scenario(
    'two-pending',
    {
      points: ['two-pending', 'one-decided'],
      steps: [calls(['write_note', 'monday'], ['write_note', 'monday'])],
    },
    async (scene) => {
      await scene.start();
      const [first, second] = await scene.open(['t1.c0', 't1.c1']);
      const swapped = refused(
        approve({ ...first, digest: second.digest }, 'the digest of its twin'),
        'DIGEST_MISMATCH',
      );
      // The later request is decided first.
      const approval = approve(second, 'approval of the second');
      await scene.take('two-pending', { refused: [swapped, ...wrongDecisions(first)], accepted: [approval] });
      await scene.ledgered('outcome', 't1.c1');
      const again = [
        refused(approve(second, 'a second decision'), 'ALREADY_DECIDED'),
        refused(reject(second, 'a second decision of another kind'), 'ALREADY_DECIDED'),
        refused({ ...approve(first, 'approval of the second'), name: 'a decision id used before' }, 'DECISION_INVALID'),
      ];
      await scene.take('one-decided', {
        refused: [...again, ...wrongDecisions(first)],
        accepted: [reject(first, 'rejection of the first')],
      });
    },
  ),
  scenario(
    'rejected',
    { steps: [calls(['write_note', 'monday']), calls(['write_note', 'tuesday'])] },
    async (scene) => {
      await scene.start();
      const first = await scene.openOne('t1.c0');
      await scene.decide(reject(first, 'no'));
      const second = await scene.openOne('t2.c0');
      const late = refused(approve(first, 'approval of what was rejected'), 'ALREADY_DECIDED');
      await scene.take('rejected', {
        refused: [late, ...wrongDecisions(second)],
        accepted: [approve(second, 'approval')],
      });
    },
  ),
  scenario('expired', { steps: [calls(['send_note', 'monday']), calls(['write_note', 'tuesday'])] }, async (scene) => {
    await scene.start();
    const first = await scene.openOne('t1.c0');
    const second = await scene.openOne('t2.c0');
    const late = refused(approve(first, 'approval after the deadline'), 'DECISION_EXPIRED');
    await scene.take('expired', {
      refused: [late, ...wrongDecisions(second)],
      accepted: [approve(second, 'approval')],
    });
  }),
  scenario(
    'signalled',
    {
      points: ['signalled', 'signalled-stale'],
      steps: [calls(['write_note', 'monday'], ['write_note', 'tuesday'])],
    },
    async (scene) => {
      await scene.start();
      const [first, second] = await scene.open(['t1.c0', 't1.c1']);
      const { handle } = scene;
      const isStale = ({ code }: { readonly code: string }): boolean => code === 'DECISION_STALE_RUN';
      const wrong = wrongDecisions(first).filter((attempt) => !isStale(attempt));
      for (const { input } of [...wrong, approve(first, 'approval')]) await handle.signal('decide', input);
      await scene.ledgered('outcome', 't1.c0');
      const again = refused(approve(first, 'a decision after the signal'), 'ALREADY_DECIDED');
      await scene.take('signalled', { refused: [again, ...wrongDecisions(second)] });
      // The validator does not see a signal, so the dispatch finds that the decision's Temporal run does not count. The
      // call is asked again.
      for (const { input } of wrongDecisions(second).filter(isStale))
        await handle.signal('decide', { ...Object(input), decisionId: 'stale' });
      const reopened = await scene.asked('t1.c1', 2);
      const before = refused(approve(second, 'what was shown before'), 'DIGEST_MISMATCH');
      await scene.take('signalled-stale', {
        refused: [before, ...wrongDecisions(reopened)],
        accepted: [approve(reopened, 'approval of the second')],
      });
    },
  ),
  scenario(
    'of-two',
    { points: ['one-of-two', 'taken-back', 'two-of-two'], steps: [calls(['seal_note', 'monday'])] },
    async (scene) => {
      await scene.start();
      const request = await scene.openOne('t1.c0');
      const zoe = { approver: { id: 'zoe', groups: [] } };
      await scene.decide(approve(request, 'first'));
      await scene.take('one-of-two', {
        refused: [
          refused(approve(request, 'of one who has agreed'), 'ALREADY_DECIDED'),
          refused(
            approve(request, 'of the initiator', { approver: { id: 'ben', groups: [] } }),
            'APPROVER_NOT_ENTITLED',
          ),
          refused(approve(request, 'taken back by another', { ...zoe, kind: 'withdraw' }), 'REQUEST_NOT_OPEN'),
        ],
        accepted: [approve(request, 'taken back', { kind: 'withdraw' })],
      });
      await scene.take('taken-back', { accepted: [approve(request, 'of the first again')] });
      await scene.decide(approve(request, 'second', zoe));
      await scene.ended('two-of-two');
    },
  ),
  scenario('two-lists', { points: ['one-of-two-lists'], steps: [calls(['write_note', 'monday'])] }, async (scene) => {
    const own = { action: 'ask' as const, approvers: { ids: ['eve'] } };
    await scene.start({ policy: { servers: { notes: { tools: { write_note: own } } } } });
    const request = await scene.openOne('t1.c0');
    const eve = { approver: { id: 'eve', groups: [] } };
    await scene.handle.signal('decide', approve(request, 'of one list').input);
    await scene.ledgered('decision.accepted', 't1.c0');
    await scene.take('one-of-two-lists', {
      refused: [
        refused(approve(request, 'of the same list again'), 'ALREADY_DECIDED'),
        refused(approve(request, 'of none', { approver: { id: 'mallory', groups: [] } }), 'APPROVER_NOT_ENTITLED'),
      ],
      accepted: [approve(request, 'of the other list', eve)],
    });
  }),
  scenario(
    'spoken-to',
    { points: ['say-queued', 'say-read'], steps: [calls(['write_note', 'monday']), DONE, DONE] },
    async (scene) => {
      await scene.start();
      const request = await scene.openOne('t1.c0');
      await scene.run.say({ messageId: 'hint', text: 'Do not forget the sunday.', from: 'ben' });
      const say = (name: string, input: object): Attempt => ({
        name,
        update: 'say',
        input: { messageId: name.replaceAll(' ', '-'), text: 'yes', from: 'ben', ...input },
      });
      const invalid = [
        refused(say('an empty message', { text: '' }), 'MESSAGE_INVALID'),
        refused(say('an approval in a message', { approval: { callId: 't1.c0' } }), 'MESSAGE_INVALID'),
        refused(say('more than may wait', { text: '€'.repeat(131_072) }), 'LIMIT_REACHED'),
      ];
      await scene.take('say-queued', {
        refused: [...invalid, ...wrongDecisions(request)],
        accepted: [approve(request, 'approval')],
      });
      await scene.ended('say-read');
    },
  ),
];

// These scenarios record runs whose requests have times of their own: postponed deadlines, and approvals that are too
// old.

export const TIMED: readonly Scenario[] = [
  scenario(
    'postponed',
    { points: ['extended', 'extended-sent'], steps: [calls(['post_note', 'monday'], ['write_note', 'tuesday'])] },
    async (scene) => {
      await scene.start();
      const [request, other] = await scene.open(['t1.c0', 't1.c1']);
      const after = (seconds: number): string => new Date(Date.parse(request.openedAt) + seconds * 1_000).toISOString();
      const extend = (name: string, seconds: number, over: object = {}): Attempt =>
        approve(request, name, { kind: 'extend', until: after(seconds), ...over });
      const { handle } = scene;
      await handle.executeUpdate('decide', { args: [extend('to half an hour', 1_800).input], updateId: 'first' });
      await scene.take('extended', {
        refused: [
          refused(extend('too far', 3_601), 'EXTENSION_FORBIDDEN'),
          refused(extend('no later than it is', 1_800), 'DECISION_INVALID'),
          refused(extend('to no time', 1, { until: 'tomorrow' }), 'DECISION_INVALID'),
          refused(extend('by a stranger', 2_000, { approver: { id: 'mallory', groups: [] } }), 'APPROVER_NOT_ENTITLED'),
          refused(
            approve(other, 'of what nobody may postpone', { kind: 'extend', until: after(90_000) }),
            'EXTENSION_FORBIDDEN',
          ),
          ...wrongDecisions(request),
        ],
        accepted: [extend('further', 3_600)],
      });
      for (const each of [request, other])
        await handle.executeUpdate('decide', {
          args: [approve(each, `yes-${each.callId}`).input],
          updateId: each.callId,
        });
      await scene.ended('extended-sent');
    },
  ),
  scenario(
    'nobody-there',
    {
      points: ['reminded', 'escalated', 'escalated-continued', 'escalated-sent'],
      steps: [calls(['file_note', 'monday'])],
    },
    async (scene) => {
      await scene.start();
      const request = await scene.openOne('t1.c0');
      const zoe = { approver: { id: 'zoe', groups: [] } };
      const eve = { approver: { id: 'eve', groups: [] } };
      const { handle } = scene;
      await handle.executeUpdate('decide', { args: [approve(request, 'of-ann').input], updateId: 'of-ann' });
      await scene.ledgered('request.reminded', 't1.c0');
      await scene.take('reminded', {
        refused: [
          refused(approve(request, 'too early', zoe), 'APPROVER_NOT_ENTITLED'),
          refused(approve(request, 'of ann again'), 'ALREADY_DECIDED'),
        ],
        accepted: [approve(request, 'taken back', { kind: 'withdraw' })],
      });
      await handle.executeUpdate('decide', { args: [approve(request, 'again-of-ann').input], updateId: 'again' });
      await scene.ledgered('request.escalated', 't1.c0');
      const late = refused(approve(request, 'too late', eve), 'APPROVER_NOT_ENTITLED');
      const anew = refused(approve(request, 'of who agreed before'), 'APPROVER_NOT_ENTITLED');
      await scene.take('escalated', { refused: [late, anew] });
      const runId = await scene.continued(request.runId);
      const again = await scene.openOne('t1.c0', runId);
      await scene.take('escalated-continued', {
        refused: [refused(approve(again, 'too late', eve), 'APPROVER_NOT_ENTITLED')],
        accepted: [approve(again, 'of whom it waits on', zoe)],
      });
      await scene.ended('escalated-sent');
    },
  ),
  scenario('lapsed', { steps: [calls(['stamp_note', 'monday'])] }, async (scene) => {
    const { split } = scene.stage;
    const forDiscovery = await split.serveTools();
    await scene.start({}, { on: split });
    const request = await scene.openOne('t1.c0');
    await forDiscovery.stop();
    const { decidedAt } = await scene.decide(approve(request, 'yes'));
    await scene.ledgered('dispatched', 't1.c0');
    await until(async () => Date.now() >= Date.parse(decidedAt) + 1_000, {
      what: 'the end of the approval',
    });
    const late = await split.serveTools();
    const again = await scene.asked('t1.c0', 2);
    const before = refused(approve(request, 'what was shown before'), 'DIGEST_MISMATCH');
    await scene.take('lapsed', {
      refused: [before, ...wrongDecisions(again)],
      accepted: [approve(again, 'a fresh approval')],
    });
    await late.stop();
  }),
];
