/**
 * The key pair to which the token of one call is bound (DPoP, RFC 9449), the proofs that are made with it, and what
 * tool servers have said of such tokens.
 *
 * 1. The private key cannot be read, by nobody: it is made as not extractable, kept nowhere, and ends with its call.
 * 2. Each request has a proof of its own, for its method, its address and its token.
 * 3. A request is sent again once, and only after an answer that proves that it was not acted on (INV-X1,
 *    `domain/policy/sender-constraint.ts`).
 * 4. A server's word changes nothing but `preferred`, and nothing for other servers.
 */
import { LRUCache } from 'lru-cache';
import {
  allowInsecureRequests,
  customFetch,
  DPoP,
  type DPoPHandle,
  generateKeyPair,
  isDPoPNonceError,
  protectedResourceRequest,
  ResponseBodyError,
  WWWAuthenticateChallengeError,
} from 'oauth4webapi';
import type { SenderConstrained } from '../../contracts/schemas/credentials.ts';
import {
  asksForNonce,
  type Challenge,
  declinesProofs,
  PROOF_ALGORITHM,
  type Refusing,
  wantsBoundToken,
} from '../../domain/policy/sender-constraint.ts';
import type { BoundAnswer, SendRequest, TokenBinding } from '../mcp/port.ts';
import type { TokenRequest } from './port.ts';

/** A call that lasts for hours makes many; a spent one is good for nothing. */
const MOST_KNOWN = 100;

export class ProofKey implements TokenBinding {
  readonly handle: DPoPHandle;
  /** RFC 7638. */
  readonly thumbprint: string;
  readonly #proofs: string[] = [];
  #declined = false;

  private constructor(handle: DPoPHandle, thumbprint: string) {
    this.handle = handle;
    this.thumbprint = thumbprint;
  }

  static async create(): Promise<ProofKey> {
    const pair = await generateKeyPair(PROOF_ALGORITHM, { extractable: false });
    const handle = DPoP({}, pair);
    return new ProofKey(handle, await handle.calculateThumbprint());
  }

  async send(
    token: string,
    url: string,
    init: RequestInit | undefined,
    send: SendRequest,
    mayRepeat: () => boolean = () => true,
  ): Promise<BoundAnswer> {
    const first = await this.#sentOnce(token, url, init, send);
    if (!asksForNonce(first) || !isRepeatable(init)) return this.#answer(first);
    await first.response.body?.cancel().catch(() => undefined);
    // Asked last, because the server may say more meanwhile.
    if (!mayRepeat()) return this.#answer(first);
    // By now the handle has the nonce.
    return this.#answer(await this.#sentOnce(token, url, init, send));
  }

  note(headers: Readonly<Record<string, string>>): void {
    const proof = headers['dpop'];
    if (proof === undefined) return;
    this.#proofs.push(proof);
    if (this.#proofs.length > MOST_KNOWN) this.#proofs.shift();
  }

  secrets(): readonly string[] {
    return [...this.#proofs];
  }

  isDeclined(): boolean {
    return this.#declined;
  }

  #answer(sent: Sent): BoundAnswer {
    const isDeclined = declinesProofs(sent);
    if (sent.status === 401) this.#declined = isDeclined;
    return {
      response: sent.response,
      ...(asksForNonce(sent) ? { nonceWanted: true } : {}),
      ...(isDeclined ? { declined: true } : {}),
    };
  }

  async #sentOnce(token: string, url: string, init: RequestInit | undefined, send: SendRequest): Promise<Sent> {
    const headers = new Headers(init?.headers);
    headers.delete('authorization');
    // The library would name itself.
    const isNamed = headers.has('user-agent');
    const options = {
      DPoP: this.handle,
      // Egress rules have judged the address, or will.
      [allowInsecureRequests]: true,
      [customFetch]: async (_: string, { headers: proven }: { readonly headers: Record<string, string> }) => {
        if (!isNamed) delete proven['user-agent'];
        this.note(proven);
        return await send(url, { ...init, headers: proven });
      },
    };
    try {
      const method = init?.method ?? 'GET';
      const response = await protectedResourceRequest(token, method, new URL(url), headers, null, options);
      return answered(response, []);
    } catch (error) {
      if (!(error instanceof WWWAuthenticateChallengeError)) throw error;
      return answered(error.response, error.cause);
    }
  }
}

interface Sent extends Refusing {
  readonly response: Response;
}

function answered(response: Response, challenges: readonly Challenge[]): Sent {
  return { response, challenges, status: response.status, nonce: response.headers.get('dpop-nonce') };
}

/** A body that is read while it is sent is gone. */
function isRepeatable(init: RequestInit | undefined): boolean {
  const body = init?.body ?? '';
  return typeof body === 'string';
}

/** True if the token endpoint refused the request for want of its nonce, and gave one (RFC 9449 §8). */
export function wantsNonceOfIssuer(error: unknown): boolean {
  if (!isDPoPNonceError(error)) return false;
  const isAnswer = error instanceof ResponseBodyError || error instanceof WWWAuthenticateChallengeError;
  return isAnswer && [400, 401].includes(error.response.status) && error.response.headers.has('dpop-nonce');
}

// What tool servers have said of tokens that are bound to a key, remembered for a while.

const MOST_SERVERS = 500;
const KEPT_MS = 3_600_000;

interface Word {
  readonly wanted: boolean;
  readonly declined: boolean;
}

const NOTHING: Word = { wanted: false, declined: false };

export type ServerWords = ReturnType<typeof createServerWords>;

/** @param now milliseconds since the epoch */
export function createServerWords(now: () => number) {
  const words = new LRUCache<string, Word>({ max: MOST_SERVERS, ttl: KEPT_MS, ttlResolution: 0, perf: { now } });
  const said = (serverUrl: string): Word => words.get(serverUrl) ?? NOTHING;
  const keep = (serverUrl: string, word: Partial<Word>): void => {
    words.set(serverUrl, { ...said(serverUrl), ...word });
  };
  return {
    /** Keeps what the server's own metadata say (`takesBoundTokens`). */
    wants(serverUrl: string, wanted: boolean): void {
      if (said(serverUrl).wanted !== wanted) keep(serverUrl, { wanted });
    },
    /** @param algorithms `dpop_signing_alg_values_supported` of the authorization server */
    async keyFor(
      mode: SenderConstrained,
      { serverUrl, declined, byProvider }: TokenRequest,
      algorithms?: unknown,
    ): Promise<ProofKey | undefined> {
      if (byProvider === true && mode !== 'required') return undefined;
      if (declined === true) keep(serverUrl, { declined: true });
      return wantsBoundToken(mode, { ...said(serverUrl), algorithms }) ? await ProofKey.create() : undefined;
    },
  };
}
