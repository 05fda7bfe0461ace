/**
 * Finds a server of a run in this worker's own configuration, says with which authority it is asked, and lists its
 * tools as it offers them now.
 *
 * One file, because a list and a call reach a server by the same address, with the same authority.
 */
import { LRUCache } from 'lru-cache';
import { defined } from '../../contracts/defined.ts';
import { CountersignError, type ErrorCode } from '../../contracts/errors.ts';
import { codedFailureIn } from '../../contracts/failure.ts';
import { READ_RESOURCE } from '../../contracts/names.ts';
import type { CatalogSnapshot } from '../../contracts/schemas/catalog.ts';
import type { Config, Credentials, ServerConfig } from '../../contracts/schemas/config.ts';
import type { Grant } from '../../contracts/schemas/run-spec.ts';
import type { HostedBy, ServerBinding } from '../../contracts/schemas/tool.ts';
import type { RunIdentity } from '../../contracts/wire/identity.ts';
import type { AuthorizationNeed } from '../../contracts/wire/proofs.ts';
import type { DispatchResult } from '../../contracts/wire/tools.ts';
import { definitionHash } from '../../domain/request/digest.ts';
import { hostedBy, mayHost } from '../../domain/run/hosted.ts';
import type { OfferedTool } from '../../domain/run/toolset.ts';
import { hashOf } from '../../domain/text/canonical.ts';
import { nearNames } from '../../domain/text/match.ts';
import { canonicalServerUrl } from '../../domain/text/urls.ts';
import { assertConnectable } from '../catalog/reader.ts';
import { faultName } from '../kit/activity.ts';
import type { CallEnding, ListOptions, ServerConnection, TokenRenewal, ToolListing, ToolServer } from '../mcp/port.ts';
import { assertReachable } from '../run/prepare-run.ts';
import { scopesFor, scopesIn } from '../tokens/asked.ts';
import { secretsOf, withToken } from '../tokens/broker.ts';
import { takeGrant } from '../tokens/configured.ts';
import type { MintedToken, TokenBroker, TokenRequest } from '../tokens/port.ts';
import { ownValue } from '../kit/json.ts';
import { deadlineIn } from '../kit/time-limit.ts';

export interface ServerAccess {
  readonly headers: Readonly<Record<string, string>>;
  readonly protocol: ServerConfig['protocol'];
  readonly elicitation?: ServerConfig['elicitation'];
  readonly hosted?: HostedBy;
}

/** @throws if the binding differs from this configuration, because of a queue for another zone or a forged input */
export function accessTo(
  config: Config,
  { name, url, hosted }: ServerBinding,
  catalog: Pick<CatalogSnapshot, 'connection' | 'status'> | undefined,
): ServerAccess {
  const configured = ownValue(config.servers, name);
  const execute = configured?.execute ?? 'local';
  // The operator who holds the token says who calls: a binding cannot send it to a provider.
  if (execute !== 'auto' && (execute === 'hosted') !== (hosted !== undefined))
    throw forbidden(`This worker has ${name} called in another way (execute: ${execute}).`);
  if (hosted !== undefined && !mayHost(config, hosted))
    throw forbidden(`This worker has no model ${hosted} whose provider calls servers.`);
  if (configured === undefined) {
    const connection = catalog?.connection;
    if (connection === undefined) assertReachable(config, url, `servers.${name}`);
    else assertConnectable(config, name, connection);
    if (connection !== undefined && (catalog?.status !== 'connected' || connection.url !== url))
      throw forbidden(`The catalog has ${name} at another address, or disconnected.`);
    return { headers: {}, protocol: 'auto' };
  }
  if (canonicalServerUrl(configured.url) !== url)
    throw forbidden(`The run knows server ${name} under another URL than this worker.`);
  if (hosted === undefined) return configured;
  const { headers, protocol } = configured;
  return { headers, protocol, hosted: hostedBy(config, name, hosted) };
}

function forbidden(message: string): CountersignError {
  return new CountersignError('DISPATCH_FORBIDDEN', message);
}

export function credentialsOf(
  catalog: Pick<CatalogSnapshot, 'connection'> | undefined,
  tenant: string,
): Pick<TokenRequest, 'credentials'> {
  const name = catalog?.connection?.credentials;
  return name === undefined ? {} : { credentials: { name, tenant } };
}

/** The caller for whom a list is made: a server may list other tools to another principal. */
export interface Principal {
  readonly run: RunIdentity;
  readonly server: ServerBinding;
  readonly grant?: Grant | undefined;
}

