/** Messages with a compact JWS over them (docs/guide/signing.md): exactly what the workers compare. */
import { randomUUID } from 'node:crypto';
import { CountersignError } from '../contracts/errors.ts';
import type { SignedPurpose } from '../contracts/schemas/trust.ts';
import { SIGNING } from '../contracts/signing.ts';
import { canonicalJson, hashOf } from '../domain/canonical.ts';
import type { Signer } from './signer.ts';

export interface ToSign {
  readonly purpose: SignedPurpose;
  readonly namespace: string;
  readonly tenant: string;
  readonly workflowId: string;
  /** Temporal run; absent for a spec. */
  readonly runId?: string;
  /** `issuer|subject`. */
  readonly person: string;
  readonly groups: readonly string[];
  /** Id of the message; default a random one. */
  readonly jti?: string;
}

/** Long enough for a worker that is slow, short enough that a message that was caught is of no use later. */
const LIFE_SECONDS = 300;

/** The message with its signature. @throws CountersignError `USAGE` where the person is no `issuer|subject` */
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
    ...(runId === undefined ? {} : { runId }),
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
