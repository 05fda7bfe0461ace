/**
 * Serves an MCP server behind the bearer check of the MCP SDK. A token counts only if it comes from one
 * issuer, is for this server, is short-lived, and has the scope of the request.
 * A token for a countersigned tool must also be for exactly this call, and be used for the first time.
 */
import { createHash } from 'node:crypto';
import { writeFile } from 'node:fs/promises';
import type { IncomingMessage, ServerResponse } from 'node:http';
import { join } from 'node:path';
import {
  type AuthInfo,
  bearerAuthChallengeResponse,
  OAuthError,
  OAuthErrorCode,
  Server,
  verifyBearerToken,
} from '@modelcontextprotocol/server';
import canonicalize from 'canonicalize';
import { createRemoteJWKSet, jwtVerify } from 'jose';
import type { RunHandle } from '../../../client/index.ts';
import { IssuedClaims } from '../../../contracts/schemas/credentials.ts';
import type { ApprovalRequest } from '../../../contracts/schemas/request.ts';
import { freePort } from '../../../workers/dev-server.ts';
import { startEngine } from '../engine.ts';
import { type SdkServer, serveSdk } from '../servers/sdk-server.ts';
import { keepZoneKey, signingKey } from '../signing/keys.ts';
import { decisionOn, openRequests, startWorld, type World } from '../world/world.ts';
import { EXCHANGE, exchangeGrant, identity } from './grants.ts';
import { type RunningProvider, startProvider } from './provider.ts';

export interface GuardedRules {
  readonly issuer: string;
  /** Called when a token comes. */
  readonly keysUrl: () => string;
  /** Scopes of `tools/list` and of each tool. */
  readonly scopes: Readonly<Record<string, string>>;
  /** Tools that want a token for exactly the call, each with the people who must have approved it, or nobody. */
  readonly countersigned?: Readonly<Record<string, readonly string[]>>;
  /** Wants a token for calls only. */
  readonly openListing?: boolean;
}

export interface GuardedServer extends SdkServer {
  /** Executed calls. */
  readonly calls: readonly { readonly tool: string; readonly arguments: unknown }[];
  /** Every `Authorization` header that came, with its request. */
  readonly seen: readonly { readonly method: string; readonly tool: string | undefined; readonly token: string }[];
  /** All headers and bodies that came, as text. */
  received(): string;
}

interface Message {
  readonly method?: string;
  readonly params?: { readonly name?: string; readonly arguments?: unknown };
}

