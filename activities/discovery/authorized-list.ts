/**
 * A server's tools, listed with a token that is there for the list alone.
 *
 * 1. Whatever a list fails with has a code: without one a run would take the call that it goes before for one that was sent (INV-X1).
 */
import { CountersignError } from '../../contracts/errors.ts';
import { codedFailureIn } from '../../contracts/failure.ts';
import { shownOf } from '../gate/authority.ts';
import { secretsOf } from '../gate/server-access.ts';
import { withToken } from '../gate/with-token.ts';
import { faultName } from '../kit/coded.ts';
import { currentScheduler } from '../kit/scheduler.ts';
import type { Health } from '../limits/breaker.ts';
import type { Asked, ServerLimits } from '../limits/server-limits.ts';
import { toldBy } from '../mcp/listing.ts';
import type { ListOptions, ServerConnection, ToolListing, ToolServer } from '../mcp/port.ts';
import type { MintedToken, TokenBroker, TokenRequest } from '../tokens/port.ts';

export interface AuthorizedList {
  readonly broker: TokenBroker;
  readonly server: Pick<ToolServer, 'list'>;
  readonly request: TokenRequest;
  /** @param held secrets with which the server was asked before: it may echo them now */
  readonly connect: (token: MintedToken, held: readonly string[]) => ServerConnection;
  readonly signal: AbortSignal;
  readonly options?: ListOptions;
}

interface Authorized {
  readonly listing: ToolListing;
  readonly token: MintedToken;
  readonly secrets: readonly string[];
  readonly shown: readonly string[];
}

/** `token`: the one with which it was listed; it has ended. `secrets`: all that the server was asked with. `shown`: the tokens among them. @throws as `TokenBroker.mint` and `ToolServer.list` do */
export async function listAuthorized({
  broker,
  server,
  request,
  connect,
  signal,
  options,
}: AuthorizedList): Promise<Authorized> {
  const shown: string[] = [];
  const got = await withToken<Omit<Authorized, 'token'> | { readonly error: unknown }>(broker, request, {
    use: async (token, known) => {
      shown.push(...shownOf(token));
      try {
        const connection = connect(token, known);
        return { listing: await server.list(connection, signal, options), secrets: secretsOf(connection), shown };
      } catch (error) {
        return { error: codedFailureIn(error) === undefined ? faultIn(request.server, error) : error };
      }
    },
    isRefused: (listed) => 'error' in listed && isUnauthorized(listed.error),
  });
  if (got.kind === 'none') throw got.error;
  const { used: listed, token, noOther } = got;
  if (!('error' in listed)) return { ...listed, token };
  throw noOther === undefined ? listed.error : withReason(listed.error, noOther);
}

function isUnauthorized(error: unknown): error is CountersignError {
  return error instanceof CountersignError && error.code === 'TOOL_UNAUTHORIZED';
}

/** The refusal of the server stands, with the reason why there is no other token, save where that may pass. */
function withReason(refusal: unknown, none: unknown): unknown {
  if (!isUnauthorized(refusal) || !(none instanceof CountersignError) || none.traits.retryable) return none;
  return new CountersignError(refusal.code, `${refusal.message} ${none.message}`, refusal.facts);
}

/** Its name alone: what it says may quote the server, or what it was asked with. */
function faultIn(server: string, error: unknown): CountersignError {
  const message = `The tools of server "${server}" could not be listed: a fault of this worker (${faultName(error)}).`;
  return new CountersignError('DISCOVERY_FAILED', message);
}

// One list of tools within the limits of its server, where no call holds a place there.
//
// 1. Held back comes before the token, and takes no slot of the worker: Temporal repeats the activity when its turn may have come.
// 2. `heldSeconds` says for how long it may go on so: whoever asked counts the time, not the attempts.

export interface ListingPlace {
  readonly name: string;
  /** Canonical server URL. */
  readonly url: string;
  readonly tenant: string;
}

/** @throws CountersignError `TOOL_RATE_LIMITED`, `TOOL_UNAVAILABLE` where it is held back */
export async function withinListLimits<Listed>(
  limits: ServerLimits,
  { name, url, tenant }: ListingPlace,
  list: () => Promise<Listed>,
): Promise<Listed> {
  const { workflowId = '', attempt } = currentScheduler();
  const place = limits.enter({ url, tenant, key: `${workflowId}/tools/list/${name}`, attempt });
  if (place.kind === 'held') {
    const { code, message, retryAfterMs, atMostSeconds } = place;
    const facts = { server: name, retryAfterMs, heldSeconds: atMostSeconds };
    throw new CountersignError(code, `${message} Its tools are listed later.`, facts);
  }
  let told: { readonly health: Health; readonly asked?: Asked | undefined } = { health: 'neutral' };
  try {
    const listed = await list();
    told = { health: 'up' };
    return listed;
  } catch (error) {
    told = toldBy(error);
    throw error;
  } finally {
    place.leave(told.health, told.asked);
  }
}