/** The request for a token with which a run lists tools. A call adds its tool, its scopes and its proof. */
export function tokenRequest(
  { run, server, grant }: Principal,
  catalog: Pick<CatalogSnapshot, 'connection'> | undefined,
  signal: AbortSignal,
): TokenRequest {
  return {
    run,
    server: server.name,
    serverUrl: server.url,
    initiator: run.initiator,
    signal,
    ...defined({ grant }),
    ...(server.hosted === undefined ? {} : { byProvider: true }),
    ...credentialsOf(catalog, run.initiator.tenant),
  };
}

/** A session may be kept for one Temporal run, by Temporal's word, and the authority with which it comes. */
export function sessionOwner(request: TokenRequest, runId: string | undefined): Pick<ServerConnection, 'keptFor'> {
  if (runId === undefined) return {};
  const { run, server, serverUrl, initiator, grant, consented, credentials } = request;
  const authority = defined({ grant, consented, credentials });
  return { keptFor: hashOf({ run, runId, server, serverUrl, initiator, ...authority }) };
}

/** @param held secrets used earlier in this activity: the server has seen them and may echo them now */
export function connectionOf(
  { name, url }: ServerBinding,
  { headers, protocol, elicitation, hosted }: ServerAccess,
  token: MintedToken,
  held: readonly string[],
): ServerConnection {
  return {
    name,
    url,
    headers,
    protocol,
    secrets: [...token.secrets, ...held],
    ...(elicitation === undefined ? {} : { asks: true }),
    ...defined({ accessToken: token.accessToken, binding: token.binding, hosted }),
  };
}

// The authority of a call (its grant, scopes and tokens) is kept, sealed, with a task or a resume point (INV-S1), and
// people may be able to supply one that was missing.
//
// 1. A later question about the call gets a token of this grant and these scopes, and of no other (INV-S2).
// 2. Missing authority is looked for only in endings that prove that nothing has run.
// 3. A scope is asked for only if `scopes.consentable` lists it and the token did not have it (INV-S2).

export interface CallAuthority {
  /** Its hash. */
  readonly grant?: string;
  readonly consented?: readonly string[];
  /** Tokens that the server has seen and may echo, to be scrubbed from its words. Secret (INV-S1). */
  readonly shown: readonly string[];
}

export function authorityOf(
  { grant, consented }: Pick<TokenRequest, 'grant' | 'consented'>,
  shown: readonly string[],
): CallAuthority {
  return { ...defined({ grant: grant && hashOf(grant), consented }), shown: [...new Set(shown)] };
}

export function shownOf({ accessToken }: Pick<MintedToken, 'accessToken'>): readonly string[] {
  return accessToken === undefined ? [] : [accessToken];
}

/** Returns the grant and scopes to request a token with; undefined if no given grant is that of the call. */
export function authorizationOf(
  { grant: wanted, consented }: CallAuthority,
  grants: readonly Grant[],
): Pick<TokenRequest, 'grant' | 'consented'> | undefined {
  const grant = grants.find((each) => hashOf(each) === wanted);
  if (wanted !== undefined && grant === undefined) return undefined;
  return { ...defined({ grant, consented }) };
}

const ABOUT_THE_GRANT: ReadonlySet<string> = new Set<ErrorCode>([
  'GRANT_MISSING',
  'GRANT_EXPIRED',
  'GRANT_INVALID',
  'GRANT_LOST',
  'TOKEN_REFUSED',
]);
const MOST_SCOPES = 10;
/** RFC 6749 §3.3, of bounded length. */
const SCOPE = /^[\x21\x23-\x5b\x5d-\x7e]{1,128}$/;

type Configured = Pick<Config, 'servers' | 'credentials'>;

type Turned = { readonly code: string } & Pick<Extract<CallEnding, { kind: 'refused' }>, 'message' | 'requiredScope'>;

/**
 * Adds what people can do, if nothing has run.
 * @param leaving people whose consent would count; undefined if the call may not leave as it is
 * @param refused the ending, if it says more than the result
 */
export function wanting(
  config: Configured,
  request: TokenRequest,
  result: DispatchResult,
  leaving: AuthorizationNeed['asked'] | undefined,
  refused?: Turned,
): DispatchResult {
  if (result.kind !== 'ended' || result.outcome.kind !== 'failed' || result.outcome.executed) return result;
  const need = needOf(config, request, refused ?? result.outcome);
  if (need?.wants !== 'consent' || leaving === undefined) return { ...result, ...defined({ authorization: need }) };
  const { approvers, deadlineSeconds } = leaving;
  return { ...result, authorization: { ...need, asked: { approvers, deadlineSeconds } } };
}