async function startGuardedServer(rules: GuardedRules): Promise<GuardedServer> {
  const calls: { tool: string; arguments: unknown }[] = [];
  const seen: { method: string; tool: string | undefined; token: string }[] = [];
  const received: string[] = [];
  const used = new Set<string>();
  let url = '';

  const verifier = {
    verifyAccessToken: async (token: string): Promise<AuthInfo> => {
      try {
        const keys = createRemoteJWKSet(new URL(rules.keysUrl()));
        const options = { issuer: rules.issuer, audience: url, typ: 'at+jwt', maxTokenAge: 120, clockTolerance: 5 };
        const { payload } = await jwtVerify(token, keys, { ...options, requiredClaims: ['exp', 'iat', 'jti', 'sub'] });
        if ((payload.exp ?? 0) - (payload.iat ?? 0) > 120) throw new Error('it lives too long');
        return {
          token,
          clientId: String(payload['client_id']),
          scopes: typeof payload['scope'] === 'string' ? payload['scope'].split(' ') : [],
          expiresAt: payload.exp ?? 0,
          resource: new URL(String(payload.aud)),
          extra: payload,
        };
      } catch (error) {
        throw new OAuthError(OAuthErrorCode.InvalidToken, String(error));
      }
    },
  };

  /** Returns why the token is not for this call. */
  const doubt = (claims: unknown, { name = '', arguments: args = {} }: NonNullable<Message['params']>) => {
    const wanted = rules.countersigned?.[name];
    if (wanted === undefined) return undefined;
    const parsed = IssuedClaims.safeParse(claims);
    const call = parsed.data?.countersign.call;
    if (parsed.data === undefined || call === undefined) return 'no call is named';
    // The hash is not computed with our own code: the promise is made to anybody who can read two RFCs.
    const hash = createHash('sha256')
      .update(canonicalize(args) ?? '')
      .digest('hex');
    if (call.tool !== name || call.arguments !== hash) return 'another call was countersigned';
    if (wanted.length > 0 && call.consent.kind !== 'decision') return 'nobody countersigned it';
    const approvers = call.consent.kind === 'policy' ? [] : call.consent.approvers;
    if (!wanted.every((one) => approvers.includes(one))) return 'somebody else countersigned it';
    if (used.has(parsed.data.jti)) return 'the token was used';
    used.add(parsed.data.jti);
    return undefined;
  };

  const make = (): Server => {
    const server = new Server({ name: 'guarded', version: '1' }, { capabilities: { tools: {} } });
    server.setRequestHandler('tools/list', () => ({
      tools: Object.keys(rules.scopes)
        .filter((name) => name !== 'tools/list')
        .map((name) => ({ name, description: `Does ${name}.`, inputSchema: { type: 'object' as const } })),
    }));
    server.setRequestHandler('tools/call', ({ params }) => {
      calls.push({ tool: params.name, arguments: params.arguments });
      return { content: [{ type: 'text', text: `${params.name} is done` }] };
    });
    return server;
  };

  const guard = async (request: IncomingMessage, response: ServerResponse, text: string): Promise<boolean> => {
    if (request.method === 'GET' && request.url === '/.well-known/oauth-protected-resource/mcp') {
      const metadata = { resource: url, authorization_servers: [rules.issuer] };
      response.writeHead(200, { 'content-type': 'application/json' }).end(JSON.stringify(metadata));
      return true;
    }
    received.push(`${JSON.stringify(request.headers)}\n${text}`);
    // Sound: a body that is no message has none of its fields.
    const message = (text === '' ? {} : JSON.parse(text)) as Message;
    const { method = '', params = {} } = message;
    const header = request.headers.authorization;
    seen.push({ method, tool: params.name, token: header?.replace(/^Bearer /, '') ?? '' });
    const scope = rules.scopes[method === 'tools/call' ? (params.name ?? '') : method];
    const requiredScopes = scope === undefined ? [] : [scope];
    if (rules.openListing === true && method !== 'tools/call') return false;
    let info: AuthInfo;
    try {
      info = await verifyBearerToken(header, { verifier, requiredScopes, expectedResource: new URL(url) });
    } catch (error) {
      const challenge = bearerAuthChallengeResponse(error, { requiredScopes });
      response.writeHead(challenge.status, Object.fromEntries(challenge.headers)).end(await challenge.text());
      return true;
    }
    const reason = method === 'tools/call' ? doubt(info.extra, params) : undefined;
    if (reason !== undefined) response.writeHead(403, { 'content-type': 'text/plain' }).end(reason);
    return reason !== undefined;
  };
  const served = await serveSdk(make, guard);
  url = served.url;
  return {
    ...served,
    calls,
    seen,
    received: () => received.join('\n'),
  };
}

/**
 * Sends one `tools/call` like anybody who got hold of a token.
 * @returns status and text
 */
export async function sendCall(
  url: string,
  token: string,
  tool: string,
  args: object,
): Promise<{ readonly status: number; readonly text: string }> {
  const answer = await fetch(url, {
    method: 'POST',
    headers: {
      authorization: `Bearer ${token}`,
      'content-type': 'application/json',
      accept: 'application/json, text/event-stream',
      'mcp-protocol-version': '2025-06-18',
    },
    body: JSON.stringify({ jsonrpc: '2.0', id: 1, method: 'tools/call', params: { name: tool, arguments: args } }),
  });
  return { status: answer.status, text: await answer.text() };
}

// Starts a worker that is an issuer, and three servers that trust an issuer and verify every token. An
// authorization server exchanges what callers seal.
// One run makes three calls: one that bob countersigned, one that policy allows, and one in the caller's name.

export const ISSUER = 'https://countersign.example.com';
const SCOPES = { discovery: ['list'], default: ['look'], tools: { pay: ['pay'] } };
const AT_SERVER = { 'tools/list': 'list', look: 'look', pay: 'pay' };
export const PAYMENT = { amount: 5, to: 'ben', note: 'é €' };

