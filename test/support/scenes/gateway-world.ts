/** Starts a service with a gateway in this process, and an identity provider that signs what a test says. */
import { join } from 'node:path';
import { exportJWK, generateKeyPair, SignJWT } from 'jose';
import { explainBy } from '../../../cli/session/gateway.ts';
import { readArtifactsFrom } from '../../../client/artifacts/readers.ts';
import { GatewayConfig, type GatewayConfigInput } from '../../../contracts/schemas/gateway.ts';
import { type Gateway, type GatewayOptions, startGateway } from '../../../gateway/gateway.ts';
import { listenOnLoopback } from '../servers/loopback-server.ts';
import type { World } from '../world/world.ts';

export const AUDIENCE = 'https://countersign.example';

export interface Claims {
  readonly sub: string;
  readonly groups?: readonly string[];
  readonly tenant?: string;
  readonly aud?: string | string[];
  readonly iss?: string;
  /** Seconds from now; may be negative. */
  readonly lives?: number;
  readonly [claim: string]: unknown;
}

export interface TestProvider {
  readonly issuer: string;
  /** Number of times that the keys were read. */
  reads(): number;
  token(claims: Claims): Promise<string>;
  /** Signs with a new key from now on; the old one is not published any more. */
  rotate(): Promise<void>;
  /** Signs as a stranger who claims to be this provider. */
  forged(claims: Claims): Promise<string>;
  close(): Promise<unknown>;
}

export async function startTestProvider(): Promise<TestProvider> {
  let key = await newKey('key-1');
  let reads = 0;
  let made = 1;
  const stranger = await newKey('key-1');
  const server = await listenOnLoopback((request, response) => {
    response.setHeader('content-type', 'application/json');
    if (request.url === '/.well-known/openid-configuration')
      response.end(JSON.stringify({ issuer: server.origin, jwks_uri: `${server.origin}/jwks` }));
    else {
      reads += 1;
      response.end(JSON.stringify({ keys: [key.jwk] }));
    }
  });
  const sign = async (by: typeof key, { sub, aud = AUDIENCE, iss = server.origin, lives = 300, ...claims }: Claims) =>
    await new SignJWT({ ...claims })
      .setProtectedHeader({ alg: 'ES256', kid: by.jwk.kid ?? '', typ: 'at+jwt' })
      .setIssuer(iss)
      .setAudience(aud)
      .setSubject(sub)
      .setExpirationTime(Math.floor(Date.now() / 1_000) + lives)
      .sign(by.privateKey);
  return {
    issuer: server.origin,
    reads: () => reads,
    token: async (claims) => await sign(key, claims),
    forged: async (claims) => await sign(stranger, claims),
    rotate: async () => {
      made += 1;
      key = await newKey(`key-${made}`);
    },
    close: server.close,
  };
}

async function newKey(kid: string) {
  const { privateKey, publicKey } = await generateKeyPair('ES256', { extractable: true });
  return { privateKey, jwk: { ...(await exportJWK(publicKey)), kid, alg: 'ES256', use: 'sig' } };
}

export interface Answered<T = unknown> {
  readonly status: number;
  readonly headers: Headers;
  readonly body: T;
}

export interface Caller {
  <T = Record<string, unknown>>(
    method: string,
    path: string,
    body?: unknown,
    headers?: Readonly<Record<string, string>>,
  ): Promise<Answered<T>>;
}

/** Makes a caller of this gateway with this token. */
export function callerOf({ url }: Pick<Gateway, 'url'>, token: string | undefined): Caller {
  return async <T>(method: string, path: string, body?: unknown, headers = {}): Promise<Answered<T>> => {
    const response = await fetch(`${url}${path}`, {
      method,
      headers: {
        ...(token === undefined ? {} : { authorization: `Bearer ${token}` }),
        ...(body === undefined ? {} : { 'content-type': 'application/json' }),
        ...headers,
      },
      ...(body === undefined ? {} : { body: typeof body === 'string' ? body : JSON.stringify(body) }),
    });
    const text = await response.text();
    // Sound: tests check what they use of it.
    return { status: response.status, headers: response.headers, body: (text === '' ? {} : JSON.parse(text)) as T };
  };
}

export interface StartOptions {
  readonly config?: GatewayConfigInput;
  readonly trust?: GatewayOptions['trust'];
  readonly log?: GatewayOptions['log'];
}

/** Starts a gateway of a world on a free port, believing this provider. */
export async function startTestGateway(
  {
    client,
    config: { taskQueue, artifacts, catalog, policy, servers },
    engine,
  }: Pick<World, 'client' | 'config'> & { readonly engine: Pick<World['engine'], 'directory'> },
  provider: Pick<TestProvider, 'issuer'>,
  { config = {}, trust = { mode: 'temporal' }, log }: StartOptions = {},
): Promise<Gateway> {
  const trusted = Object.fromEntries(Object.entries(servers).map(([name, each]) => [name, each.trusted]));
  return await startGateway({
    config: GatewayConfig.parse({
      port: 0,
      oidc: { issuer: provider.issuer, audience: AUDIENCE, tenant: 'default' },
      ...config,
    }),
    client,
    taskQueue,
    artifacts: readArtifactsFrom(join(engine.directory, artifacts.directory)),
    trust,
    catalogs: {
      administrators: catalog.administrators,
      policy,
      trusted,
      serverUrls: Object.fromEntries(Object.entries(servers).map(([name, { url }]) => [name, url])),
      repeatable: Object.fromEntries(Object.entries(servers).map(([name, each]) => [name, each.repeatable])),
      isSigned: trust.mode === 'signed',
    },
    explain: explainBy({ policy, trusted }),
    ask: async (url, init) => await fetch(url, init),
    askSlack: async (url, init) => await fetch(url, init),
    version: 'test',
    log,
  });
}

export interface ServerEvent {
  readonly id: string | undefined;
  readonly event: string | undefined;
  readonly data: unknown;
}

export interface OpenStream {
  readonly status: number;
  /** Everything that has come so far. */
  readonly events: readonly ServerEvent[];
  /** Resolves when the gateway or `close` has ended the stream. */
  readonly ended: Promise<void>;
  close(): void;
}

/** Opens an event stream, and reads it as it comes. */
export async function openStream(
  { url }: Pick<Gateway, 'url'>,
  path: string,
  token: string,
  lastId?: string,
): Promise<OpenStream> {
  const over = new AbortController();
  const response = await fetch(`${url}${path}`, {
    signal: over.signal,
    headers: { authorization: `Bearer ${token}`, ...(lastId === undefined ? {} : { 'last-event-id': lastId }) },
  });
  const events: ServerEvent[] = [];
  const read = async (): Promise<void> => {
    let text = '';
    const decoder = new TextDecoder();
    for await (const chunk of response.body ?? []) {
      text += decoder.decode(chunk as Uint8Array, { stream: true });
      const blocks = text.split('\n\n');
      text = blocks.pop() ?? '';
      events.push(...blocks.flatMap(eventIn));
    }
  };
  return {
    status: response.status,
    events,
    ended: read().catch(() => undefined),
    close: () => over.abort(),
  };
}

function eventIn(block: string): readonly ServerEvent[] {
  const field = (name: string): string | undefined =>
    block
      .split('\n')
      .find((line) => line.startsWith(`${name}: `))
      ?.slice(name.length + 2);
  const data = field('data');
  return data === undefined ? [] : [{ id: field('id'), event: field('event'), data: JSON.parse(data) as unknown }];
}
