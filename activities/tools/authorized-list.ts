/**
 * A server's tools, listed with a token that is there for the list alone.
 *
 * 1. Whatever a list fails with has a code: without one a run would take the call that it goes before for one that was sent (INV-X1).
 */
import { CountersignError } from '../../contracts/errors.ts';
import { codedFailureIn } from '../../contracts/failure.ts';
import { faultName } from '../fault-name.ts';
import type { MintedToken, TokenBroker, TokenRequest } from '../tokens/port.ts';
import { shownOf } from './call-authority.ts';
import { secretsOf } from './server-access.ts';
import type { ListOptions, ServerConnection, ToolListing, ToolServer } from './port.ts';
import { withToken } from './with-token.ts';

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
