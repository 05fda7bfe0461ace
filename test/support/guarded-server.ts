/**
 * Serves an MCP server behind the bearer check of the MCP SDK. A token counts only if it comes from one
 * issuer, is for this server, is short-lived, and has the scope of the request.
 * A token for a countersigned tool must also be for exactly this call, and be used for the first time.
 */
import { createHash } from 'node:crypto';
import type { IncomingMessage, ServerResponse } from 'node:http';
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
import { IssuedClaims } from '../../contracts/schemas/credentials.ts';
import { type SdkServer, serveSdk } from './sdk-server.ts';

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

export async function startGuardedServer(rules: GuardedRules): Promise<GuardedServer> {
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
