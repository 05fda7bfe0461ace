/** People sign in by browser at a provider that we did not write; a cookie counts for pages of this gateway alone. */
import { afterAll, beforeAll, describe, expect, test } from '@jest/globals';
import { defined } from '../../contracts/defined.ts';
import type { Gateway } from '../../gateway/gateway.ts';
import { freePort } from '../../workers/dev-server.ts';
import { silenceProvider } from '../conformance/tokens.suite.ts';
import { type RunningAuthorizationServer, startLoginProvider } from '../support/oauth/provider.ts';
import { startTestGateway } from '../support/scenes/gateway-world.ts';
import { startBank } from '../support/world/bank-world.ts';
import type { World } from '../support/world/world.ts';

silenceProvider();

const SECRET = 'gateway-secret-0123456789';
const SESSION = '__Host-countersign';
let provider: RunningAuthorizationServer;
let world: World;
let gateway: Gateway;
let port: number;

beforeAll(async () => {
  port = await freePort();
  provider = await providerFor(port);
  ({ world } = await startBank({}, { beside: [provider] }));
  gateway = await gatewayFor(provider, port);
  await world.start([{ text: 'done' }]);
});
afterAll(async () => {
  await gateway.stop();
  await world.stop();
});

async function providerFor(
  at: number,
  authMethod?: 'client_secret_basic' | 'client_secret_post',
): Promise<RunningAuthorizationServer> {
  return await startLoginProvider({
    id: 'gateway',
    secret: SECRET,
    redirectUri: `http://127.0.0.1:${at}/auth/callback`,
    claims: { groups: ['finance'], tenant: 'default' },
    ...defined({ authMethod }),
  });
}

async function gatewayFor(signsInAt: RunningAuthorizationServer, at: number): Promise<Gateway> {
  const publicUrl = `http://127.0.0.1:${at}`;
  const signIn = { publicUrl, clientId: 'gateway', clientSecret: SECRET, scopes: ['openid', 'profile'] };
  return await startTestGateway(world, signsInAt, { config: { port: at, signIn } });
}

/** A browser without scripts: it keeps cookies of each origin, and follows redirects and forms. */
class Browser {
  readonly #jar = new Map<string, Map<string, string>>();
  /** Every `Set-Cookie` that came. */
  readonly set: string[] = [];

  cookie(origin: string, name: string): string | undefined {
    return this.#jar.get(origin)?.get(name);
  }

  async go(url: string, init: RequestInit = {}): Promise<Response> {
    const { origin } = new URL(url);
    const jar = this.#jar.get(origin) ?? new Map<string, string>();
    this.#jar.set(origin, jar);
    const cookie = [...jar].map(([name, value]) => `${name}=${value}`).join('; ');
    const headers = { ...init.headers, ...(cookie === '' ? {} : { cookie }) };
    const response = await fetch(url, { ...init, redirect: 'manual', headers });
    for (const line of response.headers.getSetCookie()) {
      this.set.push(line);
      const [, name = '', value = ''] = /^([^=]+)=([^;]*)/.exec(line) ?? [];
      if (value === '') jar.delete(name);
      else jar.set(name, value);
    }
    const location = response.headers.get('location');
    return location === null ? response : await this.#followed(new URL(location, url).href, response);
  }

  /** Stops where `stopAt` says. */
  stopAt: (url: string) => boolean = () => false;

  async #followed(url: string, response: Response): Promise<Response> {
    return this.stopAt(url) ? response : await this.go(url);
  }

  /** Sends the form of the provider's page. */
  async submit(page: Response, fields: Readonly<Record<string, string>>): Promise<Response> {
    const html = await page.text();
    const action = /<form[^>]* action="([^"]+)"/.exec(html)?.[1] ?? '';
    const hidden = [...html.matchAll(/<input type="hidden" name="([^"]+)" value="([^"]*)"/g)].map(
      ([, name = '', value = '']) => [name, value] as const,
    );
    return await this.go(new URL(action, page.url).href, {
      method: 'POST',
      body: new URLSearchParams({ ...Object.fromEntries(hidden), ...fields }),
    });
  }
}

async function signedIn(to = '/v1/me', at = gateway): Promise<{ readonly browser: Browser; readonly last: Response }> {
  const browser = new Browser();
  const login = await browser.go(`${at.url}/auth/sign-in?to=${encodeURIComponent(to)}`);
  const consent = await browser.submit(login, { login: 'ben', password: 'any' });
  return { browser, last: await browser.submit(consent, {}) };
}

