/** The route to which Slack sends the press of a button. It is not part of the API's document: only Slack can call it. */
import type { FastifyInstance } from 'fastify';
import type { SlackConfig } from '../../contracts/schemas/gateway.ts';
import type { Presses } from './presses.ts';
import { assertFromSlack } from './signature.ts';

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
