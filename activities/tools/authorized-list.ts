/**
 * A server's tools, listed with a token that is there for the list alone.
 *
 * 1. One fresh token where the server refuses the first one (401), as for calls; no other refusal is answered with a token.
 * 2. Whatever a list fails with has a code: without one a run would take the call that it goes before for one that was sent (INV-X1).
 * 3. A token ends with the list for which it was minted, whatever became of that (`MintedToken.release`).
 */
import { CountersignError } from '../../contracts/errors.ts';
import { codedFailureIn } from '../../contracts/failure.ts';
import { faultName } from '../fault-name.ts';
import type { MintedToken, TokenBroker, TokenRequest } from '../tokens/port.ts';
import { shownOf } from './call-authority.ts';
import { secretsOf } from './server-access.ts';
import type { ListOptions, ServerConnection, ToolListing, ToolServer } from './port.ts';

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
  const listed = async (token: MintedToken, refused?: MintedToken): Promise<Authorized> => {
    try {
      const connection = connect(token, refused === undefined ? [] : secretsOf(refused));
      const listing = await server.list(connection, signal, options);
      const shown = [refused, token].flatMap((each) => (each === undefined ? [] : shownOf(each)));
      return { listing, token, secrets: secretsOf(connection), shown };
    } catch (error) {
      throw codedFailureIn(error) === undefined ? faultIn(request.server, error) : error;
    } finally {
      token.release?.();
    }
  };
  const first = await broker.mint(request);
  try {
    return await listed(first);
  } catch (error) {
    if (!(error instanceof CountersignError) || error.code !== 'TOOL_UNAUTHORIZED' || first.accessToken === undefined)
      throw error;
    const fresh = await freshFor(broker, { ...request, refused: first.accessToken }, error);
    if (fresh.accessToken !== first.accessToken) return await listed(fresh, first);
    fresh.release?.();
    throw error;
  }
}

/** Its name alone: what it says may quote the server, or what it was asked with. */
function faultIn(server: string, error: unknown): CountersignError {
  const message = `The tools of server "${server}" could not be listed: a fault of this worker (${faultName(error)}).`;
  return new CountersignError('DISCOVERY_FAILED', message);
}

/** Where there is none, the refusal of the server stands, with the reason. */
async function freshFor(broker: TokenBroker, request: TokenRequest, error: CountersignError): Promise<MintedToken> {
  try {
    return await broker.mint(request);
  } catch (none) {
    if (!(none instanceof CountersignError) || none.traits.retryable) throw none;
    throw new CountersignError(error.code, `${error.message} ${none.message}`, error.facts);
  }
}
