/**
 * One dispatch within the limits of its server.
 *
 * 1. Held back comes before the token: none is minted for a call that does not leave.
 * 2. A place is given back whatever happens, with what the calls of the dispatch told of the server; where it did not come to a
 *    call, what the list before it told.
 * 3. The list and the call leave from one place. Where both leave, the rate counts both: the call does not wait for its own list, or
 *    a server that takes few would be listed for ever and never called.
 */
import type { DispatchInput, DispatchResult } from '../../contracts/wire/tools.ts';
import { healthAfter } from '../mcp/classify-failure.ts';
import { toldBy } from '../mcp/listing.ts';
import type { CallEnding, ToolServer } from '../mcp/port.ts';
import type { Health } from './breaker.ts';
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
  let listed: Told | undefined;
  try {
    return await send({
      list: async (connection, signal, options) => {
        try {
          const listing = await server.list(connection, signal, options);
          listed = { health: 'up' };
          return listing;
        } catch (error) {
          listed = toldBy(error);
          throw error;
        }
      },
      call: async (connection, call) => {
        // A fresh token after a 401 is the same call.
        if (listed !== undefined && last === undefined) place.more();
        return (last = await server.call(connection, call));
      },
    });
  } finally {
    const { health, asked } = last === undefined ? (listed ?? { health: 'neutral' }) : toldByCall(last, input);
    place.leave(health, asked);
  }
}

interface Told {
  readonly health: Health;
  readonly asked?: Asked | undefined;
}

function toldByCall(ending: CallEnding, { limits }: DispatchInput): Told {
  return { health: healthAfter(ending, limits.callTimeoutSeconds * 1_000), asked: askedFor(ending) };
}

function notSent({ code, message, retryAfterMs, by, atMostSeconds }: HeldBack): DispatchResult {
  return { kind: 'not-sent', code, message, retryAfterMs, held: { by, atMostSeconds } };
}

function askedFor(ending: CallEnding): Asked | undefined {
  return (ending.kind === 'not-sent' || ending.kind === 'refused') && ending.retryAfterMs !== undefined
    ? { code: ending.code, ms: ending.retryAfterMs }
    : undefined;
}
