/**
 * Speaks the parts of Slack's Web API and of incoming webhooks that messages use, in the shapes that Slack documents,
 * and says where a post breaks Slack's limits.
 */
import type { ServerResponse } from 'node:http';
import { type Fields, isFields } from '../../../domain/shapes/inputs.ts';
import { bodyOf, listenOnLoopback } from './loopback-server.ts';

export interface SlackPost {
  readonly body: Fields;
  readonly ts: string;
  readonly thread: string | undefined;
  /** The id in its metadata. */
  readonly id: string | undefined;
  /** Every text of it. */
  readonly texts: readonly string[];
}

type SlackState = 'busy' | 'refusing' | 'replaced' | 'well';

export interface SlackServer {
  readonly origin: string;
  readonly token: string;
  readonly posts: readonly SlackPost[];
  readonly problems: readonly string[];
  /** `replaced`: something before Slack answers in its place. */
  become(state: SlackState): void;
  /** Takes the next post, and breaks the connection off. */
  loseNextAnswer(): void;
  /** `silent`: what reads never gets an answer. */
  forbidReading(how?: 'limited' | 'silent'): void;
  close(): Promise<void>;
}

export async function startSlackServer(): Promise<SlackServer> {
  const token = 'xoxb-canary-token';
  const posts: SlackPost[] = [];
  const problems: string[] = [];
  let state: SlackState = 'well';
  let losesNext = false;
  let mayRead: boolean | 'limited' | 'silent' = true;
  const json = (response: ServerResponse, body: Fields): void => {
    response.writeHead(200, { 'content-type': 'application/json' }).end(JSON.stringify(body));
  };
  const server = await listenOnLoopback((request, response) => {
    void bodyOf(request).then((text) => {
      const { url = '' } = request;
      const isForm = request.headers['content-type'] === 'application/x-www-form-urlencoded';
      const body: unknown = isForm ? Object.fromEntries(new URLSearchParams(text)) : JSON.parse(text);
      if (!isFields(body)) return response.writeHead(400).end('invalid_payload');
      const isApi = url.startsWith('/api/');
      if (state === 'busy') return response.writeHead(429, { 'retry-after': '3' }).end('told to nobody');
      if (state === 'replaced') return response.writeHead(200, { 'content-type': 'text/html' }).end('<html>back soon');
      if (state === 'refusing' && !isApi) return response.writeHead(410).end('channel_is_archived');
      if (state === 'refusing') return json(response, { ok: false, error: 'is_archived' });
      if (isApi && request.headers.authorization !== `Bearer ${token}`)
        return json(response, { ok: false, error: 'invalid_auth' });
      if (url === '/api/conversations.history' || url === '/api/conversations.replies') {
        // Methods that read take no JSON.
        if (!isForm) return json(response, { ok: false, error: 'invalid_arguments' });
        if (mayRead === 'silent') return;
        if (mayRead === 'limited') return response.writeHead(429, { 'retry-after': '3' }).end();
        if (!mayRead) return json(response, { ok: false, error: 'missing_scope' });
        // Replies come with the message that they reply to.
        const isOfThread = ({ thread, ts }: SlackPost): boolean =>
          thread === body['ts'] || (url.endsWith('replies') && ts === body['ts']);
        const messages = posts.filter(isOfThread).map(({ ts, body: { text: words, blocks, metadata } }) => ({
          type: 'message',
          ts,
          text: words,
          blocks,
          metadata,
        }));
        return json(response, { ok: true, messages });
      }
      if (url === '/api/chat.update') {
        const at = posts.findIndex(({ ts }) => ts === body['ts']);
        const before = posts[at];
        if (before === undefined) return json(response, { ok: false, error: 'message_not_found' });
        // What an update does not name stays as it was.
        const after = { ...before, body: { ...before.body, ...body }, texts: textsIn(body) };
        problems.push(...problemsIn(after));
        posts[at] = after;
        return json(response, { ok: true, channel: body['channel'], ts: body['ts'] });
      }
      const post = postOf(body, posts.length);
      problems.push(...problemsIn(post));
      posts.push(post);
      if (losesNext) {
        losesNext = false;
        return request.socket.destroy();
      }
      return isApi ? json(response, { ok: true, channel: body['channel'], ts: post.ts }) : response.end('ok');
    });
  });
  return {
    origin: server.origin,
    token,
    posts,
    problems,
    become: (next) => {
      state = next;
    },
    loseNextAnswer: () => {
      losesNext = true;
    },
    forbidReading: (how) => {
      mayRead = how ?? false;
    },
    close: server.close,
  };
}

function postOf(body: Fields, count: number): SlackPost {
  const payload = isFields(body['metadata']) ? body['metadata']['event_payload'] : undefined;
  const id = isFields(payload) ? payload['id'] : undefined;
  const thread = body['thread_ts'];
  return {
    body,
    ts: `17000000${count}.000100`,
    thread: typeof thread === 'string' ? thread : undefined,
    id: typeof id === 'string' ? id : undefined,
    texts: textsIn(body),
  };
}

function textsIn(value: unknown): string[] {
  if (Array.isArray(value)) return value.flatMap(textsIn);
  if (!isFields(value)) return [];
  return Object.entries(value).flatMap(([name, inner]) =>
    name === 'text' && typeof inner === 'string' ? [inner] : textsIn(inner),
  );
}

/** What the buttons of a block ask once more. */
function confirmsIn(elements: unknown): string[] {
  if (!Array.isArray(elements)) return [];
  return elements.filter(isFields).flatMap(({ confirm }) => (isFields(confirm) ? textsIn(confirm['text']) : []));
}

/**
 * Slack's limits: 50 blocks, 150 characters of a header, 3,000 of a section, 300 of what is asked once more; markup in
 * our own lines alone. All blocks together may have about 11,300 characters, of which each block takes about 100: no page
 * of Slack says so, and its users have measured it (slackapi/bolt-js#2509).
 */
function problemsIn({ body }: SlackPost): string[] {
  const blocks = Array.isArray(body['blocks']) ? body['blocks'].filter(isFields) : [];
  const problems = blocks.length > 50 ? ['more than 50 blocks'] : [];
  if (textsIn(blocks).join('').length + 100 * blocks.length > 11_300) problems.push('msg_blocks_too_long');
  for (const { type, text, elements } of blocks) {
    if (type === 'context' && textsIn(elements).some(({ length }) => length > 3_000))
      problems.push('context is too long');
    if (type === 'actions' && confirmsIn(elements).some(({ length }) => length > 300))
      problems.push('confirm is too long');
    if (!isFields(text) || typeof text['text'] !== 'string') continue;
    if (text['type'] !== 'plain_text') problems.push(`${String(type)} is no plain text`);
    if (text['text'].length > (type === 'header' ? 150 : 3_000)) problems.push(`${String(type)} is too long`);
  }
  return problems;
}
