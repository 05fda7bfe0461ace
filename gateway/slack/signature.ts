/**
 * Verifies that Slack has sent a request: HMAC-SHA256 under the signing secret of the app, over the time and the body as
 * it came (https://docs.slack.dev/authentication/verifying-requests-from-slack, version v0).
 *
 * 1. Nothing of a body is read before its signature holds.
 * 2. A request older or newer than five minutes is refused: somebody may have kept it.
 */
import { createHmac, timingSafeEqual } from 'node:crypto';
import { CountersignError } from '../../contracts/errors.ts';

const MOST_AWAY_SECONDS = 300;

export interface SlackSigned {
  /** Header `X-Slack-Request-Timestamp`, seconds since the epoch. */
  readonly timestamp: unknown;
  /** Header `X-Slack-Signature`. */
  readonly signature: unknown;
  readonly body: string;
}

/**
 * @param now epoch ms
 * @throws CountersignError `SIGNATURE_MISSING`, `SIGNATURE_INVALID`, `SIGNATURE_EXPIRED`
 */
export function assertFromSlack({ timestamp, signature, body }: SlackSigned, secret: string, now: number): void {
  if (typeof timestamp !== 'string' || typeof signature !== 'string')
    throw new CountersignError(
      'SIGNATURE_MISSING',
      'The request has no signature of Slack (X-Slack-Signature, X-Slack-Request-Timestamp). Nothing was changed.',
    );
  const own = Buffer.from(`v0=${createHmac('sha256', secret).update(`v0:${timestamp}:${body}`).digest('hex')}`);
  const given = Buffer.from(signature);
  if (own.length !== given.length || !timingSafeEqual(own, given))
    throw new CountersignError(
      'SIGNATURE_INVALID',
      'The signature is not one of Slack for this request under gateway.slack.signingSecret. Nothing was changed.',
    );
  // The time is signed, so it is compared after the signature.
  if (!/^\d{1,12}$/.test(timestamp) || Math.abs(now / 1_000 - Number(timestamp)) > MOST_AWAY_SECONDS)
    throw new CountersignError(
      'SIGNATURE_EXPIRED',
      'Slack signed this request more than five minutes ago, or the clocks differ. Nothing was changed.',
    );
}
