/**
 * Seals a caller's `authorization` for one server of one run before it leaves the caller's process.
 *
 * 1. A sealed grant opens only for this namespace, workflow id, server URL and spec, and only until it expires. Opening
 *    needs the private key of the server's zone (DESIGN §4).
 * 2. The public key comes from the caller's own configuration, never from the run or the server.
 * 3. No error contains any part of the given value.
 */
import type { importJWK, JWK } from 'jose';
import { z } from 'zod';
import { readAuthorization } from '../../contracts/access-token.ts';
import { SEALING } from '../../contracts/crypto.ts';
import { CountersignError } from '../../contracts/errors.ts';
import { SPEC_HASH_MEMO } from '../../contracts/names.ts';
import { parseAs } from '../../contracts/schemas/parse.ts';
import { type Grant, type GrantBinding, SealedGrant } from '../../contracts/schemas/run-spec.ts';
import { canonicalJson } from '../../domain/text/canonical.ts';
import { canonicalServerUrl } from '../../domain/text/urls.ts';

const LONGEST_LIFE_SECONDS = 31_536_000;

export interface SealingRequest {
  /** A plain OAuth access token; a `Bearer` prefix is removed. */
  readonly authorization: string;
  readonly serverUrl: string;
  readonly binding: Pick<GrantBinding, 'namespace' | 'workflowId' | 'specHash'>;
  /** Public P-256 key of the server's zone, with its `kid`. */
  readonly key: JWK;
  /** Lifetime of the sealed grant: at least as long as the run may wait. */
  readonly expiresInSeconds: number;
  readonly now?: () => number;
}

export async function sealAuthorization(request: SealingRequest): Promise<SealedGrant> {
  const given = readAuthorization(request.authorization);
  if (given.kind === 'refused') {
    throw new CountersignError('SPEC_INVALID', `The given authorization ${given.reason}.`, { path: 'authorization' });
  }
  const { expiresInSeconds } = request;
  if (!Number.isInteger(expiresInSeconds) || expiresInSeconds < 1 || expiresInSeconds > LONGEST_LIFE_SECONDS) {
    const message = `expiresInSeconds must be a whole number from 1 to ${LONGEST_LIFE_SECONDS}.`;
    throw new CountersignError('USAGE', message, { path: 'expiresInSeconds' });
  }
  const { kid, key } = await sealingKey(request.key);
  const now = (request.now ?? Date.now)();
  // Members are named: a caller's object may have more, and workers open a grant by exactly these.
  const { namespace, workflowId, specHash } = request.binding;
  const serverUrl = canonicalServerUrl(request.serverUrl);
  const exp = Math.floor(now / 1_000) + expiresInSeconds;
  const binding: GrantBinding = { namespace, workflowId, serverUrl, specHash, exp };
  // Loaded when something is sealed: most clients never seal.
  const { FlattenedEncrypt } = await import('jose');
  const text = new TextEncoder();
  const jwe = await new FlattenedEncrypt(text.encode(given.token))
    .setProtectedHeader({ alg: SEALING.alg, enc: SEALING.enc, kid })
    .setAdditionalAuthenticatedData(text.encode(canonicalJson(binding)))
    .encrypt(key);
  return parseAs(SealedGrant, jwe, 'INTERNAL', 'sealed grant');
}

type ImportedKey = Awaited<ReturnType<typeof importJWK>>;

async function sealingKey(jwk: JWK): Promise<{ kid: string; key: ImportedKey }> {
  const refuse = (reason: string): CountersignError =>
    new CountersignError(
      'SEALING_KEY_MISSING',
      `The sealing key ${reason}. Give the public P-256 JWK, with its kid, of the zone that holds the server's credentials.`,
    );
  if (jwk.kid === undefined || jwk.kid === '') throw refuse('has no kid');
  if (jwk.kty !== 'EC' || jwk.crv !== SEALING.curve) throw refuse(`is not a ${SEALING.curve} key`);
  if (jwk.d !== undefined) throw refuse('is a private key, which no client may have');
  const { importJWK: imported } = await import('jose');
  try {
    return {
      kid: jwk.kid,
      key: await imported({ kty: 'EC', crv: SEALING.curve, x: jwk.x ?? '', y: jwk.y ?? '' }, SEALING.alg),
    };
  } catch {
    // The cause is left out, since it says nothing that helps a reader of the message.
    throw refuse('cannot be read');
  }
}

export interface FreshGrant {
  readonly server: string;
  /** A plain OAuth access token. */
  readonly authorization: string;
  /** From the caller's own configuration, never from the run. */
  readonly target: { readonly url: string; readonly key: JWK };
  /** Default: 30 days. */
  readonly expiresInSeconds?: number;
}

/** A caller without types may leave a part out. */
export const Fresh = z.looseObject({
  server: z.string(),
  authorization: z.string(),
  target: z.looseObject({ url: z.string(), key: z.looseObject({}) }),
});

export const DEFAULT_GRANT_SECONDS = 30 * 86_400;

/** @param memo the memo of the run; it holds what the run was started with */
export async function sealFresh(
  { server, authorization, target, expiresInSeconds = DEFAULT_GRANT_SECONDS }: FreshGrant,
  { namespace, workflowId, memo }: { namespace: string; workflowId: string; memo: Record<string, unknown> | undefined },
): Promise<Grant> {
  const specHash = memo?.[SPEC_HASH_MEMO];
  if (typeof specHash !== 'string') {
    const message = `Run ${workflowId} does not say what it was started with (memo ${SPEC_HASH_MEMO}), so no grant can be bound to it. Give a vault reference.`;
    throw new CountersignError('GRANT_INVALID', message);
  }
  const binding = { namespace, workflowId, specHash };
  const { url: serverUrl, key } = target;
  return { server, jwe: await sealAuthorization({ authorization, serverUrl, binding, key, expiresInSeconds }) };
}
