// The Temporal server of the comparison, as servers.mjs started it.
import { readFileSync } from 'node:fs';
import protos from '@temporalio/proto';

const { History } = protos.temporal.api.history.v1;

export const ADDRESS = process.env['PEERS_TEMPORAL'] ?? '127.0.0.1:17233';
export const DATABASES = ['temporal', 'temporal_visibility'];

/** @returns {number} */
export function serverPid() {
  if (process.env['PEERS_TEMPORAL_PID'] !== undefined) return Number(process.env['PEERS_TEMPORAL_PID']);
  return Number(readFileSync(new URL('../peers-servers/temporal.pid', import.meta.url), 'utf8'));
}

/** @param {import('@temporalio/client').Client} client @param {string} workflowId */
export async function historyOf(client, workflowId) {
  const history = await client.workflow.getHandle(workflowId).fetchHistory();
  return { historyEvents: history.events?.length ?? 0, historyBytes: History.encode(history).finish().length };
}

/** A server that has just started learns of new search attributes within seconds. @param {() => Promise<void>} ready */
export async function until(ready) {
  for (let attempt = 0; ; attempt += 1) {
    try {
      return await ready();
    } catch (error) {
      if (attempt === 60) throw error;
      await new Promise((resolve) => setTimeout(resolve, 500));
    }
  }
}
