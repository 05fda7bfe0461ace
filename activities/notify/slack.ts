/**
 * Tells in Slack, in blocks: by `chat.postMessage` with a bot's token, or by an incoming webhook.
 *
 * 1. Text of models and servers goes into `plain_text` objects, in which nothing is markup, a mention or a link.
 *    Mentions are made of configured member ids alone.
 * 2. With a token, later messages about a request go into the thread of the first one. A message that may have arrived
 *    before is looked for by its id, which stands in its metadata; without the scope to look, it is posted again.
 * 3. Buttons bind the digest that the message shows, and carry no right: who presses them is asked by the gateway
 *    (`gateway/slack/`). Approve stands only under a request whose arguments are all shown.
 * 4. The message that tells of a decision takes its buttons out of the thread, if the bot may read there. Where it may
 *    not, or Slack does not answer, they stay: a press is then told who decided.
 * 5. An incoming webhook knows neither threads nor ids: there a message whose try was cut off may come twice.
 */
import { z } from 'zod';
import { defined } from '../../contracts/defined.ts';
import { SLACK_ACTIONS, SlackButton } from '../../contracts/schemas/notify-message.ts';
import type { SlackChannel, SlackWebhookChannel } from '../../contracts/schemas/channels.ts';
import { type Fields, isFields } from '../../domain/shapes/inputs.ts';
import { bounded } from '../../domain/text/escape.ts';
import type { Egress, GuardedFetch } from '../egress/fetch.ts';
import { unreachedReason } from '../egress/webhook.ts';
import { fieldsOf, ownValue, parsedJson } from '../kit/json.ts';
import { retryAfterOf } from '../kit/network.ts';
import { deadlineIn } from '../kit/time-limit.ts';
import type { Compared } from '../../domain/policy/approvers.ts';
import {
  assertTaken,
  closedWords,
  headingOf,
  linesOf,
  type LinkedRequest,
  type Message,
  type MessageChannel,
  refusedBy,
  toolOf,
  undelivered,
  valueOf,
} from './port.ts';

/** Messages of a page of a channel that is read. */
const MOST_LOOKED_AT = 50;
/** Bytes of such a page: Slack keeps 40,000 characters of a message, of which each may take six bytes. */
const MOST_BYTES = 16_777_216;
/** Slack takes 50 blocks, and 3,000 characters in the text of one. What breaks a limit is refused as a whole. */
const MOST_REQUESTS = 12;
const TEXT_CHARACTERS = 2_900;
/**
 * Slack refuses messages whose blocks have too many characters together, and counts about 100 for each block. No page
 * of it says so; messages have been refused at 13,200 and at 11,341 (slackapi/bolt-js#2509, #2867).
 */
const MOST_CHARACTERS = 10_000;
const BLOCK_CHARACTERS = 100;
/** Limits of the text of a header, and of what is asked once more behind a button. */
const HEADER_CHARACTERS = 150;
const CONFIRM_CHARACTERS = 300;
/** Room for the words with which `bounded` says what is missing. */
const MARK_CHARACTERS = 30;
/** A mention has at most 35 characters. */
const MOST_MENTIONS = 80;
/**
 * Time for what is asked before a post, and after it. With the post, which may take 30 s, it must be over before
 * Temporal begins another try, after 60 s: that one would post again.
 */
const ASIDE_MS = 10_000;
/** A message is tried for an hour. */
const LOOK_BACK_SECONDS = 7_200;

