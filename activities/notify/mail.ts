/**
 * Tells by mail, over SMTP, in plain text.
 *
 * 1. The address of the server is judged as every request is (`activities/egress/fetch.ts`), and the connection goes to
 *    the address that was judged. A password goes out over TLS alone, or to this machine.
 * 2. `Message-ID` is made of the message's id: each try has the same, and mail stores show one. Later mails about a
 *    request refer to the first.
 * 3. Who took a mail does not get it again by this worker, because others did not. A mail that was sent whole, and
 *    whose answer did not come, is sent once more by this worker and not for an hour.
 * 4. A try ends with its connection before Temporal begins another: a slow server does not take each of them.
 * 5. Everybody gets the same text. Who closed a request is not told that it is closed.
 */
import { LRUCache } from 'lru-cache';
import nodemailer, { type Transporter } from 'nodemailer';
import { z } from 'zod';
import type { MailChannel } from '../../contracts/schemas/channels.ts';
import type { Egress } from '../egress/fetch.ts';
import { unreachedReason } from '../egress/webhook.ts';
import { type Compared, isSamePerson } from '../../domain/policy/approvers.ts';
import type { Fields } from '../../domain/shapes/inputs.ts';
import { networkCodeOf } from '../kit/network.ts';
import { fieldsOf, ownValue, textOf } from '../kit/json.ts';
import {
  headingOf,
  linesOf,
  type Message,
  type MessageChannel,
  refusedBy,
  toolOf,
  undelivered,
  valueOf,
} from './port.ts';

/** Time for which a server may be silent, as when it looks through a mail. */
const ANSWER_MS = 45_000;
/** Time of one try. Temporal begins another after 60 s, whatever became of this one. */
const TRY_MS = 50_000;
/** Messages of which this worker knows who took them, and how they failed. */
const MOST_REMEMBERED = 1_000;

/** One function, because each try reads and writes what the channel remembers of the tries before it. */
export function createMailChannel(
  name: string,
  channel: MailChannel,
  egress: Egress,
  compared: Compared = {},
  tryMs = TRY_MS,
): MessageChannel {
  /** By message: who took it while others did not. */
  const taken = new LRUCache<string, readonly string[]>({ max: MOST_REMEMBERED });
  /** Messages that were sent whole and got no answer. */
  const unanswered = new LRUCache<string, true>({ max: MOST_REMEMBERED });
  const domain = channel.from.slice(channel.from.lastIndexOf('@') + 1).replace(/>$/, '');
  return {
    send: async (message) => {
      const { to, isForNobody } = recipientsOf(message, channel, compared);
      if (isForNobody) return {};
      if (to.length === 0) throw refusedBy(name, 'knows no address of anybody who is to be told (people, groups, to)');
      const messageId = `<${message.id}@${domain}>`;
      const { thread = messageId } = message;
      const before = taken.get(message.id) ?? [];
      const left = to.filter((address) => !before.includes(address));
      const signal = AbortSignal.timeout(tryMs);
      const transport = transportTo(await addressOf(name, channel, egress), channel, domain);
      const isWhole = watched(transport);
      let rejected: z.infer<typeof Rejected>;
      try {
        const info: Fields = await transport.sendMail({
          from: channel.from,
          to: left,
          subject: subjectOf(message),
          text: bodyOf(message),
          messageId,
          ...(thread === messageId ? {} : { inReplyTo: thread, references: thread }),
          signal,
          headers: { 'Auto-Submitted': 'auto-generated', 'X-Auto-Response-Suppress': 'All' },
        });
        rejected = Rejected.parse(info['rejectedErrors']);
      } catch (error) {
        if (isWhole() && !isAnswer(error)) {
          if (unanswered.has(message.id))
            throw refusedBy(name, 'had the whole mail twice and did not answer; it may have arrived');
          unanswered.set(message.id, true);
        }
        throw signal.aborted ? undelivered(name, 'timed out') : failureOf(name, error);
      } finally {
        transport.close();
      }
      if (rejected.length === 0) {
        taken.delete(message.id);
        return { thread };
      }
      const others = new Set(rejected.map(({ recipient }) => recipient));
      taken.set(message.id, [...before, ...left.filter((address) => !others.has(address))]);
      const reason = `took the mail for ${to.length - others.size} of ${to.length} addresses`;
      throw rejected.some(({ responseCode }) => responseCode < 500)
        ? undelivered(name, reason)
        : refusedBy(name, reason);
    },
  };
}

