/**
 * One dispatch within the limits of its server.
 *
 * 1. Held back comes before the token: none is minted for a call that does not leave.
 * 2. A place is given back whatever happens, with what the calls of the dispatch told of the server.
 */
import type { DispatchInput, DispatchResult } from '../../contracts/activities.ts';
import type { CallEnding, ToolServer } from './port.ts';
import { healthAfter } from './server-fault.ts';
import type { Asked, HeldBack, ServerLimits } from './server-limits.ts';

/** @param send dispatches by the server that it is given */
export async function withinLimits(
  limits: ServerLimits,
  server: ToolServer,
  input: DispatchInput,
  send: (server: ToolServer) => Promise<DispatchResult>,
): Promise<DispatchResult> {
  const { run, idempotencyKey: key, attempt } = input;
  const place = limits.enter({ url: input.server.url, tenant: run.initiator.tenant, key, attempt });
  if (place.kind === 'held') return notSent(place);
  let last: CallEnding | undefined;
  try {
    return await send({
      list: (connection, signal) => server.list(connection, signal),
      call: async (connection, call) => (last = await server.call(connection, call)),
    });
  } finally {
    const timeoutMs = input.limits.callTimeoutSeconds * 1_000;
    place.leave(last === undefined ? 'neutral' : healthAfter(last, timeoutMs), last && askedFor(last));
  }
}

function notSent({ code, message, retryAfterMs, by, atMostSeconds }: HeldBack): DispatchResult {
  return { kind: 'not-sent', code, message, retryAfterMs, held: { by, atMostSeconds } };
}

function askedFor(ending: CallEnding): Asked | undefined {
  return (ending.kind === 'not-sent' || ending.kind === 'refused') && ending.retryAfterMs !== undefined
    ? { code: ending.code, ms: ending.retryAfterMs }
    : undefined;
}
