/**
 * Posts to receivers of webhooks, signed as Standard Webhooks 1.0 says.
 *
 * 1. One try is bounded in time, and no redirect is followed. Only the status of the answer is used, and nothing of it
 *    is quoted. The address is not quoted either: it may hold what only the receiver should know.
 * 2. The same id for the same content: a receiver that was told before knows it.
 */
import { createHmac, createPrivateKey, sign as signWith } from 'node:crypto';
import { networkCodeOf, retryAfterOf } from '../kit/network.ts';
import { type Egress, egressRefusalIn } from './fetch.ts';

/** The limit is small, since nothing of an answer's body is read. */
const MOST_BYTES = 65_536;

export interface WebhookReceiver {
  readonly what: string;
  readonly url: string;
  /** `whsec_` and a key in base64, for HMAC-SHA256; `whsk_` and a private key in base64, for Ed25519. */
  readonly secret: string;
  readonly timeoutSeconds: number;
}

export type WebhookAnswer =
  | { readonly kind: 'answered'; readonly status: number; readonly retryAfterMs: number | undefined }
  /** Nothing came back; `reason` follows the receiver's name. */
  | { readonly kind: 'unreached'; readonly reason: string };

export type PostSigned = (id: string, body: string) => Promise<WebhookAnswer>;

export function createSignedPost({ what, url, secret, timeoutSeconds }: WebhookReceiver, egress: Egress): PostSigned {
  const sign = signerOf(secret);
  const { fetch } = egress.outlet({ what, to: [url], maxBytes: MOST_BYTES });
  return async (id, body) => {
    const timestamp = String(Math.floor(Date.now() / 1_000));
    const headers = {
      'content-type': 'application/json',
      'user-agent': 'countersign',
      'webhook-id': id,
      'webhook-timestamp': timestamp,
      'webhook-signature': sign(`${id}.${timestamp}.${body}`),
    };
    const signal = AbortSignal.timeout(timeoutSeconds * 1_000);
    try {
      const answer = await fetch(url, { method: 'POST', headers, body, signal });
      const retryAfterMs = retryAfterOf(answer);
      await answer.body?.cancel();
      return { kind: 'answered', status: answer.status, retryAfterMs };
    } catch (error) {
      return { kind: 'unreached', reason: unreachedReason(error, signal.aborted) };
    }
  };
}

export function unreachedReason(error: unknown, timedOut: boolean): string {
  const forbidden = egressRefusalIn(error)?.facts['reason'];
  if (timedOut) return 'timed out';
  return forbidden === undefined
    ? `could not be reached (${networkCodeOf(error) ?? 'error'})`
    : `was not contacted (EGRESS_FORBIDDEN): its host ${String(forbidden)}`;
}

/** DER of an Ed25519 private key (RFC 8410 §7) up to its 32 bytes. */
const ED25519_PREFIX = Buffer.from('302e020100300506032b657004220420', 'hex');

function signerOf(secret: string): (text: string) => string {
  const bytes = Buffer.from(secret.replace(/^wh(?:sec|sk)_/, ''), 'base64');
  if (!secret.startsWith('whsk_')) return (text) => `v1,${createHmac('sha256', bytes).update(text).digest('base64')}`;
  // Some tools write the public key behind the private one.
  const der = Buffer.concat([ED25519_PREFIX, bytes.subarray(0, 32)]);
  const key = createPrivateKey({ key: der, format: 'der', type: 'pkcs8' });
  return (text) => `v1a,${signWith(null, Buffer.from(text), key).toString('base64')}`;
}
