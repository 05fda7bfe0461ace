/**
 * Says which calls of MCP clients are equal, and for how long a ticket may start a call (docs/adr/0078).
 *
 * 1. Two calls are equal if the same person, by the same client, calls the same tool with the same arguments.
 */
import type { JsonObject } from '../../contracts/schemas/json.ts';
import { hashOf } from '../text/canonical.ts';

export interface Owner {
  readonly tenant: string;
  readonly person: string;
  /** Name of the client, as its token or key says. */
  readonly client: string;
}

export interface GateCall extends Owner {
  readonly server: string;
  readonly tool: string;
  readonly arguments: JsonObject;
}

const PREFIX = 'gate/';
const OWNER_LENGTH = 16;

/** `gate/TENANT/OWNER/CALL`. Hashes keep persons and arguments out; who can list workflows can still try a guess. */
export function ticketIdOf({ tenant, person, client, server, tool, arguments: args }: GateCall): string {
  return `${ownerOf({ tenant, person, client })}${hashOf([person, client, server, tool, args])}`;
}

export function ownerOf({ tenant, person, client }: Owner): string {
  return `${PREFIX}${encodeURIComponent(tenant)}/${hashOf([person, client]).slice(0, OWNER_LENGTH)}/`;
}

export function isTicketId(workflowId: string): boolean {
  return workflowId.startsWith(PREFIX);
}

/** Beginning of the ids of all runs that make calls of MCP clients. */
export const RUN_PREFIX = 'gate-';

/** Id of the run that makes the call of a ticket: as unique as the ticket's own Temporal run id. */
export function runOfTicket(temporalRunId: string): string {
  return `${RUN_PREFIX}${temporalRunId}`;
}

/** A run id that an MCP client may name: no other run is read for it. */
export function isGateRun(runId: string): boolean {
  return /^gate-[0-9a-f-]{36}$/.test(runId);
}

/**
 * For this long a call that was not found is started under its ticket. It is shorter than any retention of Temporal, so
 * a run that is not there was never started. A later ticket only reads: its run may have ended and been forgotten.
 */
const STARTABLE_MS = 600_000;

export function mayStart(ticketAgeMs: number): boolean {
  return ticketAgeMs < STARTABLE_MS;
}
