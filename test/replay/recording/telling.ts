/** These scenarios record runs that tell people of their requests, through channels that take messages and others. */
import { DIGEST_WORKFLOW, SIGNALS } from '../../../contracts/names.ts';
import { digestIdOf } from '../../../domain/request/gathering.ts';
import { until } from '../../support/until.ts';
import { DIGEST } from './recording.ts';
import { APPROVER, approve, calls, type Scenario, scenario, type Scene, wrongDecisions } from './scene.ts';

/** Waits until the run shows so many messages that were sent, or given up. */
async function told(scene: Scene, what: 'sent' | 'failed', count: number): Promise<void> {
  await until(async () => (await scene.run.state()).messages?.[what] === count, {
    what: `${count} messages ${what} of ${scene.workflowId}`,
  });
}

export const TELLING: readonly Scenario[] = [
  scenario(
    'told',
    { points: ['told', 'told-closed'], steps: [calls(['write_note', 'monday'], ['write_note', 'tuesday'])] },
    async (scene) => {
      await scene.start({}, { on: await scene.stage.telling() });
      const [first, second] = await scene.open(['t1.c0', 't1.c1']);
      await told(scene, 'sent', 1);
      await scene.take('told', { refused: wrongDecisions(first), accepted: [approve(first, 'approval')] });
      await told(scene, 'sent', 2);
      await scene.decide(approve(second, 'approval of the second'));
      await scene.ended('told-closed');
    },
  ),
  scenario(
    'told-late',
    {
      points: ['told-reminded', 'told-escalated', 'told-expiring', 'told-expired'],
      steps: [calls(['file_note', 'monday'])],
    },
    async (scene) => {
      await scene.start({}, { on: await scene.stage.telling() });
      await scene.openOne('t1.c0');
      for (const [count, point] of ['reminded', 'escalated', 'expiring'].entries()) {
        await told(scene, 'sent', count + 2);
        await scene.take(`told-${point}`);
      }
      await scene.ended('told-expired');
    },
  ),
  scenario(
    'told-refused',
    { points: ['told-refused', 'told-refused-ended'], steps: [calls(['post_note', 'monday'])] },
    async (scene) => {
      await scene.start({}, { on: await scene.stage.telling() });
      const request = await scene.openOne('t1.c0');
      await told(scene, 'failed', 1);
      await scene.take('told-refused', { accepted: [approve(request, 'approval')] });
      await scene.ended('told-refused-ended');
    },
  ),
  scenario(
    'told-continued',
    {
      points: ['told-continued-first', 'told-continued-second', 'told-continued-sent'],
      steps: [calls(['stamp_note', 'monday'])],
    },
    async (scene) => {
      const deployment = await scene.stage.telling();
      await scene.start({}, { on: deployment });
      const first = await scene.openOne('t1.c0');
      await scene.scheduled('sendMessage');
      const runId = await scene.continued(first.runId);
      const request = await scene.openOne('t1.c0', runId);
      await scene.scheduled('sendMessage');
      await scene.take('told-continued-first', { runId: first.runId });
      await scene.take('told-continued-second', { refused: wrongDecisions(request) });
      deployment.bringBack('away');
      await told(scene, 'sent', 1);
      await scene.decide(approve(request, 'approval'));
      await scene.ended('told-continued-sent');
    },
  ),
  scenario(
    'told-gathered',
    {
      points: ['told-gathered', 'told-gathered-sent'],
      steps: [calls(['seal_note', 'monday'], ['seal_note', 'tuesday'])],
    },
    async (scene) => {
      await scene.start({}, { on: await scene.stage.telling() });
      const [first, second] = await scene.open(['t1.c0', 't1.c1']);
      // Handed over; the run itself gathers nothing.
      await told(scene, 'sent', 1);
      await scene.take('told-gathered', { accepted: [approve(first, 'approval')] });
      await told(scene, 'sent', 2);
      await scene.decide(approve(second, 'approval of the second'));
      await scene.ended('told-gathered-sent');
    },
  ),
  scenario(
    'told-digest',
    {
      points: [`${DIGEST}gathering`, `${DIGEST}sending`, `${DIGEST}sent`],
      steps: [calls(['seal_note', 'sunday'])],
    },
    async (scene) => {
      const deployment = await scene.stage.telling();
      const to = { ids: [APPROVER.id], groups: APPROVER.groups };
      const digestId = digestIdOf({ tenant: 'office', channel: 'rounds', to });
      const digest = deployment.client.workflow.getHandle(digestId);
      await scene.start({}, { on: deployment });
      const request = await scene.openOne('t1.c0');
      await told(scene, 'sent', 1);
      await scene.take(`${DIGEST}gathering`, {}, digestId);
      await until(async () => (await digest.describe()).raw.pendingActivities?.length === 1, {
        what: 'a digest that is sent',
      });
      await scene.decide(approve(request, 'approval'));
      await told(scene, 'sent', 2);
      await scene.take(`${DIGEST}sending`, {}, digestId);
      deployment.bringBack('rounds');
      await digest.result();
      await scene.take(`${DIGEST}sent`, {}, digestId);
      await scene.ended();
    },
  ),
  scenario(
    'told-digest-carried',
    { points: [`${DIGEST}carried`], steps: [calls(['seal_note', 'sunday'])] },
    async (scene) => {
      const deployment = await scene.stage.telling();
      deployment.takeAway('rounds');
      await scene.start({}, { on: deployment });
      const request = await scene.openOne('t1.c0');
      await told(scene, 'sent', 1);
      const digest = { tenant: 'office', channel: 'rounds', to: { ids: [APPROVER.id], groups: [] }, seconds: 60 };
      const workflowId = digestIdOf(digest);
      const { client, taskQueue } = deployment;
      const handle = await client.workflow.start(DIGEST_WORKFLOW, { workflowId, taskQueue, args: [digest] });
      const about = { run: scene.workflowId, event: 'opened', calls: [{ callId: 't1.c0', generation: 1 }] };
      await handle.signal(SIGNALS.gather, { key: 'a'.repeat(64), ...about });
      const first = client.workflow.getHandle(workflowId, handle.firstExecutionRunId);
      const isContinued = async (): Promise<boolean> => (await first.describe()).status.name === 'CONTINUED_AS_NEW';
      // Temporal suggests it at 4,096 events; what is no pointer is left out. A signal in the task that ends an
      // execution makes Temporal refuse the end, so they pause.
      for (let sent = 0; sent < 4_200 && !(await isContinued()); sent += 50)
        await Promise.all(Array.from({ length: 50 }, async () => await handle.signal(SIGNALS.gather, 'nothing')));
      await until(isContinued, { what: 'its next execution' });
      const next = client.workflow.getHandle(workflowId);
      await until(async () => (await next.describe()).raw.pendingActivities?.length === 1, {
        what: 'a digest that is sent',
        withinMs: 90_000,
      });
      await scene.take(`${DIGEST}carried`, {}, workflowId);
      deployment.bringBack('rounds');
      await next.result();
      await scene.decide(approve(request, 'approval'));
      await scene.ended();
    },
  ),
];
