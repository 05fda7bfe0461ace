/** These scenarios record a ticket of a call of an MCP client: while it is held, and after the outcome was delivered. */
import { ticketIdOf } from '../../../domain/gate/ticket.ts';
import { until } from '../../support/until.ts';
import { TICKET } from './recording.ts';
import { says, type Scenario, scenario } from './scene.ts';

const KEEP_SECONDS = 604_800;

export const TICKETS: readonly Scenario[] = [
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
