/** Whom a request for a page counts for: who is signed in, or the address where nobody is. */
import { get, type IncomingMessage } from 'node:http';
import { text } from 'node:stream/consumers';
import { afterEach, beforeEach, expect, jest, test } from '@jest/globals';
import { GatewayConfig } from '../../../../contracts/schemas/gateway.ts';
import { createServer, type Server } from '../../../../gateway/http/server.ts';
import { Streams } from '../../../../gateway/http/streams.ts';
import { People } from '../../../../gateway/identity/person.ts';
import { SESSION_COOKIE, Sessions } from '../../../../gateway/identity/sessions.ts';
import { registerPages } from '../../../../gateway/page/routes.ts';
import { nothing, QUIET_PAGES } from '../../../support/scenes/quiet-pages.ts';

const MOST = 5;
const CONFIG = GatewayConfig.parse({ development: true, limits: { requestsPerMinute: MOST } });

const people = new People(CONFIG.may);
const newSessions = (): Sessions => new Sessions(CONFIG, people, undefined, nothing);

let app: Server;
let base: string;
let sessions: Sessions;

beforeEach(async () => {
  sessions = newSessions();
  const tokens = { isDevelopment: true, askerOf: nothing };
  app = await createServer({ config: CONFIG, tokens, sessions, version: '1' });
  const streams = new Streams(CONFIG.limits);
  await app.register(async (pages) =>
    registerPages(pages, { source: QUIET_PAGES, sessions, streams, isDevelopment: true, hasSignIn: false }),
  );
  base = await app.listen({ host: '127.0.0.1', port: 0 });
});
afterEach(async () => {
  jest.restoreAllMocks();
  await app.close();
});

const sessionOf = async (id: string, of = sessions): Promise<string> =>
  (await of.sessionOf({ id, groups: [], tenant: 'default' })).value;

/** Asks for a page by another name than that of this machine; `fetch` would not send it. */
async function askBy(host: string): Promise<{ readonly status: number | undefined; readonly body: string }> {
  const answer = await new Promise<IncomingMessage>((resolve, reject) => {
    get(new URL('/', base), { headers: { host } }, resolve).once('error', reject);
  });
  return { status: answer.statusCode, body: await text(answer) };
}

async function ask(url: string, session?: string, form?: Readonly<Record<string, string>>) {
  const headers = session === undefined ? {} : { cookie: `${SESSION_COOKIE}=${session}` };
  const sent = form === undefined ? {} : { method: 'POST', body: new URLSearchParams(form) };
  const answer = await fetch(new URL(url, base), { redirect: 'manual', headers, ...sent });
  return { status: answer.status, headers: answer.headers, body: await answer.text() };
}

/** Asks as often as one may, and once more. @returns the last answer */
async function askTooOften(url: string, session?: string) {
  for (let index = 0; index < MOST; index += 1) expect((await ask(url, session)).status).not.toBe(429);
  return await ask(url, session);
}

test.each(['/nothing', '/', '/sign-in', '/live'])(
  'who has no session and asks %s too often takes no page and no form from people at the same address',
  async (path) => {
    expect((await askTooOften(path)).status).toBe(429);
    for (const id of ['ann', 'ben']) {
      const session = await sessionOf(id);
      const inbox = await ask('/', session);
      expect([inbox.status, inbox.body]).toEqual([200, expect.stringContaining('Nothing waits')]);
      const decided = await ask('/review/decide', session, { kind: 'approve', csrf: 'of elsewhere' });
      // The form was read: its secret is what is wrong.
      expect([decided.status, decided.body]).toEqual([422, expect.stringContaining('another session')]);
    }
  },
);

test('a person who loads pages too often waits, wherever they are; others at the same address do not', async () => {
  const ann = await sessionOf('ann');
  expect((await askTooOften('/', ann)).status).toBe(429);
  expect((await ask('/', await sessionOf('ann'))).status).toBe(429);
  expect((await ask('/', await sessionOf('ben'))).status).toBe(200);
  expect((await ask('/sign-in')).status).toBe(200);
});

test('who asks for pages too often is told so in a page, and what became of a form', async () => {
  const ann = await sessionOf('ann');
  const refused = await askTooOften('/', ann);
  expect(refused.headers.get('content-type')).toBe('text/html; charset=utf-8');
  expect(Number(refused.headers.get('retry-after'))).toBeGreaterThan(0);
  expect(refused.headers.get('content-security-policy')).toContain("form-action 'self'");
  expect(refused.body).toContain(`${MOST} requests in 60 s`);
  expect(refused.body).toContain('<span class="who"');
  expect(refused.body).not.toContain('Nothing was sent.');
  expect((await ask('/review/decide', ann, { kind: 'approve' })).body).toContain('Nothing was sent.');

  const unknown = await askTooOften('/');
  expect([unknown.status, unknown.headers.get('content-type')]).toEqual([429, 'text/html; charset=utf-8']);
  expect(unknown.body).toContain('RATE_LIMITED');
});

test.each([
  ['is made up', async (session: string) => `${session.slice(0, -4)}AAAA`],
  ['is of another gateway', async () => await sessionOf('ann', newSessions())],
  [
    'is over',
    async () => {
      const yesterday = Date.now() - 86_400_000;
      const clock = jest.spyOn(Date, 'now').mockReturnValue(yesterday);
      const session = await sessionOf('ann');
      clock.mockRestore();
      return session;
    },
  ],
])('a session that %s counts for its address, and takes nothing from the person it names', async (_, made) => {
  const ann = await sessionOf('ann');
  const wrong = await made(ann);
  expect((await ask('/', wrong)).headers.get('location')).toBe('/sign-in?to=%2F');
  for (let index = 1; index < MOST; index += 1) await ask('/', wrong);
  expect((await ask('/', wrong)).status).toBe(429);
  expect((await ask('/sign-in')).status).toBe(429);
  expect((await ask('/', ann)).status).toBe(200);
});

test('a name that is not of this machine is refused before any cookie is read, in a page', async () => {
  const refused = await askBy('pages.example');
  expect([refused.status, refused.body]).toEqual([403, expect.stringContaining('ACTION_FORBIDDEN')]);
});

test('a browser at an address that there is not reads a page; the API tells it as ever', async () => {
  const elsewhere = async (url: string, accept: string) => {
    const answer = await fetch(new URL(url, base), { redirect: 'manual', headers: { accept } });
    return { status: answer.status, type: answer.headers.get('content-type'), body: await answer.text() };
  };
  for (const url of ['/runs/run-1/elsewhere', '/review']) {
    const { status, type, body } = await elsewhere(url, 'text/html,application/xhtml+xml');
    expect(status).toBe(404);
    expect(type).toContain('text/html');
    expect(body).toContain('There is no page at this address.');
    expect(body).toContain('<a class="button" href="/">Back to the inbox</a>');
  }
  expect((await elsewhere('/v1/nonsense', 'text/html')).body).toContain('"ROUTE_UNKNOWN"');
  expect((await elsewhere('/v1', 'text/html')).body).toContain('"ROUTE_UNKNOWN"');
  expect((await elsewhere('/nonsense', '*/*')).body).toContain('"ROUTE_UNKNOWN"');
  await elsewhere('/nonsense', '*/*');
  const { status, type } = await elsewhere('/nonsense', '*/*');
  expect(status).toBe(429);
  expect(type).toContain('application/problem+json');
});
