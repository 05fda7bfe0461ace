/**
 * Lists tools as their servers offer them now, so that a call meets the definition that was shown (docs/adr/0038).
 *
 * It owns when a list is asked for again. It does not own what follows from a change
 * (`activities/gate/dispatch-check.ts`).
 * 1. A known list is believed for `recheckSeconds`, and only if it agrees with what was pinned and shown.
 * 2. One list at a time is asked for a server and a principal; a known modern server gets one request.
 * 3. The check fails closed (INV-G4): a tool that is not listed, or whose list cannot be had, is not called. Every
 *    failure has a code.
 */
import { LRUCache } from 'lru-cache';
import { defined } from '../../contracts/defined.ts';
import { CountersignError } from '../../contracts/errors.ts';
import { codedFailureIn } from '../../contracts/failure.ts';
import { READ_RESOURCE } from '../../contracts/names.ts';
import type { CatalogSnapshot } from '../../contracts/schemas/catalog.ts';
import type { Config } from '../../contracts/schemas/config.ts';
import { definitionHash } from '../../domain/request/digest.ts';
import type { OfferedTool } from '../../domain/run/toolset.ts';
import { hashOf } from '../../domain/text/canonical.ts';
import { nearNames } from '../../domain/text/match.ts';
import { accessTo, connectionOf, listingRequest, type Principal, type ServerAccess, shownOf } from './access.ts';
import { faultName } from '../kit/activity.ts';
import type { ListOptions, ToolListing, ToolServer } from '../mcp/port.ts';
import type { MintedToken, TokenBroker, TokenRequest } from '../tokens/port.ts';
import { secretsOf, withToken } from '../tokens/with-token.ts';

/** For servers that are not configured, but named by runs and catalogs. */
const RECHECK_SECONDS = 60;
/** Time for token and list together: they must fit into what an activity has beside its call's own time. */
const RECHECK_MS = 15_000;
const MOST_KEPT = 200;

export interface LiveToolsParts {
  readonly config: Config;
  readonly broker: TokenBroker;
  readonly server: ToolServer;
  readonly now?: () => number;
}

export interface CurrentTool {
  readonly tool: OfferedTool;
  /** Secrets of the list that was just made. This activity holds them, and they must not leave it (INV-S1). */
  readonly secrets: readonly string[];
  /** The tokens among them. */
  readonly shown?: readonly string[];
}

export interface LiveTools {
  /** Keeps what was just listed for a principal. */
  learn(principal: Principal, listing: ToolListing): void;
  /**
   * Returns the tool as its server lists it.
   *
   * @param tool the tool as this worker knows it
   * @param shown hash of the definition that was judged or approved
   * @param server server to list it through, if it must be a certain one; default: the one known here
   * @throws CountersignError `TOOL_UNKNOWN` if the tool is no longer listed; `TOOL_UNAVAILABLE` if the list cannot be
   * had; or with the codes of `ToolServer.list` and `TokenBroker.mint`
   */
  current(
    principal: Principal,
    tool: OfferedTool,
    shown: string,
    catalog: CatalogSnapshot | undefined,
    signal: AbortSignal,
    server?: Pick<ToolServer, 'list'>,
  ): Promise<CurrentTool>;
}

interface Known {
  readonly at: number;
  /** Tool name → definition hash. */
  readonly hashes: ReadonlyMap<string, string>;
}

