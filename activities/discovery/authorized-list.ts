/**
 * Lists a server's tools with a token that serves the list alone, within the limits of the server.
 *
 * 1. Every failure of a list has a code: without one a run would take the call that follows for one that was sent
 *    (INV-X1).
 * 2. A list outside a call checks the limits before it gets a token. A list that is held back takes no worker slot:
 *    Temporal repeats the activity when its turn may have come.
 * 3. `heldSeconds` says for how long this may go on: the caller counts the time, not the attempts.
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
  /** @param held secrets shown to the server before: it may echo them now */
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

/**
 * Lists the tools. `token` is the one used for the list; it has ended. `secrets` are all that the server was asked
 * with, and `shown` the tokens among them.
 * @throws as `TokenBroker.mint` and `ToolServer.list` do
 */
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

/**
 * Adds to the server's refusal why there is no other token. A failure to get a token that may pass replaces the
 * refusal.
 */
function withReason(refusal: unknown, none: unknown): unknown {
  if (!isUnauthorized(refusal) || !(none instanceof CountersignError) || none.traits.retryable) return none;
  return new CountersignError(refusal.code, `${refusal.message} ${none.message}`, refusal.facts);
}

/** Only the fault's name is told: its message may quote the server, or the secrets of the request. */
function faultIn(server: string, error: unknown): CountersignError {
  const message = `The tools of server "${server}" could not be listed: a fault of this worker (${faultName(error)}).`;
  return new CountersignError('DISCOVERY_FAILED', message);
}

// One list outside a call.

export interface ListingPlace {
  readonly name: string;
  /** Canonical server URL. */
  readonly url: string;
  readonly tenant: string;
}

/** @throws CountersignError `TOOL_RATE_LIMITED` or `TOOL_UNAVAILABLE` if the list is held back */
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
