/** These scenarios record runs that wait for people: requests that are open, decided or late, and messages. */
import { approve, refused, reject, wrongDecisions } from './attempts.ts';
import type { Attempt } from './inputs.ts';
import { calls, says, type Scenario } from './scene.ts';
import { until } from './until.ts';

const DONE = says('The notes are in order.');

export const ASKING: readonly Scenario[] = [
  {
    name: 'pending',
    points: ['pending'],
    script: { steps: [calls(['read_note', 'monday'], ['write_note', 'tuesday']), DONE] },
    play: async (scene) => {
      await scene.start();
      const request = await scene.openOne('t1.c1');
      await scene.ledgered('outcome', 't1.c0');
      const notAsked = refused(approve({ ...request, callId: 't1.c0' }, 'a call that was allowed'), 'REQUEST_NOT_OPEN');
      await scene.take('pending', {
        refused: [...wrongDecisions(request), notAsked],
        accepted: [approve(request, 'approval')],
      });
    },
  },
  {
    name: 'two-pending',
    points: ['two-pending', 'one-decided'],
    script: { steps: [calls(['write_note', 'monday'], ['write_note', 'monday']), DONE] },
    play: async (scene) => {
      await scene.start();
      const [first, second] = await scene.open(['t1.c0', 't1.c1']);
      if (first === undefined || second === undefined) throw new Error('two requests were open');
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
  },
  {
    name: 'rejected',
    points: ['rejected'],
    script: { steps: [calls(['write_note', 'monday']), calls(['write_note', 'tuesday']), DONE] },
    play: async (scene) => {
      await scene.start();
      const first = await scene.openOne('t1.c0');
      await scene.run.decide({
        kind: 'reject',
        decisionId: 'no',
        callId: first.callId,
        digest: first.digest,
        runId: first.runId,
        approver: { id: 'ann' },
        reason: 'not on a monday',
      });
      const second = await scene.openOne('t2.c0');
      const late = refused(approve(first, 'approval of what was rejected'), 'ALREADY_DECIDED');
      await scene.take('rejected', {
        refused: [late, ...wrongDecisions(second)],
        accepted: [approve(second, 'approval')],
      });
    },
  },
  {
    name: 'expired',
    points: ['expired'],
    script: { steps: [calls(['send_note', 'monday']), calls(['write_note', 'tuesday']), DONE] },
    play: async (scene) => {
      await scene.start();
      const first = await scene.openOne('t1.c0');
      const second = await scene.openOne('t2.c0');
      const late = refused(approve(first, 'approval after the deadline'), 'DECISION_EXPIRED');
      await scene.take('expired', {
        refused: [late, ...wrongDecisions(second)],
        accepted: [approve(second, 'approval')],
      });
    },
  },
  {
    name: 'signalled',
    points: ['signalled', 'signalled-stale'],
    script: { steps: [calls(['write_note', 'monday'], ['write_note', 'tuesday']), DONE] },
    play: async (scene) => {
      await scene.start();
      const [first, second] = await scene.open(['t1.c0', 't1.c1']);
      if (first === undefined || second === undefined) throw new Error('two requests were open');
      const handle = scene.deployment.client.workflow.getHandle(scene.workflowId);
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
      const reopened = await until(
        async () => (await scene.run.requests()).find(({ generation }) => generation === 2),
        'the reopened request',
      );
      const before = refused(approve(second, 'what was shown before'), 'DIGEST_MISMATCH');
      await scene.take('signalled-stale', {
        refused: [before, ...wrongDecisions(reopened)],
        accepted: [approve(reopened, 'approval of the second')],
      });
    },
  },
  {
    name: 'of-two',
    points: ['one-of-two', 'taken-back', 'two-of-two'],
    script: { steps: [calls(['seal_note', 'monday']), DONE] },
    play: async (scene) => {
      await scene.start();
      const request = await scene.openOne('t1.c0');
      const { callId, digest, runId } = request;
      const of = (id: string, decisionId: string) => ({ decisionId, callId, digest, runId, approver: { id } });
      const zoe = { approver: { id: 'zoe', groups: [] } };
      await scene.run.decide({ kind: 'approve', ...of('ann', 'first') });
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
      await scene.run.decide({ kind: 'approve', ...of('zoe', 'second') });
      await scene.ended();
      await scene.take('two-of-two');
    },
  },
  {
    name: 'two-lists',
    points: ['one-of-two-lists'],
    script: { steps: [calls(['write_note', 'monday']), DONE] },
    play: async (scene) => {
      const own = { action: 'ask' as const, approvers: { ids: ['eve'] } };
      await scene.start({ policy: { servers: { notes: { tools: { write_note: own } } } } });
      const request = await scene.openOne('t1.c0');
      const eve = { approver: { id: 'eve', groups: [] } };
      await scene.deployment.client.workflow
        .getHandle(scene.workflowId)
        .signal('decide', approve(request, 'of one list').input);
      await scene.ledgered('decision.accepted', 't1.c0');
      await scene.take('one-of-two-lists', {
        refused: [
          refused(approve(request, 'of the same list again'), 'ALREADY_DECIDED'),
          refused(approve(request, 'of none', { approver: { id: 'mallory', groups: [] } }), 'APPROVER_NOT_ENTITLED'),
        ],
        accepted: [approve(request, 'of the other list', eve)],
      });
    },
  },
  {
    name: 'spoken-to',
    points: ['say-queued', 'say-read'],
    script: { steps: [calls(['write_note', 'monday']), DONE, DONE] },
    play: async (scene) => {
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
      await scene.ended();
      await scene.take('say-read');
    },
  },
];