export function createSlackChannel(
  name: string,
  channel: SlackChannel,
  egress: Egress,
  compared: Compared = {},
  asideMs = ASIDE_MS,
): MessageChannel {
  const what = `notify.channels.${name}.apiUrl`;
  const { fetch } = egress.outlet({ what, to: [channel.apiUrl], maxBytes: MOST_BYTES });
  const url = channel.apiUrl.replace(/\/$/, '');
  const ask: Ask = async (method, body, end) =>
    fieldsOf(parsedJson(await asked(name, fetch, `${url}/${method}`, body, channel, end)));
  const aside = (): Ask => {
    const end = deadlineIn(asideMs);
    return async (method, body) => await ask(method, body, end);
  };
  return {
    hasButtons: channel.buttons,
    send: async (message) => {
      // Whoever cannot look posts: a message that comes twice is better than one that does not come.
      const known = message.repeated
        ? await found(aside(), channel.channel, message).catch(() => undefined)
        : undefined;
      const ts = known ?? (await posted(name, ask, channel, message, compared));
      // The message has come, now or by an earlier try; what else fails is no reason to send it again.
      if (channel.buttons) await withoutButtons(aside(), channel.channel, message).catch(() => undefined);
      const thread = message.thread ?? ts;
      return typeof thread === 'string' ? { thread } : {};
    },
  };
}

const EVENT_TYPE = 'countersign_message';

type Ask = (method: string, body: Fields | URLSearchParams, end?: AbortSignal) => Promise<Fields>;

/** Posts a message. @returns its `ts` */
async function posted(
  name: string,
  ask: Ask,
  channel: SlackChannel,
  message: Message,
  compared: Compared,
): Promise<unknown> {
  const answer = await ask('chat.postMessage', {
    channel: channel.channel,
    ...contentOf(message, channel, compared),
    ...defined({ thread_ts: message.thread }),
    unfurl_links: false,
    unfurl_media: false,
    metadata: { event_type: EVENT_TYPE, event_payload: { id: message.id } },
  });
  if (answer['ok'] === true) return answer['ts'];
  if (answer['ok'] !== false) throw answeredByOther(name);
  throw refusalOf(name, answer['error']);
}

const Posted = z.object({
  ts: z.string(),
  text: z.unknown(),
  blocks: z.array(z.unknown()).default([]),
  metadata: z.object({ event_type: z.literal(EVENT_TYPE), event_payload: z.object({ id: z.string() }) }),
});

function postedIn({ messages }: Fields): readonly z.infer<typeof Posted>[] {
  return Array.isArray(messages) ? messages.flatMap((each) => Posted.safeParse(each).data ?? []) : [];
}

/**
 * Looks for a message that an earlier try may have posted. Slack's reading methods take forms alone.
 * @returns its `ts`
 */
async function found(ask: Ask, channel: string, { id, thread }: Message): Promise<string | undefined> {
  const oldest = String(Math.floor(Date.now() / 1_000) - LOOK_BACK_SECONDS);
  const page = { channel, limit: String(MOST_LOOKED_AT), include_all_metadata: 'true', oldest };
  const answer = await (thread === undefined
    ? ask('conversations.history', new URLSearchParams(page))
    : ask('conversations.replies', new URLSearchParams({ ...page, ts: thread })));
  return postedIn(answer).find(({ metadata }) => metadata.event_payload.id === id)?.ts;
}

/** Takes the buttons of closed requests out of all messages of their thread that we have posted. */
async function withoutButtons(ask: Ask, channel: string, { thread, requests }: Message): Promise<void> {
  const closed = requests.filter((request) => request.closed !== undefined);
  if (thread === undefined || closed.length === 0) return;
  const page = { channel, ts: thread, limit: String(MOST_LOOKED_AT), include_all_metadata: 'true' };
  const answer = await ask('conversations.replies', new URLSearchParams(page));
  for (const { ts, text, blocks: before } of postedIn(answer)) {
    const blocks = before.map((block) => {
      const pressed = pressIn(block);
      const request = closed.find(({ callId, run }) => pressed?.run === run.workflowId && pressed.callId === callId);
      return request === undefined ? block : context(escaped(closedWords(request)));
    });
    if (blocks.some((block, index) => block !== before[index])) await ask('chat.update', { channel, ts, text, blocks });
  }
}

/** What the buttons of a block answer; undefined if they are not ours, or there are none. */
function pressIn(block: unknown): SlackButton | undefined {
  const elements = Actions.safeParse(block).data?.elements ?? [];
  return elements.flatMap(({ value }) => SlackButton.safeParse(parsedJson(value)).data ?? [])[0];
}