/** Says what people can do about a token that could not be had, or that the server refused. */
export function needOf(config: Configured, request: TokenRequest, turned: Turned): AuthorizationNeed | undefined {
  const { code, message, requiredScope } = turned;
  const credentials = credentialsFor(config, request);
  if (ABOUT_THE_GRANT.has(code)) return isGiven(credentials) ? { reason: code, message, wants: 'grant' } : undefined;
  if (code === 'TOOL_UNAUTHORIZED') {
    if (credentials === 'brought' || isGiven(credentials)) return { reason: code, message, wants: 'grant' };
    if (credentials === undefined || credentials.kind === 'none') return undefined;
    return { reason: code, message, wants: 'consent' };
  }
  if (code !== 'TOOL_INSUFFICIENT_SCOPE' || requiredScope === undefined) return undefined;
  const required = [...new Set(scopesIn(requiredScope))];
  if (required.length === 0 || required.length > MOST_SCOPES || !required.every((scope) => SCOPE.test(scope)))
    return undefined;
  // The scopes of a grant that a caller sealed are fixed.
  if (credentials === 'brought' || credentials?.kind === 'given')
    return { reason: code, message, wants: 'grant', scopes: required };
  if (credentials === undefined || !('scopes' in credentials)) return undefined;
  const had = [...scopesFor(credentials.scopes, request.tool), ...(request.consented ?? [])];
  const missing = required.filter((scope) => !had.includes(scope));
  const mayBeGiven = missing.every((scope) => credentials.scopes.consentable.includes(scope));
  return missing.length > 0 && mayBeGiven ? { reason: code, message, wants: 'consent', scopes: missing } : undefined;
}

/** `brought`: the run itself names the server, and gives the token. */
function credentialsFor(
  { servers, credentials }: Configured,
  request: TokenRequest,
): Credentials | 'brought' | undefined {
  if (Object.hasOwn(servers, request.server)) return servers[request.server]?.credentials;
  if (request.credentials === undefined) return 'brought';
  const { name } = request.credentials;
  return ownValue(credentials, name)?.use;
}

function isGiven(credentials: Credentials | 'brought' | undefined): boolean {
  return credentials === 'brought' || (credentials !== undefined && takeGrant(credentials));
}

// Another token for a connection on which people are asked: the call's own may expire while they think. It is requested
// without the proof of the call, which is in one token only (INV-S2), and ends with the call (INV-S1).

/** @param onMinted called before anyone else sees the new token */
export function renewalOf(
  broker: TokenBroker,
  { call: _, ...request }: TokenRequest,
  { accessToken, binding }: MintedToken,
  onMinted: (token: MintedToken) => void,
): (TokenRenewal & { readonly release: () => void }) | undefined {
  if (accessToken === undefined) return undefined;
  const minted: MintedToken[] = [];
  const bindingOf: TokenRenewal['bindingOf'] = (shown) => minted.find((one) => one.accessToken === shown)?.binding;
  let isOver = false;
  return {
    bindingOf,
    mint: async (refused) => {
      const bound = refused === accessToken ? binding : bindingOf(refused);
      const declined = bound?.isDeclined() === true ? { declined: true } : {};
      const token = await broker.mint({ ...request, refused, ...declined });
      minted.push(token);
      onMinted(token);
      if (isOver) token.release?.();
      return token.accessToken;
    },
    secrets: () => minted.flatMap(secretsOf),
    release: () => {
      // A token may still be on its way.
      isOver = true;
      for (const token of minted) token.release?.();
    },
  };
}

// Lists tools as their servers offer them now, so that a call meets the definition that was shown (docs/adr/0038).
//
// `activities/gate/dispatch-check.ts` says what follows from a change.
// 1. A known list is believed for `recheckSeconds`, and only if it agrees with what was pinned and shown.
// 2. One list at a time is asked for a server, a principal and credentials.
// 3. The check fails closed (INV-G4): a tool that is not listed, or whose list cannot be had, is not called.

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
  /** Secrets of the list that was just made; they must not leave the activity (INV-S1). */
  readonly secrets: readonly string[];
  readonly shown?: readonly string[];
}

export type LiveTools = ReturnType<typeof createLiveTools>;

interface Known {
  readonly at: number;
  /** By tool name. */
  readonly hashes: ReadonlyMap<string, string>;
}