/**
 * Returns addresses, each once. A person or a group without an address is left out. A message is for nobody if only who
 * closed the requests would hear that they are closed.
 */
function recipientsOf({ to, requests }: Message, channel: MailChannel, compared: Compared) {
  const closers = new Set(requests.map(({ closed }) => closed?.by));
  const [only] = closers;
  const closer = closers.size === 1 ? only : undefined;
  const ids = to.ids.filter((id) => closer === undefined || !isSamePerson(compared, id, closer));
  const found = [
    ...channel.to,
    ...ids.flatMap((id) => valueOf(compared, channel.people, id) ?? []),
    ...to.groups.flatMap((group) => ownValue(channel.groups, group) ?? []),
  ];
  const skipped = closer === undefined ? undefined : valueOf(compared, channel.people, closer);
  const others = [...new Set(found)].filter((address) => address !== skipped);
  const isWanted = found.length > 0 ? others.length > 0 : ids.length + to.groups.length > 0 || closer === undefined;
  return { to: others, isForNobody: !isWanted };
}

const Rejected = z.array(z.object({ recipient: z.coerce.string(), responseCode: z.number().catch(0) })).catch([]);

/** Returns a function that tells whether the whole mail has been written to the server. */
function watched(transport: Transporter): () => boolean {
  let isWhole = false;
  transport.use('stream', (mail, done) => {
    // It is made before the server wants it. It is read, and comes to its end, when the server does.
    mail.message.processFunc((output) => output.once('end', () => (isWhole = true)));
    done();
  });
  return () => isWhole;
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
    socketTimeout: ANSWER_MS,
    disableFileAccess: true,
    disableUrlAccess: true,
  });
}

function isAnswer(error: unknown): boolean {
  return typeof fieldsOf(error)['responseCode'] === 'number';
}

/** Errors leave out the server's own words, which may name people. */
function failureOf(name: string, error: unknown): Error {
  const { responseCode, code, originalCode } = fieldsOf(error);
  // Nodemailer calls every failed connection ESOCKET, and keeps the code that Node gave it.
  if (typeof responseCode !== 'number')
    return undelivered(
      name,
      `could not be reached (${textOf(originalCode) || networkCodeOf(error) || textOf(code) || 'error'})`,
    );
  return responseCode >= 500
    ? refusedBy(name, `answered ${responseCode}`)
    : undelivered(name, `answered ${responseCode}`);
}

/** The subject of a request stays the same but for its beginning, so that mail programs keep the thread. */
function subjectOf(message: Message): string {
  const [first, ...others] = message.requests;
  const about = first === undefined || others.length > 0 ? '' : `: ${unlinked(toolOf(first))}`;
  return `${headingOf(message)}${about}`.slice(0, 200);
}

function bodyOf(message: Message): string {
  const parts = message.requests.map((request) =>
    [
      unlinked(toolOf(request)),
      ...linesOf(message, request).map(([field, value]) => `  ${field}: ${unlinked(value)}`),
      ...(request.url === undefined ? [] : [`  ${request.url}`]),
    ].join('\n'),
  );
  const more = message.more === undefined ? [] : [`and ${message.more} more`];
  return `${[`${headingOf(message)}.`, ...parts, ...more, FOOTER].join('\n\n')}\n`;
}

/** Mail programs make links of addresses in plain text. */
function unlinked(text: string): string {
  return text.replaceAll('://', ': //');
}

const FOOTER =
  'This mail gives nobody a right. Decide on the page or with countersign; answers to this mail are not read.';