describe('a browser', () => {
  test('signs in by code and PKCE, and comes back to its page as the person whom the provider names', async () => {
    const { browser, last } = await signedIn();
    expect(last.url).toBe(`${gateway.url}/v1/me`);
    expect(await last.json()).toMatchObject({ id: 'ben', groups: ['finance'], tenant: 'default' });
    const session = browser.set.findLast((line) => line.startsWith(`${SESSION}=`)) ?? '';
    for (const part of ['Path=/', 'HttpOnly', 'Secure', 'SameSite=Lax']) expect(session).toContain(part);
    expect(session).not.toContain('Domain');
  });

  test.each(['client_secret_basic', 'client_secret_post'] as const)(
    'signs in at a provider that takes the secret by %s alone',
    async (authMethod) => {
      const own = await freePort();
      const other = await providerFor(own, authMethod);
      const second = await gatewayFor(other, own);
      const { last } = await signedIn('/v1/me', second);
      expect(await last.json()).toMatchObject({ id: 'ben' });
      await second.stop();
      await other.close();
    },
  );

  test('changes something only from a page of this gateway, and is signed out', async () => {
    const { browser } = await signedIn();
    const post = async (headers: Record<string, string>) =>
      (
        await browser.go(`${gateway.url}/v1/decisions`, {
          method: 'POST',
          headers: { 'content-type': 'application/json', ...headers },
          body: JSON.stringify({ decisions: [] }),
        })
      ).status;
    expect(await post({})).toBe(401);
    expect(await post({ origin: 'https://evil.example' })).toBe(401);
    expect(await post({ origin: 'null' })).toBe(401);
    // It got as far as its body.
    expect(await post({ origin: gateway.url })).toBe(422);
    const out = async (origin: string) =>
      (await browser.go(`${gateway.url}/auth/sign-out`, { method: 'POST', headers: { origin } })).status;
    expect(await out('https://evil.example')).toBe(401);
    expect(await out(gateway.url)).toBe(204);
    expect((await browser.go(`${gateway.url}/v1/me`)).status).toBe(401);
  });

  test('cannot end a sign-in that another browser began, nor one twice', async () => {
    const victim = new Browser();
    victim.stopAt = (url) => url.includes('/auth/callback');
    const login = await victim.go(`${gateway.url}/auth/sign-in`);
    const consent = await victim.submit(login, { login: 'eve', password: 'any' });
    const stopped = await victim.submit(consent, {});
    const callback = stopped.headers.get('location') ?? '';
    expect(callback).toContain(`${gateway.url}/auth/callback?code=`);
    const other = new Browser();
    expect((await other.go(callback)).status).toBe(401);
    // One that has begun its own, with another state.
    other.stopAt = () => true;
    await other.go(`${gateway.url}/auth/sign-in`);
    expect((await other.go(callback)).status).toBe(401);
    victim.stopAt = () => true;
    expect((await victim.go(callback)).status).toBe(302);
    expect((await victim.go(callback)).status).toBe(401);
  });

  test('is told in a page why nobody is signed in, and begins again from there; a program as by the API', async () => {
    const html = { headers: { accept: 'text/html' } };
    const cases = [
      ['callback?code=x&state=y', 401, 'takes too long. Sign in again.', 'href="/sign-in">Sign in</a>'],
      ['sign-in?to=evil', 422, 'to must be a path', 'href="/">Back to the inbox</a>'],
    ] as const;
    for (const [path, status, words, way] of cases) {
      const page = await new Browser().go(`${gateway.url}/auth/${path}`, html);
      expect(page.status).toBe(status);
      expect(page.headers.get('content-type')).toContain('text/html');
      expect(page.headers.get('content-security-policy')).toContain("style-src 'self'");
      const text = await page.text();
      expect(text).toContain(words);
      expect(text).toContain(way);
      expect(text).not.toContain('Bearer');
      const problem = await new Browser().go(`${gateway.url}/auth/${path}`);
      expect(problem.status).toBe(status);
      expect(problem.headers.get('content-type')).toContain('application/problem+json');
    }
  });

  test('is sent to no other host after it, and a cookie that was made elsewhere counts for nobody', async () => {
    const browser = new Browser();
    for (const to of ['https://evil.example/', '//evil.example', '/\\evil.example', 'evil'])
      expect((await browser.go(`${gateway.url}/auth/sign-in?to=${encodeURIComponent(to)}`)).status).toBe(422);
    const forged = await fetch(`${gateway.url}/v1/me`, {
      headers: { cookie: `${SESSION}=eyJhbGciOiJkaXIifQ.a.b.c.d` },
    });
    expect(forged.status).toBe(401);
  });

  test('may use the cookie of its sign-in for nothing else', async () => {
    const browser = new Browser();
    browser.stopAt = () => true;
    await browser.go(`${gateway.url}/auth/sign-in`);
    const login = browser.cookie(gateway.url, `${SESSION}-login`) ?? '';
    expect(login).not.toBe('');
    const asked = await fetch(`${gateway.url}/v1/me`, { headers: { cookie: `${SESSION}=${login}` } });
    expect(asked.status).toBe(401);
  });
});
