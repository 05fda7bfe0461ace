/**
 * Holds the place of one call of an MCP client, until its outcome has been delivered (docs/adr/0078).
 *
 * 1. Temporal lets one workflow of an id be open, so equal calls find the same ticket, whichever gateway they reach.
 * 2. It takes no input, so that nothing of it can be unreadable. Its end lets an equal call be a new one.
 * 3. It belongs to no build: the one that new runs begin on takes it on (docs/adr/0083), so no build waits for it. Its
 *    commands may only change under a patch.
 * 4. Its execution timeout ends a ticket whose client never comes back.
 */
import { defineSignal, setHandler, setWorkflowOptions } from '@temporalio/workflow';
import { SIGNALS } from '../../contracts/names.ts';
import { ofNoBuild } from '../entity/roll.ts';
import { condition } from '../interceptors/condition.ts';

export async function callTicket(): Promise<void> {
  let isDelivered = false;
  // A signal: the word is durable also while no worker is there to take it.
  setHandler(defineSignal(SIGNALS.delivered), () => void (isDelivered = true), {
    description: 'The caller has the outcome',
  });
  await condition(() => isDelivered);
}

setWorkflowOptions(ofNoBuild, callTicket);