/** One function, because everything in it shares the two caches: what is known, and what is being asked. */
export function createLiveTools({ config, broker, server, now = Date.now }: LiveToolsParts): LiveTools {
  const known = new LRUCache<string, Known>({ max: MOST_KEPT });
  const asking = new Map<string, Promise<Listed>>();

  const keep = (key: string, at: number, { tools }: ToolListing): void => {
    known.set(key, { at, hashes: new Map(tools.map((definition) => [definition.name, definitionHash(definition)])) });
  };

  const list = async (
    { run, server: binding, grant }: Principal,
    catalog: CatalogSnapshot | undefined,
    signal: AbortSignal,
    through: Pick<ToolServer, 'list'>,
  ): Promise<Listed> => {
    const access = accessTo(config, binding, catalog);
    const request = listingRequest({ run, server: binding, grant }, catalog, signal);
    return await listAuthorized({ broker, server: through, request, access, signal, options: { known: true } });
  };

  const ask = (
    key: string,
    principal: Principal,
    catalog: CatalogSnapshot | undefined,
    signal: AbortSignal,
    through: Pick<ToolServer, 'list'>,
  ): Promise<Listed> => {
    // The time is taken before the question: a change while it is answered counts as not seen.
    const at = now();
    const question = list(principal, catalog, AbortSignal.any([signal, AbortSignal.timeout(RECHECK_MS)]), through)
      .then((listed) => {
        keep(key, at, listed.listing);
        return listed;
      })
      .finally(() => asking.delete(key));
    asking.set(key, question);
    return question;
  };

  return {
    learn: (principal, listing) => keep(keyOf(principal), now(), listing),
    async current(principal, tool, shown, catalog, signal, through = server) {
      // The tool is ours, and on no server's list.
      if (tool.definition.name === READ_RESOURCE) return { tool, secrets: [] };
      const key = keyOf(principal);
      const { name } = principal.server;
      const seconds =
        (Object.hasOwn(config.servers, name) ? config.servers[name]?.recheckSeconds : undefined) ?? RECHECK_SECONDS;
      const latest = known.get(key);
      const agrees = tool.hash === shown && latest?.hashes.get(tool.definition.name) === shown;
      if (latest !== undefined && agrees && now() - latest.at < seconds * 1_000) return { tool, secrets: [] };
      try {
        // The other caller may have been cancelled, and that is no answer for this call.
        const running = asking.get(key);
        const joined = running === undefined ? undefined : await running.catch(() => undefined);
        const listed = joined ?? (await ask(key, principal, catalog, signal, through));
        return { tool: listedAs(tool, listed.listing), secrets: listed.secrets, shown: listed.shown };
      } catch (error) {
        throw notSent(name, error);
      }
    },
  };
}

function notSent(server: string, error: unknown): unknown {
  const coded = codedFailureIn(error);
  if (coded !== undefined && coded.code !== 'DISCOVERY_FAILED') return error;
  const { message, facts } = coded ?? {
    message: `What server "${server}" lists could not be compared: a fault of this worker (${faultName(error)})`,
    facts: {},
  };
  return new CountersignError('TOOL_UNAVAILABLE', `${message.replace(/\.$/, '')}. The call was not sent.`, facts);
}

function listedAs(tool: OfferedTool, { tools, refused }: ToolListing): OfferedTool {
  const { server, definition: known } = tool;
  const definition = tools.find(({ name }) => name === known.name);
  if (definition !== undefined) {
    const hash = definitionHash(definition);
    return hash === tool.hash ? tool : { ...tool, definition, hash };
  }
  const reason = refused.find(({ name }) => name === known.name)?.reason;
  const listed = tools.map(({ name }) => name);
  const near = nearNames(known.name, listed).map((name) => `"${name}"`);
  const hint = near.length === 0 ? '' : ` It lists ${near.join(', ')}, which nobody has judged.`;
  const message =
    reason === undefined
      ? `Server "${server}" has no tool "${known.name}" any more; the call was not sent.${hint}`
      : `Server "${server}" lists tool "${known.name}" in a way that is not offered (${reason}); the call was not sent.`;
  throw new CountersignError('TOOL_UNKNOWN', message);
}

function keyOf({ run, server, grant }: Principal): string {
  const { name, url } = server;
  const { tenant, id } = run.initiator;
  // The key holds both: two initiators may name their grant alike, and tokens may name them without any grant.
  return hashOf({ name, url, tenant, initiator: id, ...defined({ grant }) });
}

// Lists a server's tools with a token that serves the list alone. Every failure has a code: without one a run would
// take the call that follows for one that was sent (INV-X1).

export interface AuthorizedList {
  readonly broker: TokenBroker;
  readonly server: Pick<ToolServer, 'list'>;
  readonly request: TokenRequest;
  readonly access: ServerAccess;
  readonly signal: AbortSignal;
  readonly options?: ListOptions;
}

interface Listed {
  readonly listing: ToolListing;
  /** The one used for the list; it has ended. */
  readonly token: MintedToken;
  /** All secrets that the server was asked with, and the tokens among them. */
  readonly secrets: readonly string[];
  readonly shown: readonly string[];
}

/** Lists the tools. @throws as `TokenBroker.mint` and `ToolServer.list` do */
export async function listAuthorized({
  broker,
  server,
  request,
  access,
  signal,
  options,
}: AuthorizedList): Promise<Listed> {
  const shown: string[] = [];
  const got = await withToken<Omit<Listed, 'token'> | { readonly error: unknown }>(broker, request, {
    use: async (token, known) => {
      shown.push(...shownOf(token));
      try {
        const connection = connectionOf({ name: request.server, url: request.serverUrl }, access, token, known);
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