const Actions = z.object({
  type: z.literal('actions'),
  elements: z.array(z.object({ value: z.string().catch('') })),
});

export function createSlackWebhookChannel(
  name: string,
  channel: SlackWebhookChannel,
  egress: Egress,
  compared: Compared = {},
): MessageChannel {
  const what = `notify.channels.${name}.webhookUrl`;
  const { fetch } = egress.outlet({ what, to: [channel.webhookUrl], maxBytes: MOST_BYTES });
  return {
    send: async (message) => {
      const text = await asked(name, fetch, channel.webhookUrl, contentOf(message, channel, compared), channel);
      // Slack answers `ok`. Other services that take its messages answer in words of their own, and proxies by a page.
      if (text.trimStart().startsWith('<')) throw answeredByOther(name);
      const { ok, error } = fieldsOf(parsedJson(text));
      if (ok === false) throw refusalOf(name, error);
      return {};
    },
  };
}

/** Posts JSON or a form, and returns the text of the answer. */
async function asked(
  name: string,
  fetch: GuardedFetch,
  url: string,
  body: Fields | URLSearchParams,
  { timeoutSeconds, ...channel }: { readonly timeoutSeconds: number; readonly token?: string },
  end?: AbortSignal,
): Promise<string> {
  const own = deadlineIn(timeoutSeconds * 1_000);
  const signal = end === undefined ? own : AbortSignal.any([own, end]);
  const bearer = channel.token === undefined ? {} : { authorization: `Bearer ${channel.token}` };
  const isForm = body instanceof URLSearchParams;
  const type = isForm ? 'application/x-www-form-urlencoded' : 'application/json; charset=utf-8';
  const headers = { 'content-type': type, 'user-agent': 'countersign', ...bearer };
  const unreached = (error: unknown): never => {
    throw undelivered(name, unreachedReason(error, signal.aborted));
  };
  const content = isForm ? body.toString() : JSON.stringify(body);
  const answer = await fetch(url, { method: 'POST', headers, body: content, signal }).catch(unreached);
  const text = await answer.text().catch(unreached);
  assertTaken(name, answer.status, retryAfterOf(answer));
  return text;
}

/** Something before Slack may answer in its place, and for a moment. */
function answeredByOther(name: string): Error {
  return undelivered(name, 'answered without an answer of Slack');
}

/** Errors of Slack's API that may pass. */
const PASSING: ReadonlySet<string> = new Set([
  'ratelimited',
  'rate_limited',
  'internal_error',
  'fatal_error',
  'request_timeout',
  'service_unavailable',
  // The workspace moves, and the API comes and goes until it has.
  'team_added_to_org',
]);

/** The code is one of Slack's list; anything else is not quoted. */
function refusalOf(name: string, error: unknown): Error {
  const code = typeof error === 'string' && /^[a-z_]{1,40}$/.test(error) ? error : 'an error';
  return PASSING.has(code) ? undelivered(name, `answered ${code}`) : refusedBy(name, `answered ${code}`);
}

type Mentions = Pick<SlackChannel, 'people' | 'groups'>;

function contentOf(message: Message, mentions: Mentions, compared: Compared): Fields {
  const who = mentionsOf(message, mentions, compared);
  const shown = fitting(message, MOST_CHARACTERS - who.length);
  const more = message.requests.length - shown.length + (message.more ?? 0);
  const [first] = message.requests;
  const heading = headingOf(message);
  const about = first === undefined ? '' : `: ${toolOf(first)}`;
  return {
    text: escaped(bounded(`${heading}${about}`, 200)),
    blocks: [
      { type: 'header', text: plain(within(heading, HEADER_CHARACTERS)) },
      ...shown.flat(),
      ...(more === 0 ? [] : [context(`and ${more} more`)]),
      ...(who === '' ? [] : [context(who)]),
    ],
  };
}

