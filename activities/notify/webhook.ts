/**
 * Tells by one POST, signed as Standard Webhooks 1.0 says; the body is `WebhookMessage`.
 *
 * 1. `webhook-id` is the message's id. A receiver keeps ids for as long as it wants to know repetitions.
 * 2. 410 and other final statuses end the message; every other answer is tried again, after `Retry-After` if there is
 *    one.
 */
import type { WebhookChannel } from '../../contracts/schemas/channels.ts';
import type { WebhookMessage } from '../../contracts/schemas/notify-message.ts';
import { canonicalJson } from '../../domain/text/canonical.ts';
import { visible } from '../../domain/text/escape.ts';
import { defined } from '../../contracts/defined.ts';
import type { Egress } from '../egress/fetch.ts';
import { createSignedPost } from '../egress/webhook.ts';
import { assertTaken, type LinkedRequest, type Message, type MessageChannel, undelivered } from './port.ts';

export function createWebhookChannel(name: string, receiver: WebhookChannel, egress: Egress): MessageChannel {
  const post = createSignedPost({ ...receiver, what: `notify.channels.${name}.url` }, egress);
  return {
    send: async (message) => {
      const answer = await post(message.id, canonicalJson(bodyOf(message)));
      if (answer.kind === 'unreached') throw undelivered(name, answer.reason);
      assertTaken(name, answer.status, answer.retryAfterMs);
      return {};
    },
  };
}

function bodyOf({ single, to, requests, more }: Message): WebhookMessage {
  const whom = { ids: [...to.ids], groups: [...to.groups] };
  if (single === undefined) {
    const told = requests.map((request) => ({ ...ofRun(request), ...shown(request) }));
    return { type: 'requests.digest', data: { to: whom, requests: told, ...defined({ more }) } };
  }
  const { event, ...of } = ofRun(single);
  return {
    type: `request.${event}`,
    data: { ...of, to: whom, requests: requests.map(shown), ...defined({ more }) },
  };
}

type DigestedRequest = Extract<WebhookMessage, { type: 'requests.digest' }>['data']['requests'][number];
type ShownRequest = Omit<DigestedRequest, keyof ReturnType<typeof ofRun>>;

function ofRun({ event, run: { namespace, workflowId, initiator } }: Pick<LinkedRequest, 'event' | 'run'>) {
  return { event, namespace, run: workflowId, tenant: initiator.tenant, initiator: initiator.id };
}

/** Characters that hide or turn text are written out, wherever the receiver shows it. */
function shown({ event: _, run: __, rules, explain, because, ...request }: LinkedRequest): ShownRequest {
  return {
    ...request,
    server: visible(request.server),
    tool: visible(request.tool),
    arguments: visible(request.arguments),
    rules: [...rules],
    ...defined({ explain: explain?.map(visible), because: because && visible(because) }),
  };
}
