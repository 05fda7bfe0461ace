/**
 * Tells by mail, over SMTP, in plain text.
 *
 * 1. The address of the server is judged as every request is (`activities/egress/fetch.ts`), and the connection goes to
 *    the address that was judged. A password goes out over TLS alone, or to this machine.
 * 2. `Message-ID` is made of the message's id: each try has the same, and mail stores show one. Later mails about a
 *    request refer to the first.
 * 3. Everybody gets the same text. Who closed a request is not told that it is closed.
 */
import nodemailer, { type Transporter } from 'nodemailer';
import type { MailChannel } from '../../contracts/schemas/channels.ts';
import type { Egress } from '../egress/fetch.ts';
import { unreachedReason } from '../egress/webhook.ts';
import { type Fields, isFields } from '../../domain/shapes/inputs.ts';
import { networkCodeOf } from '../kit/network.ts';
import { ownValue } from '../kit/json.ts';
import { headingOf, linesOf, type Message, type MessageChannel, refusedBy, toolOf, undelivered } from './port.ts';

export function createMailChannel(name: string, channel: MailChannel, egress: Egress): MessageChannel {
  const domain = channel.from.slice(channel.from.lastIndexOf('@') + 1).replace(/>$/, '');
  return {
    send: async (message) => {
      const to = recipientsOf(message, channel);
      if (to.length === 0) {
        if (message.event === 'closed') return {};
        throw refusedBy(name, 'knows no address of anybody who is to be told (people, groups, to)');
      }
      const messageId = `<${message.id}@${domain}>`;
      const { thread = messageId } = message;
      const transport = transportTo(await addressOf(name, channel, egress), channel, domain);
      try {
        await transport.sendMail({
          from: channel.from,
          to: [...to],
          subject: subjectOf(message),
          text: textOf(message),
          messageId,
          ...(thread === messageId ? {} : { inReplyTo: thread, references: thread }),
          headers: { 'Auto-Submitted': 'auto-generated', 'X-Auto-Response-Suppress': 'All' },
        });
      } catch (error) {
        throw failureOf(name, error);
      } finally {
        transport.close();
      }
      return { thread };
    },
  };
}

/** Returns addresses, each once. A person or a group without an address is left out. */
function recipientsOf({ to, requests }: Message, channel: MailChannel): readonly string[] {
  const closers = new Set(requests.map(({ closed }) => closed?.by));
  const [closer] = closers;
  const skipped = closers.size === 1 && closer !== undefined ? ownValue(channel.people, closer) : undefined;
  const found = [
    ...channel.to,
    ...to.ids.flatMap((id) => ownValue(channel.people, id) ?? []),
    ...to.groups.flatMap((group) => ownValue(channel.groups, group) ?? []),
  ];
  return [...new Set(found)].filter((address) => address !== skipped);
}

async function addressOf(name: string, { host }: MailChannel, egress: Egress): Promise<string> {
  try {
    return await egress.address(`notify.channels.${name}.host`, host);
  } catch (error) {
    throw undelivered(name, unreachedReason(error, false));
  }
}

/** @param address the one that was judged; TLS is checked against the name */
function transportTo(address: string, channel: MailChannel, domain: string): Transporter {
  const { host, port, tls, user, password, timeoutSeconds } = channel;
  const timeout = timeoutSeconds * 1_000;
  return nodemailer.createTransport({
    host: address,
    port,
    secure: tls === 'implicit',
    requireTLS: tls === 'starttls',
    ignoreTLS: tls === 'none',
    tls: { servername: host },
    name: domain,
    ...(user === undefined ? {} : { auth: { user, pass: password ?? '' } }),
    connectionTimeout: timeout,
    greetingTimeout: timeout,
    socketTimeout: timeout,
    disableFileAccess: true,
    disableUrlAccess: true,
  });
}

/** What the server says is not quoted: it may name people. */
function failureOf(name: string, error: unknown): Error {
  const { responseCode, code }: Fields = isFields(error) ? error : {};
  if (typeof responseCode !== 'number')
    return undelivered(
      name,
      `could not be reached (${networkCodeOf(error) ?? (typeof code === 'string' ? code : 'error')})`,
    );
  return responseCode >= 500
    ? refusedBy(name, `answered ${responseCode}`)
    : undelivered(name, `answered ${responseCode}`);
}

/** The subject of a request stays the same but for its beginning, so that mail programs keep the thread. */
function subjectOf(message: Message): string {
  const [first, ...others] = message.requests;
  const about = first === undefined || others.length > 0 ? '' : `: ${toolOf(first)}`;
  return `${headingOf(message)}${about}`.slice(0, 200);
}

function textOf(message: Message): string {
  const parts = message.requests.map((request) =>
    [
      toolOf(request),
      ...linesOf(message, request).map(([field, value]) => `  ${field}: ${value}`),
      ...(request.url === undefined ? [] : [`  ${request.url}`]),
    ].join('\n'),
  );
  const more = message.more === undefined ? [] : [`and ${message.more} more`];
  return `${[`${headingOf(message)}.`, ...parts, ...more, FOOTER].join('\n\n')}\n`;
}

const FOOTER =
  'This mail gives nobody a right. Decide on the page or with countersign; answers to this mail are not read.';
