/** The way into the pages and out: who may have a session, what its cookie is, and where one comes back to. */
import { afterEach, beforeEach, expect, test } from '@jest/globals';
import cookie from '@fastify/cookie';
import { fastify, type FastifyInstance } from 'fastify';
import { Streams } from '../../../../gateway/http/streams.ts';
import { People } from '../../../../gateway/identity/person.ts';
import { Sessions } from '../../../../gateway/identity/sessions.ts';
import { registerPages } from '../../../../gateway/page/routes.ts';
import { nothing, QUIET_PAGES } from '../../../support/scenes/quiet-pages.ts';

const NOBODY = { ids: [], groups: [] };

let app: FastifyInstance;
let base: string;

async function start(isDevelopment: boolean): Promise<void> {
  app = fastify();
  await app.register(cookie);
  const people = new People({ start: NOBODY, read: NOBODY, administer: NOBODY });
  registerPages(app, {
    source: QUIET_PAGES,
    streams: new Streams({ streams: 1, streamsPerPerson: 1 }),
    sessions: new Sessions(isDevelopment ? { development: true } : {}, people, undefined, nothing),
    isDevelopment,
    hasSignIn: false,
  });
  base = await app.listen({ host: '127.0.0.1', port: 0 });
}
beforeEach(async () => {
  await start(true);
});
afterEach(async () => {
  await app.close();
});

async function signIn(fields: Readonly<Record<string, string>>, origin = base): Promise<Response> {
  const body = new URLSearchParams({ id: 'ann', tenant: 'default', ...fields });
  return await fetch(`${base}/sign-in`, { method: 'POST', body, redirect: 'manual', headers: { origin } });
}

test.each(['//evil.example', 'https://evil.example', '/\\evil.example', 'javascript:alert(1)', '', '/a b'])(
  'one comes back to a page of this gateway, not to %j',
  async (to) => {
    expect((await signIn({ to })).headers.get('location')).toBe('/');
  },
);

test('one comes back to the page that was wanted', async () => {
  expect((await signIn({ to: '/runs/r/requests/t1.c0' })).headers.get('location')).toBe('/runs/r/requests/t1.c0');
});

test('no script reads the cookie, no other host sets it, and no other site sends it with a form', async () => {
  const set = (await signIn({})).headers.get('set-cookie') ?? '';
  expect(set).toMatch(/^__Host-countersign=[^;]+; Max-Age=\d+; Path=\/; HttpOnly; Secure; SameSite=Lax$/);
});

test('a page of elsewhere signs nobody in or out', async () => {
  expect((await signIn({}, 'https://evil.example')).status).toBe(401);
  const headers = { origin: 'https://evil.example' };
  expect((await fetch(`${base}/sign-out`, { method: 'POST', headers })).status).toBe(401);
});

test('the cookie alone is a session; the page tells nothing of it', async () => {
  const [pair = ''] = ((await signIn({})).headers.get('set-cookie') ?? '').split(';');
  const text = await (await fetch(`${base}/`, { headers: { cookie: pair } })).text();
  expect(text).toContain('Nothing waits');
  expect(text).toContain('Development sign-in');
  expect(text).not.toContain(pair.slice('__Host-countersign='.length));
  const made = await fetch(`${base}/`, { headers: { cookie: `${pair}x` }, redirect: 'manual' });
  expect(made.headers.get('location')).toBe('/sign-in?to=%2F');
});

test('an id that no policy can hold is refused by name', async () => {
  const answer = await signIn({ groups: 'finance, "a\u00e4"' });
  expect(answer.status).toBe(422);
  expect(await answer.text()).toContain('is no id');
});

test('without the development login nobody says who they are', async () => {
  await app.close();
  await start(false);
  const answer = await signIn({});
  expect(answer.status).toBe(404);
  expect(answer.headers.get('set-cookie')).toBeNull();
  expect(await answer.text()).toContain('gateway.signIn');
});