/** One function, because everything in it shares the two caches: what is known, and what is being asked. */
export function createLiveTools({ config, broker, server, now = Date.now }: LiveToolsParts) {
  const known = new LRUCache<string, Known>({ max: MOST_KEPT });
  const asking = new Map<string, Promise<Listed>>();

  const keep = (key: string, at: number, { tools }: ToolListing): void => {
    known.set(key, { at, hashes: new Map(tools.map((definition) => [definition.name, definitionHash(definition)])) });
  };

  const ask = (
    key: string,
    principal: Principal,
    catalog: CatalogSnapshot | undefined,
    callSignal: AbortSignal,
    through: Pick<ToolServer, 'list'>,
  ): Promise<Listed> => {
    // The time is taken before the question: a change while it is answered counts as not seen.
    const at = now();
    const signal = AbortSignal.any([callSignal, deadlineIn(RECHECK_MS)]);
    const access = accessTo(config, principal.server, catalog);
    const request = tokenRequest(principal, catalog, signal);
    const question = listAuthorized(broker, through, request, access, signal, { known: true })
      .then((listed) => {
        keep(key, at, listed.listing);
        return listed;
      })
      .finally(() => asking.delete(key));
    asking.set(key, question);
    return question;
  };

  return {
    /** Keeps what was just listed for a principal, with the credentials that the catalog names. */
    learn: (principal: Principal, listing: ToolListing, catalog: CatalogSnapshot | undefined): void =>
      keep(keyOf(principal, catalog), now(), listing),
    /**
     * Returns the tool, known to this worker as `tool`, as its server lists it.
     * @param shown hash of the definition that was judged or approved
     * @throws CountersignError `TOOL_UNKNOWN`, `TOOL_UNAVAILABLE`, and the codes of `list` and `mint`
     */
    async current(
      principal: Principal,
      tool: OfferedTool,
      shown: string,
      catalog: CatalogSnapshot | undefined,
      signal: AbortSignal,
      through: Pick<ToolServer, 'list'> = server,
    ): Promise<CurrentTool> {
      // The tool is ours, and on no server's list.
      if (tool.definition.name === READ_RESOURCE) return { tool, secrets: [] };
      const key = keyOf(principal, catalog);
      const { name } = principal.server;
      const seconds = ownValue(config.servers, name)?.recheckSeconds ?? RECHECK_SECONDS;
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
  const { code, message, facts } = codedFailureIn(error) ?? faultIn(server, error);
  if (code !== 'DISCOVERY_FAILED') return error;
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

function keyOf({ run, server, grant }: Principal, catalog: CatalogSnapshot | undefined): string {
  const { name, url, hosted } = server;
  const { tenant, id } = run.initiator;
  const { credentials } = credentialsOf(catalog, tenant);
  // Two initiators may name their grant alike, tokens may name them without any grant, and a catalog may name other
  // credentials from one call to the next.
  return hashOf({ name, url, tenant, initiator: id, ...defined({ grant, hosted, credentials }) });
}

// Lists a server's tools with a token that serves the list alone. Every failure has a code: without one a run would
// take the call that follows for one that was sent (INV-X1).

interface Listed {
  readonly listing: ToolListing;
  readonly token: MintedToken;
  readonly secrets: readonly string[];
  readonly shown: readonly string[];
}

/** @param runId the Temporal run whose calls may go on in the list's session */
export async function listAuthorized(
  broker: TokenBroker,
  server: Pick<ToolServer, 'list'>,
  request: TokenRequest,
  access: ServerAccess,
  signal: AbortSignal,
  { runId, ...options }: ListOptions & { readonly runId?: string | undefined } = {},
): Promise<Listed> {
  const shown: string[] = [];
  const got = await withToken<Omit<Listed, 'token'> | { readonly error: unknown }>(broker, request, {
    use: async (token, known) => {
      shown.push(...shownOf(token));
      try {
        const binding = { name: request.server, url: request.serverUrl };
        const connection = { ...connectionOf(binding, access, token, known), ...sessionOwner(request, runId) };
        const listing = await server.list(connection, signal, options);
        return { listing, secrets: secretsOf(connection), shown };
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

/** Adds to the refusal, which ends without a full stop, why there is no other token; what may pass replaces it. */
function withReason(refusal: unknown, none: unknown): unknown {
  if (!isUnauthorized(refusal) || !(none instanceof CountersignError) || none.traits.retryable) return none;
  return new CountersignError(refusal.code, `${refusal.message}. ${none.message}`, refusal.facts);
}

/** Only the fault's name is told: its message may quote the server, or the secrets of the request. */
function faultIn(server: string, error: unknown): CountersignError {
  const message = `The tools of server "${server}" could not be listed: a fault of this worker (${faultName(error)}).`;
  return new CountersignError('DISCOVERY_FAILED', message);
}
