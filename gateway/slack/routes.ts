/**
 * The route to which Slack sends the press of a button, and how it is known that Slack has sent it: HMAC-SHA256 under
 * the signing secret of the app, over the time and the body as it came
 * (https://docs.slack.dev/authentication/verifying-requests-from-slack, version v0).
 *
 * 1. Nothing of a body is read before its signature holds.
 * 2. A request older or newer than five minutes is refused: somebody may have kept it.
 * 3. It is not part of the API's document: only Slack can call it.
 */
import { createHmac, timingSafeEqual } from 'node:crypto';
import type { FastifyInstance } from 'fastify';
import { CountersignError } from '../../contracts/errors.ts';
import type { SlackConfig } from '../../contracts/schemas/gateway.ts';
import type { Presses } from './presses.ts';

export function registerSlack(
  app: FastifyInstance,
  { signingSecret }: Pick<SlackConfig, 'signingSecret'>,
  presses: Pick<Presses, 'take'>,
): void {
  // The signature is over the bytes as they came.
  app.addContentTypeParser('application/x-www-form-urlencoded', { parseAs: 'string' }, (_request, body, done) =>
    done(null, body),
  );
  app.post(
    '/v1/slack/actions',
    { config: { isOpen: true, countsRefusals: true }, schema: { hide: true } },
    async ({ headers, body }, reply) => {
      const text = typeof body === 'string' ? body : '';
      const { 'x-slack-request-timestamp': timestamp, 'x-slack-signature': signature } = headers;
      assertFromSlack({ timestamp, signature, body: text }, signingSecret, Date.now());
      presses.take(new URLSearchParams(text).get('payload') ?? '');
      return await reply.status(200).send();
    },
  );
}

const MOST_AWAY_SECONDS = 300;

export interface SlackSigned {
  /** Header `X-Slack-Request-Timestamp`, seconds since the epoch. */
  readonly timestamp: unknown;
  /** Header `X-Slack-Signature`. */
  readonly signature: unknown;
  readonly body: string;
}

/** @param now epoch ms. @throws CountersignError `SIGNATURE_MISSING`, `SIGNATURE_INVALID`, `SIGNATURE_EXPIRED` */
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
