/**
 * Stands before an MCP server that nobody here wrote, and lets through who shows a token with a proof that holds (RFC
 * 9449 §7.1). It reads tokens and proofs with `jose` alone: the code under test has no part in what it says.
 */
import { createHash, randomUUID } from 'node:crypto';
import { type IncomingHttpHeaders, type IncomingMessage, request as httpRequest, type ServerResponse } from 'node:http';
import { calculateJwkThumbprint, createRemoteJWKSet, EmbeddedJWK, type JWK, jwtVerify } from 'jose';
import { bodyOf, listenOnLoopback } from '../servers/loopback-server.ts';

export interface ProofRules {
  readonly issuer: () => string;
  readonly keysUrl: () => string;
  /** Default: bound tokens alone. `bearer` knows no others. */
  readonly takes?: 'bound' | 'bearer';
  /** `wanted`: each proof needs the nonce that was given last; `endless`: no nonce is ever right. */
  readonly nonce?: 'wanted' | 'endless';
  /** The nonce runs out just before the first request of this method. */
  readonly runsOutAt?: string;
  /** For requests of this method no nonce is ever right. */
  readonly endlessAt?: string;
  /** Further fields of its metadata (RFC 9728). */
  readonly metadata?: object;
}

/** A request at the guard, as it came and as it was judged. */
export interface SeenAtGuard {
  readonly rpcMethod: string | undefined;
  readonly tool: string | undefined;
  readonly headers: IncomingHttpHeaders;
  readonly token: string;
  readonly proof: string | undefined;
  /** `passed`, or why it was not let through. */
  readonly verdict: string;
}

export interface ProofGuard {
  readonly url: string;
  readonly seen: readonly SeenAtGuard[];
  /** Changes the rules for all requests from now on. */
  change(rules: Partial<ProofRules>): void;
  close(): Promise<void>;
}

interface Message {
  readonly method?: string;
  readonly params?: { readonly name?: string };
}

/** @param behind URL of the guarded server */
export async function startProofGuard(behind: string, first: ProofRules): Promise<ProofGuard> {
  let rules = first;
  let url = '';
  let nonce = randomUUID();
  const used = new Set<string>();
  const seen: SeenAtGuard[] = [];
  let hasRunOut = false;

  /** Returns why the request is not let through. */
  const doubt = async (
    request: IncomingMessage,
    token: string,
    proof: string | undefined,
    rpcMethod: string | undefined,
  ): Promise<string> => {
    const [scheme] = (request.headers.authorization ?? '').split(' ');
    if (token === '') return 'no token';
    const keys = createRemoteJWKSet(new URL(rules.keysUrl()));
    const options = { issuer: rules.issuer(), audience: url, typ: 'at+jwt', clockTolerance: 5 };
    const { payload } = await jwtVerify(token, keys, options);
    // Sound: the claim is read, not trusted.
    const bound = (payload['cnf'] as { jkt?: unknown } | undefined)?.jkt;
    if (rules.takes === 'bearer') return scheme === 'Bearer' ? 'passed' : 'another scheme';
    if (scheme !== 'DPoP') return 'a bound token is shown as a bearer token, or is none';
    if (proof === undefined) return 'no proof';
    const proven = await jwtVerify(proof, EmbeddedJWK, {
      typ: 'dpop+jwt',
      algorithms: ['ES256'],
      maxTokenAge: 60,
      clockTolerance: 5,
      requiredClaims: ['jti', 'iat', 'htm', 'htu', 'ath'],
    });
    // Sound: `EmbeddedJWK` has read the key there.
    const key = proven.protectedHeader.jwk as JWK;
    if ('d' in key) return 'the private key came with the proof';
    if ((await calculateJwkThumbprint(key)) !== bound) return 'the token is bound to another key';
    const { htm, htu, ath, jti = '', nonce: shown } = proven.payload;
    if (htm !== request.method) return 'htm';
    if (htu !== url) return 'htu';
    if (ath !== createHash('sha256').update(token).digest('base64url')) return 'ath';
    if (used.has(jti)) return 'the proof was used';
    used.add(jti);
    const isEndless = rules.nonce === 'endless' || (rpcMethod !== undefined && rpcMethod === rules.endlessAt);
    const isRight = !isEndless && shown === nonce;
    return rules.nonce === undefined || isRight ? 'passed' : 'nonce';
  };

  const refuse = (response: ServerResponse, reason: string): void => {
    const error = reason === 'nonce' ? 'use_dpop_nonce' : 'invalid_token';
    const scheme = rules.takes === 'bearer' ? 'Bearer' : 'DPoP';
    const algs = scheme === 'DPoP' ? ', algs="ES256"' : '';
    if (reason === 'nonce') nonce = randomUUID();
    response.writeHead(401, {
      'www-authenticate': `${scheme} error="${error}"${algs}`,
      ...(reason === 'nonce' ? { 'dpop-nonce': nonce } : {}),
      'content-type': 'text/plain',
    });
    response.end(reason);
  };

  const serve = async (request: IncomingMessage, response: ServerResponse): Promise<void> => {
    if (request.url?.startsWith('/.well-known/') === true) {
      const isOurs = request.url === '/.well-known/oauth-protected-resource/mcp';
      const metadata = { resource: url, authorization_servers: [rules.issuer()], ...rules.metadata };
      response.writeHead(isOurs ? 200 : 404, { 'content-type': 'application/json' }).end(JSON.stringify(metadata));
      return;
    }
    const body = await bodyOf(request);
    // Sound: a body that is no message has none of its fields.
    const message = (body === '' ? {} : JSON.parse(body)) as Message;
    const token = request.headers.authorization?.replace(/^\S+ /, '') ?? '';
    const proof = request.headers['dpop'];
    const shown = typeof proof === 'string' ? proof : undefined;
    const { method: rpcMethod, params } = message;
    if (rpcMethod !== undefined && rpcMethod === rules.runsOutAt && !hasRunOut) {
      hasRunOut = true;
      nonce = randomUUID();
    }
    const verdict = await doubt(request, token, shown, rpcMethod).catch(String);
    seen.push({ rpcMethod, tool: params?.name, headers: request.headers, token, proof: shown, verdict });
    if (verdict === 'passed') pass(request, response, body, behind);
    else refuse(response, verdict);
  };
  const server = await listenOnLoopback((request, response) => void serve(request, response));
  url = `${server.origin}/mcp`;
  return {
    url,
    seen,
    change: (next) => {
      rules = { ...rules, ...next };
    },
    close: server.close,
  };
}

function pass(request: IncomingMessage, response: ServerResponse, body: string, behind: string): void {
  const { authorization: _, dpop: __, host: ___, ...headers } = request.headers;
  const further = httpRequest(behind, { method: request.method, headers }, (answer) => {
    response.writeHead(answer.statusCode ?? 502, answer.headers);
    answer.pipe(response);
  });
  further.on('error', () => response.destroy());
  response.on('close', () => further.destroy());
  further.end(body);
}
