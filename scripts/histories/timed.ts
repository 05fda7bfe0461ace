/**
 * These scenarios record runs whose requests have times of their own: postponed deadlines, and approvals that are too
 * old.
 */
import { approve, refused, wrongDecisions } from './attempts.ts';
import type { Attempt } from './inputs.ts';
import { continued } from './moving.ts';
import { calls, says, type Scenario } from './scene.ts';
import { until } from './until.ts';

const DONE = says('The notes are in order.');

export const TIMED: readonly Scenario[] = [
  {
    name: 'postponed',
    points: ['extended', 'extended-sent'],
    script: { steps: [calls(['post_note', 'monday'], ['write_note', 'tuesday']), DONE] },
    play: async (scene) => {
      await scene.start();
      const [request, other] = await scene.open(['t1.c0', 't1.c1']);
      if (request === undefined || other === undefined) throw new Error('two requests were open');
      const after = (seconds: number): string => new Date(Date.parse(request.openedAt) + seconds * 1_000).toISOString();
      const extend = (name: string, seconds: number, over: object = {}): Attempt =>
        approve(request, name, { kind: 'extend', until: after(seconds), ...over });
      const handle = scene.deployment.client.workflow.getHandle(scene.workflowId);
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
      await scene.ended();
      await scene.take('extended-sent');
    },
  },
  {
    name: 'nobody-there',
    points: ['reminded', 'escalated', 'escalated-continued', 'escalated-sent'],
    script: { steps: [calls(['file_note', 'monday']), DONE] },
    play: async (scene) => {
      await scene.start();
      const request = await scene.openOne('t1.c0');
      const zoe = { approver: { id: 'zoe', groups: [] } };
      const eve = { approver: { id: 'eve', groups: [] } };
      const handle = scene.deployment.client.workflow.getHandle(scene.workflowId);
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
      const runId = await continued(scene, request.runId);
      const again = await scene.openOne('t1.c0', runId);
      await scene.take('escalated-continued', {
        refused: [refused(approve(again, 'too late', eve), 'APPROVER_NOT_ENTITLED')],
        accepted: [approve(again, 'of whom it waits on', zoe)],
      });
      await scene.ended();
      await scene.take('escalated-sent');
    },
  },
  {
    name: 'lapsed',
    points: ['lapsed'],
    script: { steps: [calls(['stamp_note', 'monday']), DONE] },
    play: async (scene) => {
      const { split } = scene.stage;
      const forDiscovery = await split.serveTools();
      await scene.start({}, { on: split });
      const request = await scene.openOne('t1.c0');
      await forDiscovery.stop();
      const { decidedAt } = await scene.run.decide({
        kind: 'approve',
        decisionId: 'yes',
        callId: request.callId,
        digest: request.digest,
        runId: request.runId,
        approver: { id: 'ann' },
      });
      await scene.ledgered('dispatched', 't1.c0');
      await until(
        async () => (Date.now() >= Date.parse(decidedAt) + 1_000 ? true : undefined),
        'the end of the approval',
      );
      const late = await split.serveTools();
      const again = await until(
        async () => (await scene.run.requests()).find(({ generation }) => generation === 2),
        'the reopened request',
      );
      const before = refused(approve(request, 'what was shown before'), 'DIGEST_MISMATCH');
      await scene.take('lapsed', {
        refused: [before, ...wrongDecisions(again)],
        accepted: [approve(again, 'a fresh approval')],
      });
      await late.stop();
    },
  },
];