export interface CountersignedScene {
  readonly world: World;
  readonly provider: RunningProvider;
  /** Two servers want a token for exactly the call; `pay` wants one that bob has countersigned. */
  readonly bank: GuardedServer;
  readonly other: GuardedServer;
  /** Accepts tokens of the authorization server. */
  readonly desk: GuardedServer;
  /** Trusts another issuer than the configured one. */
  readonly strayed: GuardedServer;
  /** Address of the worker's health port. */
  readonly health: string;
  /** The assertion that the caller sealed. */
  readonly assertion: string;
  readonly run: RunHandle;
  readonly request: ApprovalRequest;
  /** Everything that tool servers received for the run, without requests of the tests themselves. */
  readonly received: string;
  close(): Promise<void>;
}

export async function startCountersignedScene(): Promise<CountersignedScene> {
  const engine = await startEngine();
  const port = await freePort();
  const health = `http://127.0.0.1:${port}`;
  const keysUrl = () => `${health}/.well-known/jwks.json`;
  const rules = { issuer: ISSUER, keysUrl, scopes: AT_SERVER, countersigned: { pay: ['bob'], look: [] } };
  const elsewhere = { ...rules, issuer: 'https://elsewhere.example.com', openListing: true };
  const [bank, other, strayed] = await Promise.all([
    startGuardedServer(rules),
    startGuardedServer(rules),
    startGuardedServer(elsewhere),
  ]);
  const [first, second, clientKey, people] = await Promise.all([
    signingKey('issuer-1'),
    signingKey('issuer-2', 'EdDSA'),
    signingKey('client-1'),
    identity(),
  ]);
  for (const key of [first, second, clientKey])
    await writeFile(join(engine.directory, key.config.privateKeyFile), key.pem);
  const zone = await keepZoneKey(engine.directory);
  const resources: Record<string, string> = {};
  const provider = await startProvider({
    clients: [
      { id: 'countersign', authMethod: 'private_key_jwt', publicJwk: clientKey.publicJwk, grantTypes: [EXCHANGE] },
    ],
    resources,
    scopes: ['list', 'look', 'pay'],
    grants: { [EXCHANGE]: exchangeGrant({ people, resources, actor: clientKey.publicJwk }) },
  });
  const desk = await startGuardedServer({
    issuer: provider.issuer,
    keysUrl: () => `${provider.issuer}/jwks`,
    scopes: AT_SERVER,
  });
  resources[desk.url] = 'list look pay';
  const assertion = await people.assertion('ann@example.com', provider.issuer);
  const exchanged = { issuer: provider.issuer, clientId: 'countersign', clientKey: clientKey.config, scopes: SCOPES };
  const world = await startWorld({
    engine,
    beside: [bank, other, desk, strayed, provider],
    config: {
      servers: {
        bank: { url: bank.url, credentials: { kind: 'issued', scopes: SCOPES } },
        strayed: { url: strayed.url, credentials: { kind: 'issued', scopes: SCOPES } },
        desk: { url: desk.url, credentials: { kind: 'token-exchange', ...exchanged, revoke: true } },
      },
      issuer: { url: ISSUER, keys: [first.config, second.config], lifetimeSeconds: 90 },
      health: { port },
      grants: zone.grants,
      policy: {
        givenTokens: 'deny',
        approvers: { ids: ['bob'] },
        servers: {
          bank: { default: 'allow', tools: { pay: 'ask' } },
          desk: { default: 'allow' },
          strayed: { default: 'allow' },
        },
      },
    },
    client: { servers: { desk: { url: desk.url, key: zone.publicJwk } } },
  });
  const calls = [
    { tool: 'bank/pay', arguments: PAYMENT },
    { tool: 'bank/look', arguments: {} },
    { tool: 'desk/pay', arguments: {} },
  ];
  const run = await world.start(
    [{ calls }, { text: 'Done.' }],
    { servers: [{ name: 'bank' }, { name: 'desk' }] },
    { authorizations: { desk: assertion } },
  );
  const [request] = await openRequests(run);
  await run.decide(decisionOn(request, 'bob'));
  await run.result();
  const received = `${bank.received()}\n${desk.received()}`;
  return {
    world,
    provider,
    bank,
    other,
    desk,
    strayed,
    health,
    assertion,
    run,
    request,
    received,
    close: async () => {
      await world.stop();
      await engine.stop();
    },
  };
}
