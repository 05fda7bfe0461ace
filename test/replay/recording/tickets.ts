/**
 * These scenarios record calls without a model: a single call, and calls of MCP clients: a ticket while it is held and
 * after the outcome was delivered, and a call that was approved and waits for its client, until that is back.
 */
import { ticketIdOf } from '../../../domain/gate/ticket.ts';
import { until } from '../../support/until.ts';
import { TICKET } from './recording.ts';
import { approve, calls, INTERRUPTION, says, type Scenario, scenario, wrongDecisions } from './scene.ts';

const KEEP_SECONDS = 604_800;
const INITIATOR = { id: 'ben', tenant: 'office' };

export const TICKETS: readonly Scenario[] = [
  scenario(
    'single-call',
    { points: ['single-call', 'single-call-ended'], steps: [says('No model is asked.')] },
    async (scene) => {
      const { countersign, taskQueue } = scene.stage.plain;
      const call = { server: 'notes', tool: 'write_note', arguments: { name: 'monday' }, initiator: INITIATOR };
      await countersign.call({ runId: scene.workflowId, call, taskQueue });
      const request = await scene.openOne('t1.c0');
      await scene.take('single-call', {
        refused: wrongDecisions(request),
        accepted: [approve(request, 'approval')],
      });
      await scene.ended('single-call-ended');
    },
  ),
  scenario(
    'client-away',
    { points: ['client-away-first', 'client-away', 'client-back'], steps: [calls(['write_note', 'monday'])] },
    async (scene) => {
      await scene.start({ dispatch: 'on-return' });
      const request = await scene.openOne('t1.c0');
      await scene.decide(approve(request, 'approval'));
      // Handing over shows that nothing has left: its own activity is the next command.
      await scene.continued(request.runId);
      await scene.take('client-away-first', { runId: request.runId });
      await scene.take('client-away');
      await scene.run.present(Date.now() + 600_000);
      await scene.ended('client-back');
    },
  ),
  scenario(
    'client-away-withdrawn',
    { points: ['client-away-interrupted', 'client-away-withdrawn'], steps: [calls(['write_note', 'monday'])] },
    async (scene) => {
      await scene.start({ dispatch: 'on-return' });
      const request = await scene.openOne('t1.c0');
      await scene.decide(approve(request, 'approval'));
      await scene.take('client-away-interrupted', { accepted: [INTERRUPTION] });
      await scene.ended('client-away-withdrawn');
    },
  ),
  scenario(
    'ticket',
    { points: [`${TICKET}held`, `${TICKET}delivered`], steps: [says('No model is asked.')] },
    async (scene) => {
      const { client, taskQueue, countersign } = scene.stage.plain;
      const called = { server: 'notes', tool: 'write_note', arguments: { name: 'monday' } };
      const ticketId = ticketIdOf({ tenant: 'office', person: 'ben', client: 'coder', ...called });
      const tickets = countersign.tickets(KEEP_SECONDS, taskQueue);
      const ticket = await tickets.take(ticketId);
      await scene.take(`${TICKET}held`, {}, ticketId);
      tickets.delivering(ticket, Promise.resolve(true));
      await until(async () => (await client.workflow.getHandle(ticketId).describe()).status.name === 'COMPLETED', {
        what: 'the end of the ticket',
      });
      await scene.take(`${TICKET}delivered`, {}, ticketId);
    },
  ),
];
