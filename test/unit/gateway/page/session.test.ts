/** The session of a page: who may have one, what its cookie is, and where one comes back to. */
import { afterEach, beforeEach, expect, test } from '@jest/globals';
import { fastify, type FastifyInstance } from 'fastify';
import { CountersignError } from '../../../../contracts/errors.ts';
import type { Asker } from '../../../../gateway/identity/person.ts';
import { registerPages } from '../../../../gateway/page/routes.ts';
import { Sessions } from '../../../../gateway/page/session.ts';
import { Streams } from '../../../../gateway/http/streams.ts';

const ANN: Asker = {
  id: 'ann',
  groups: [],
  tenant: 'default',
  may: new Set(),
  seesAll: false,
  until: Date.now() + 60_000,
};

let app: FastifyInstance;
let base: string;
let token = 'token-of-ann';

beforeEach(async () => {
  token = 'token-of-ann';
  app = fastify();
  const sessions = new Sessions({
    config: { oidc: undefined, development: true, page: undefined },
    tokens: {
      askerOf: async (authorization) => {
        if (authorization === `Bearer ${token}`) return ANN;
        throw new CountersignError('SIGN_IN_REQUIRED', 'The token is not valid.');
      },
      signInAs: async () => ({ token, expiresAt: new Date(ANN.until).toISOString(), asker: ANN }),
    },
    ask: async () => new Response(),
  });
  const none = async (): Promise<never> => {
    throw new Error('not asked here');
  };
  registerPages(app, {
    source: {
      inbox: async () => ({ requests: [], mine: 0, asOf: new Date().toISOString() }),
      runs: none,
      run: none,
      send: none,
      say: none,
      stop: none,
      changes: () => () => undefined,
    },
    streams: new Streams({ streams: 1, streamsPerPerson: 1 }),
    viewerOf: async (request) => await sessions.viewerOf(request),
    statusOf: ({ traits }) => traits.httpStatus,
  });
  await sessions.register(app);
  base = await app.listen({ host: '127.0.0.1', port: 0 });
});
afterEach(async () => {
  await app.close();
});

async function signIn(fields: Readonly<Record<string, string>>): Promise<Response> {
  const body = new URLSearchParams({ id: 'ann', tenant: 'default', ...fields });
  return await fetch(`${base}/sign-in`, { method: 'POST', body, redirect: 'manual' });
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

test('no script reads the cookie, and no other site sends it with a form', async () => {
  const cookie = (await signIn({})).headers.get('set-cookie') ?? '';
  expect(cookie).toMatch(/^countersign-session=token-of-ann; Max-Age=\d+; Path=\/; HttpOnly; SameSite=Lax$/);
});

test('the cookie alone is a session; the secret of its forms tells nothing of it', async () => {
  const signed = await fetch(`${base}/`, { headers: { cookie: 'countersign-session=token-of-ann' } });
  const text = await signed.text();
  expect(text).toContain('Nothing waits');
  expect(text).not.toContain('token-of-ann');
  const other = await fetch(`${base}/`, { headers: { cookie: 'countersign-session=other' }, redirect: 'manual' });
  expect(other.headers.get('location')).toBe('/sign-in?to=%2F');
});

test('a token that no cookie holds is told, not cut', async () => {
  token = 'x'.repeat(5_000);
  const answer = await signIn({});
  expect(answer.headers.get('set-cookie')).toBeNull();
  expect(answer.status).toBeGreaterThanOrEqual(400);
  expect(await answer.text()).toContain('fewer groups');
});

test('an id that no policy can hold is refused by name', async () => {
  const answer = await signIn({ groups: 'finance, "a\u00e4"' });
  expect(answer.status).toBe(422);
  expect(await answer.text()).toContain('is no id');
});