/** Returns the blocks of the first requests: as many as there is room for, and one in any case. */
function fitting(message: Message, room: number): readonly (readonly Fields[])[] {
  const shown: (readonly Fields[])[] = [];
  let left = room;
  for (const request of message.requests.slice(0, MOST_REQUESTS)) {
    const lines = linesOf(message, request).map(([field, value]) => `${field}: ${value}`);
    const text = [toolOf(request), ...lines].join('\n');
    const blocks = [
      { type: 'section', text: plain(bounded(text, TEXT_CHARACTERS)) },
      ...answersOf(request, text.length <= TEXT_CHARACTERS),
    ];
    left -= charactersIn(blocks) + blocks.length * BLOCK_CHARACTERS;
    if (left < 0 && shown.length > 0) break;
    shown.push(blocks);
  }
  return shown;
}

/** Counts the characters of all texts, also of those behind a button. */
function charactersIn(content: unknown): number {
  if (Array.isArray(content)) return content.reduce((sum: number, each) => sum + charactersIn(each), 0);
  if (!isFields(content)) return 0;
  const { text, ...others } = content;
  return (typeof text === 'string' ? escaped(text).length : charactersIn(text)) + charactersIn(Object.values(others));
}

/** Slack takes so many characters as the value of a button. */
const VALUE_CHARACTERS = 2_000;

/** Buttons and link of a request. @param isUncut true if the text above them is all there */
function answersOf(request: LinkedRequest, isUncut: boolean): Fields[] {
  const { run, url, callId, answerable } = request;
  const link = url === undefined ? [] : [`<${escaped(url)}|Open the request>`];
  const value = answerable && valueFor({ run: run.workflowId, callId, ...answerable });
  if (value === undefined) return link.map((text) => context(text));
  const button = (kind: keyof typeof SLACK_ACTIONS, label: string, style: string): Fields => ({
    type: 'button',
    action_id: SLACK_ACTIONS[kind],
    text: plain(label),
    style,
    value,
    confirm: {
      title: plain(`${label} this call?`),
      text: plain(within(`${toolOf(request)}, call ${callId}`, CONFIRM_CHARACTERS)),
      confirm: plain(label),
      deny: plain('Cancel'),
    },
  });
  const reject = button('reject', 'Reject', 'danger');
  if (answerable?.isWhole === true && isUncut)
    return [actions(button('approve', 'Approve', 'primary'), reject), ...link.map((text) => context(text))];
  return [actions(reject), context(...link, 'Not all arguments are shown here. To approve, open the request.')];
}

/** Undefined if Slack would not take so much. */
function valueFor({ run, callId, digest, runId }: SlackButton): string | undefined {
  const value = JSON.stringify({ run, callId, digest, runId } satisfies SlackButton);
  return value.length > VALUE_CHARACTERS ? undefined : value;
}

function actions(...elements: readonly Fields[]): Fields {
  return { type: 'actions', elements };
}

function mentionsOf({ to }: Message, { people, groups }: Mentions, compared: Compared): string {
  const all = [
    ...to.groups.flatMap((group) => ownValue(groups, group) ?? []).map((group) => `<!subteam^${group}>`),
    ...to.ids.flatMap((id) => valueOf(compared, people, id) ?? []).map((member) => `<@${member}>`),
  ];
  const more = all.length - MOST_MENTIONS;
  return [...all.slice(0, MOST_MENTIONS), ...(more > 0 ? [`and ${more} more`] : [])].join(' ');
}

/** Cuts so that the mark of the cut has room, too. */
function within(text: string, most: number): string {
  return text.length <= most ? text : bounded(text, most - MARK_CHARACTERS);
}

function plain(text: string): Fields {
  return { type: 'plain_text', text, emoji: false };
}

/** @param texts markup of ours */
function context(...texts: readonly string[]): Fields {
  return { type: 'context', elements: texts.map((text) => ({ type: 'mrkdwn', text })) };
}

/** Slack's three characters of control. */
function escaped(text: string): string {
  return text.replaceAll('&', '&amp;').replaceAll('<', '&lt;').replaceAll('>', '&gt;');
}
