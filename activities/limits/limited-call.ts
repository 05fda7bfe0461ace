/**
 * Runs one dispatch within the limits of its server.
 *
 * 1. The limits are checked before the token: none is minted for a call that does not leave.
 * 2. A place is given back in every case, with what the calls of the dispatch showed about the server. A dispatch that
 *    made no call gives what its list showed.
 * 3. The list and the call share one place, but the rate counts both. The call does not wait for its own list;
 *    otherwise a server with a low rate would be listed for ever and never called.
 */
import type { DispatchInput, DispatchResult } from '../../contracts/wire/tools.ts';
import { healthAfter } from '../mcp/classify-failure.ts';
import { toldBy } from '../mcp/listing.ts';
import type { CallEnding, ToolServer } from '../mcp/port.ts';
import type { Health } from './breaker.ts';
import type { Asked, HeldBack, ServerLimits } from './server-limits.ts';

/** @param send dispatches through the server that it is given */
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
        // A second attempt with a fresh token after a 401 is the same call.
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
