/** Receives messages to people over HTTP, as `docs/guide/messages.md` tells receivers to do: signature, id, body. */
import { createHmac, timingSafeEqual } from 'node:crypto';
import type { IncomingHttpHeaders, IncomingMessage, ServerResponse } from 'node:http';
import { WebhookMessage } from '../../../contracts/schemas/notify-message.ts';
import { bodyOf, listenOnLoopback } from './loopback-server.ts';

export const MESSAGE_SECRET = `whsec_${Buffer.from('a secret of the message channel').toString('base64')}`;

export interface ReceivedMessage {
  readonly id: string;
  readonly headers: IncomingHttpHeaders;
  readonly body: string;
  readonly message: SingleMessage;
}

/** A message of one run. */
type SingleMessage = Exclude<WebhookMessage, { readonly type: 'requests.digest' }>;
export type DigestMessage = Extract<WebhookMessage, { readonly type: 'requests.digest' }>;

export interface ReceivedDigest extends Omit<ReceivedMessage, 'message'> {
  readonly message: DigestMessage;
  /** False if it was answered in another way; see `answer`. */
  readonly isTaken: boolean;
}

export interface MessageReceiver {
  readonly url: string;
  /** Each try that came with a valid signature. */
  readonly received: readonly ReceivedMessage[];
  /** Each try of a digest, whatever it was answered. */
  readonly digests: readonly ReceivedDigest[];
  /** Tries that were answered in another way; see `answer`. */
  readonly turnedAway: readonly ReceivedMessage[];
  /** Returns the messages about a run, each id once. */
  of(run: string): readonly ReceivedMessage[];
  /** Answers in this way instead, until it is called without an argument. */
  answer(instead?: (request: IncomingMessage, response: ServerResponse) => void): void;
  close(): Promise<void>;
}

export async function startMessageReceiver(secret = MESSAGE_SECRET): Promise<MessageReceiver> {
  const key = Buffer.from(secret.slice('whsec_'.length), 'base64');
  const received: ReceivedMessage[] = [];
  const turnedAway: ReceivedMessage[] = [];
  const digests: ReceivedDigest[] = [];
  let instead: Parameters<MessageReceiver['answer']>[0];
  const server = await listenOnLoopback((request, response) => {
    void bodyOf(request).then((body) => {
      const { headers } = request;
      const id = String(headers['webhook-id']);
      const signed = `${id}.${String(headers['webhook-timestamp'])}.${body}`;
      const expected = Buffer.from(`v1,${createHmac('sha256', key).update(signed).digest('base64')}`);
      const given = Buffer.from(String(headers['webhook-signature']));
      if (given.length !== expected.length || !timingSafeEqual(given, expected)) return response.writeHead(401).end();
      const message = WebhookMessage.parse(JSON.parse(body));
      const isTaken = instead === undefined;
      if (message.type === 'requests.digest') digests.push({ id, headers, body, message, isTaken });
      else (isTaken ? received : turnedAway).push({ id, headers, body, message });
      return instead === undefined ? response.writeHead(204).end() : instead(request, response);
    });
  });
  return {
    url: `${server.origin}/messages?for=tests`,
    received,
    digests,
    turnedAway,
    of: (run) => [
      ...new Map(received.filter(({ message }) => message.data.run === run).map((each) => [each.id, each])).values(),
    ],
    answer: (given) => {
      instead = given;
    },
    close: server.close,
  };
}
