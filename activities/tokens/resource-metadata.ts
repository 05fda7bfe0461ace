/**
 * Compares the authorization servers that a tool server names for itself (RFC 9728) with the configured issuer.
 *
 * 1. Metadata is never followed: it can only make us refuse, or bind tokens to a key.
 * 2. It is read at the well-known places of the server's own origin, whatever a `WWW-Authenticate` header says. Nothing
 *    secret is sent.
 */
import type { CountersignError } from '../../contracts/errors.ts';
import { takesBoundTokens } from '../../domain/policy/sender-constraint.ts';
import { type Fields, isFields } from '../../domain/shapes/inputs.ts';
import { canonicalServerUrl } from '../../domain/text/urls.ts';
import type { Egress } from '../egress/fetch.ts';
import { type Exchange, LARGEST_ANSWER_BYTES, openExchange } from './exchange.ts';
import { sameIssuer } from './asked.ts';
import type { TokenSource } from './oauth-client.ts';
import { tokenError, type TokenRequest, type TokenStrategy } from './port.ts';

const KEPT_MS = 300_000;
const TIMEOUT_MS = 5_000;
const MOST_SHOWN = 3;

export interface ResourceCheck {
  readonly issuer: string;
  /** The resource identifier; set only when it differs from the server's URL. */
  readonly resource?: string | undefined;
  readonly resourceMetadata: 'on-refusal' | 'required';
}

interface CheckSource extends Pick<TokenSource, 'now' | 'words'> {
  readonly egress: Egress;
}

/** Wraps a strategy that asks an issuer, so that it does so only for servers that trust that issuer. */
export function forResource(check: ResourceCheck, strategy: TokenStrategy, source: CheckSource): TokenStrategy {
  const confirmed = new Map<string, number>();
  return {
    async mint(request) {
      const { serverUrl, refused } = request;
      const known = (confirmed.get(serverUrl) ?? 0) > source.now();
      if (refused !== undefined || (check.resourceMetadata === 'required' && !known)) {
        confirmed.delete(serverUrl);
        await checkResource(check, request, source);
        if (check.resourceMetadata === 'required') confirmed.set(serverUrl, source.now() + KEPT_MS);
      }
      return await strategy.mint(request);
    },
  };
}

async function checkResource(check: ResourceCheck, request: TokenRequest, source: CheckSource): Promise<void> {
  const { server, serverUrl, signal } = request;
  const { issuer } = check;
  const isRequired = check.resourceMetadata === 'required';
  const outlet = source.egress.outlet({ what: `Server "${server}"`, to: [serverUrl], maxBytes: LARGEST_ANSWER_BYTES });
  let metadata: Read;
  try {
    metadata = await readMetadata(serverUrl, openExchange({ send: outlet.fetch, timeoutMs: TIMEOUT_MS, signal }));
  } finally {
    await outlet.close();
  }
  const isOwn = isFields(metadata) && isAbout(metadata, check.resource ?? serverUrl);
  // Without any word about this server, a fresh token may be accepted after the one that was refused.
  if (!isOwn && !isRequired) return;
  if (metadata === 'unavailable') {
    const message = `No token for ${server}: its metadata (RFC 9728) cannot be read. It may pass: try again.`;
    throw tokenError('TOKEN_UNAVAILABLE', message, { server, issuer });
  }
  if (metadata === 'absent')
    throw refusal(check, server, 'publishes no metadata (RFC 9728), which its configuration requires');
  if (!isOwn) throw refusal(check, server, 'publishes metadata of another resource (RFC 9728 §3.3)');
  const { authorization_servers: issuers } = metadata;
  source.words.wants(serverUrl, takesBoundTokens(metadata));
  const named = Array.isArray(issuers) ? issuers.filter((one) => typeof one === 'string') : [];
  if (named.length === 0 && !isRequired) return;
  if (named.some((one) => sameIssuer(one, issuer))) return;
  throw refusal(check, server, `names other authorization servers (${shown(named)}) than the configured one`);
}

function isAbout({ resource }: Fields, serverUrl: string): boolean {
  return typeof resource === 'string' && canonicalServerUrl(resource) === canonicalServerUrl(serverUrl);
}

function refusal({ issuer }: ResourceCheck, server: string, what: string): CountersignError {
  const message = `No token for ${server}: it ${what}, ${issuer}. A server is never followed to another issuer: if this one is right, set it in servers.${server}.credentials.`;
  return tokenError('TOKEN_REFUSED', message, { server, issuer });
}

/** Shows origins only: everything else in an issuer's URL is text of the server. */
function shown(issuers: readonly string[]): string {
  const origins = issuers.flatMap((one) => (URL.canParse(one) ? [new URL(one).origin] : []));
  return [...new Set(origins)].slice(0, MOST_SHOWN).join(' ') || 'none';
}

type Read = Fields | 'absent' | 'unavailable';

/** RFC 9728 §3.1: the path follows the well-known part; servers older than that have the document at the root. */
async function readMetadata(serverUrl: string, exchange: Exchange): Promise<Read> {
  const { origin, pathname } = new URL(serverUrl);
  const path = pathname === '/' ? '' : pathname;
  for (const place of new Set([path, ''])) {
    const read = await readOne(`${origin}/.well-known/oauth-protected-resource${place}`, exchange);
    if (read !== 'absent') return read;
  }
  return 'absent';
}

async function readOne(url: string, exchange: Exchange): Promise<Read> {
  try {
    const answer = await exchange.fetch(url, { method: 'GET', headers: { accept: 'application/json' } });
    if (answer.status >= 500 || answer.status === 429 || answer.status === 408) return 'unavailable';
    // A redirect is not followed, and a document that is missing or not for us counts as absent.
    if (answer.status !== 200) return 'absent';
    const metadata: unknown = await answer.json();
    return isFields(metadata) ? metadata : 'absent';
  } catch {
    return 'unavailable';
  }
}
