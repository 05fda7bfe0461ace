/**
 * Signs messages with a compact JWS (docs/guide/signing.md): over exactly what the workers compare.
 *
 * 1. The private key stays behind `Signer.sign`, so an HSM, an agent or a browser may hold it.
 */
import { createPrivateKey, type JsonWebKey, type KeyObject, randomUUID, sign } from 'node:crypto';
import { readFile } from 'node:fs/promises';
import { setTimeout as pause } from 'node:timers/promises';
import { z } from 'zod';
import { SIGNING } from '../../contracts/crypto.ts';
import { defined } from '../../contracts/defined.ts';
import { CountersignError, nodeCodeOf } from '../../contracts/errors.ts';
import { Name } from '../../contracts/schemas/json.ts';
import type { RunState } from '../../contracts/schemas/run-state.ts';
import { Assertion, type SignedPurpose } from '../../contracts/schemas/trust.ts';
import { canonicalJson, hashOf } from '../../domain/text/canonical.ts';
import { jsonOf } from '../ledger/files.ts';

export interface ToSign {
  readonly purpose: SignedPurpose;
  readonly namespace: string;
  readonly tenant: string;
  readonly workflowId: string;
  /** Temporal run id; absent for a spec. */
  readonly runId?: string;
  /** `issuer|subject`. */
  readonly person: string;
  readonly groups: readonly string[];
  /** Id of the message; by default a random one. */
  readonly jti?: string;
}

/** Long enough for a slow worker; an intercepted message soon becomes useless. */
const LIFE_SECONDS = 300;

/**
 * Returns the message with its signature.
 * @throws CountersignError `USAGE` if the person is not written as `issuer|subject`
 */
export async function signed<T extends object>(
  signer: Signer,
  message: T,
  about: ToSign,
): Promise<T & { signature: string }> {
  const { person, runId, jti = randomUUID(), ...rest } = about;
  const bar = person.indexOf('|');
  if (bar < 1 || bar === person.length - 1)
    throw new CountersignError('USAGE', 'Who signs must be named as issuer|subject, as the trusted keys have it.', {
      path: 'id',
    });
  const iat = Math.floor(Date.now() / 1_000);
  const claims = {
    ...rest,
    ...defined({ runId }),
    payload: hashOf(message),
    iat,
    exp: iat + LIFE_SECONDS,
    jti,
    iss: person.slice(0, bar),
    sub: person.slice(bar + 1),
  };
  const header = { alg: SIGNING.alg, kid: signer.kid, typ: SIGNING.typ };
  const input = `${encoded(canonicalJson(header))}.${encoded(canonicalJson(claims))}`;
  const signature = await signer.sign(new TextEncoder().encode(input));
  return { ...message, signature: `${input}.${Buffer.from(signature).toString('base64url')}` };
}

function encoded(text: string): string {
  return Buffer.from(text).toString('base64url');
}

export interface Signer {
  /** Key id, as the trusted keys of the workers have it. */
  readonly kid: string;
  /** Signs exactly these bytes with Ed25519 (RFC 8032). */
  sign(bytes: Uint8Array): Uint8Array | Promise<Uint8Array>;
  /** Groups claimed for messages that name no groups themselves: `say` and `stop`. */
  readonly groups?: readonly string[];
}

/**
 * Creates a signer from a private key in memory.
 * @param key private Ed25519 key: a JWK with `d` (RFC 8037), or PKCS #8 in PEM
 * @throws CountersignError `USAGE`
 */
export function createSigner(kid: string, key: JsonWebKey | string, groups?: readonly string[]): Signer {
  const privateKey = importKey(key);
  return {
    kid,
    sign: (bytes) => sign(null, bytes, privateKey),
    ...defined({ groups }),
  };
}

/**
 * Reads a private JWK with its `kid`, as `countersign keys new` writes it.
 * @param shown names the file in errors
 * @param groups are claimed in place of those of a person's key
 * @throws CountersignError `USAGE`
 */
export async function readSigner(path: string, shown: string = path, groups?: readonly string[]): Promise<Signer> {
  const text = await readFile(path, 'utf8').catch((error: unknown) => {
    const message = `The signing key ${shown} cannot be read (${nodeCodeOf(error) ?? 'error'}). Name one that is there and that you may read (it is for its owner alone), or make one with: countersign keys new`;
    throw new CountersignError('USAGE', message);
  });
  const read = privateJwkIn(text);
  if (read === undefined) {
    const message = `The signing key ${shown} is no private JWK with a kid. Make one with: countersign keys new`;
    throw new CountersignError('USAGE', message);
  }
  const { kid, countersign, ...key } = read;
  return createSigner(kid, key, groups ?? (countersign?.kind === 'person' ? countersign.groups : undefined));
}

const PrivateJwk = z.looseObject({ kty: z.string(), kid: Name, countersign: Assertion.optional() });

/** Returns undefined for any other text. Why is not told, since that may quote the file. */
export function privateJwkIn(text: string): z.infer<typeof PrivateJwk> | undefined {
  return PrivateJwk.safeParse(jsonOf(text)).data;
}

function importKey(key: JsonWebKey | string): KeyObject {
  let imported: KeyObject;
  try {
    imported = typeof key === 'string' ? createPrivateKey(key) : createPrivateKey({ key, format: 'jwk' });
  } catch {
    // The cause is left out, since it may quote the key.
    throw new CountersignError('USAGE', 'The signing key is no private key: a JWK with d, or PKCS #8 in PEM.');
  }
  if (imported.asymmetricKeyType === 'ed25519') return imported;
  const message = `The signing key is not of curve ${SIGNING.curve}; make one with: countersign keys new`;
  throw new CountersignError('USAGE', message);
}

export interface SignedRun {
  readonly namespace: string;
  readonly workflowId: string;
  state(): Promise<Pick<RunState, 'runId' | 'signing'>>;
  refreshTrust(): Promise<unknown>;
}

/** Pauses between sendings, in which the run reads its keys. */
const PAUSES_MS = [50, 100, 200, 400, 800, 1_600];

export type Said = Omit<ToSign, 'namespace' | 'tenant' | 'workflowId'>;

/**
 * Signs and sends an update, and again while the run has yet to read the key: a refused one has changed nothing
 * (INV-G2).
 * @param about its `runId` is the Temporal run that is meant; without it, the living one
 */
export async function sendSigned<T, M extends object>(
  run: SignedRun,
  signer: Signer,
  message: M,
  about: Said,
  send: (message: M) => Promise<T>,
): Promise<T> {
  let unknown: CountersignError | undefined;
  for (const ms of PAUSES_MS) {
    const { runId, signing } = await run.state();
    try {
      if (signing === undefined) return await send(message);
      const { namespace, workflowId } = run;
      return await send(
        await signed(signer, message, { runId, ...about, namespace, workflowId, tenant: signing.tenant }),
      );
    } catch (error) {
      if (!(error instanceof CountersignError) || error.code !== 'TRUST_KEY_UNKNOWN') throw error;
      unknown = error;
    }
    await run.refreshTrust().catch((error: unknown) => {
      // Another sender has asked just now, so the keys are being read.
      if (!(error instanceof CountersignError) || error.code !== 'TRUST_REFRESH_TOO_SOON') throw error;
    });
    await pause(ms);
  }
  throw unknown ?? new CountersignError('INTERNAL', 'nothing was sent');
}
