/** The one way out over real sockets: what is forbidden is refused by code, and nobody is contacted (F28). */
import { createRequire } from 'node:module';
import type { AddressInfo } from 'node:net';
import { createServer } from 'node:tls';
import { gzipSync } from 'node:zlib';
import { afterAll, afterEach, beforeAll, beforeEach, describe, expect, test } from '@jest/globals';
import { createEgress, type EgressOptions, ResponseTooLarge } from '../../../../activities/egress/fetch.ts';
import { loopbackEgress, watchAttempts } from '../../../support/egress.ts';
import { HOSTILE_ANSWERS, HOSTILE_URLS } from '../../../support/hostile-hosts.ts';
import { withCode } from '../../../support/refusal.ts';
import { listenOnLoopback, type LoopbackServer } from '../../../support/servers/loopback-server.ts';

describe('the one way out over real sockets: what is forbidden is refused by code, and nobody is contacted (F28)', () => {
  const closing: (() => Promise<void>)[] = [];
  afterEach(async () => {
    for (const close of closing.splice(0)) await close();
  });

  function outletTo(to: readonly string[], egress = loopbackEgress(), maxBytes = 1_000) {
    const outlet = egress.outlet({ what: 'servers.tickets.url', to, maxBytes });
    closing.push(outlet.close);
    return outlet;
  }

  async function serverOf(answer: Parameters<typeof listenOnLoopback>[0]): Promise<LoopbackServer> {
    const server = await listenOnLoopback(answer);
    closing.push(server.close);
    return server;
  }

  /** As in production, save that plain HTTP would do, so that nothing is refused for its scheme alone. */
  function strict(over: Partial<EgressOptions> = {}) {
    return createEgress({
      rules: { allowLoopback: false, allowInsecure: true, allowPrivate: [] },
      origins: { has: () => true },
      ...over,
    });
  }

  const resolvingTo = (...answers: readonly (readonly string[])[]) => {
    const left = [...answers];
    const asked: string[] = [];
    const resolve = async (hostname: string) => {
      asked.push(hostname);
      return (left.length > 1 ? (left.shift() ?? []) : (left[0] ?? [])).map((address) => ({ address }));
    };
    return { asked, resolve };
  };

  describe('hostile URLs and DNS answers', () => {
    let server: LoopbackServer;
    let twin: LoopbackServer | undefined;
    let watch: ReturnType<typeof watchAttempts>;
    beforeAll(async () => {
      server = await listenOnLoopback();
      // Where this machine has IPv6, the same port answers there.
      twin = await listenOnLoopback(undefined, { host: '::1', port: server.port }).catch(() => undefined);
    });
    afterAll(async () => {
      await server.close();
      await twin?.close();
    });
    beforeEach(() => {
      watch = watchAttempts();
    });
    afterEach(() => watch.stop());

    const expectNobody = (): void => {
      expect(watch.attempts).toEqual([]);
      expect([server.connections(), twin?.connections() ?? 0]).toEqual([0, 0]);
    };

    test('there are enough of them', () => {
      expect(HOSTILE_URLS.length + HOSTILE_ANSWERS.length).toBeGreaterThan(80);
      expect(new Set([...HOSTILE_URLS, ...HOSTILE_ANSWERS].map(([, row]) => String(row))).size).toBeGreaterThan(80);
    });

    test.each(HOSTILE_URLS)('a URL, %s: refused', async (_what, row) => {
      const url = row.replace('{port}', String(server.port));
      const { resolve } = resolvingTo(['127.0.0.1']);
      const to = ['http://public.example', ...(/^https?:\/\//.test(url) && URL.canParse(url) ? [url] : [])];
      const outlet = outletTo(to, strict({ resolve }));
      const refusal = { code: 'EGRESS_FORBIDDEN', traits: { retryable: false }, facts: { host: expect.any(String) } };
      await expect(outlet.fetch(url)).rejects.toMatchObject(refusal);
      expectNobody();
    });

    test.each(HOSTILE_ANSWERS)('a DNS answer, %s: refused', async (_what, addresses) => {
      const url = `http://public.example:${server.port}/`;
      const { resolve, asked } = resolvingTo(addresses);
      await expect(outletTo([url], strict({ resolve })).fetch(url)).rejects.toMatchObject({
        code: 'EGRESS_FORBIDDEN',
        message: expect.stringMatching(
          /^servers\.tickets\.url was not contacted: public\.example .+\. Nothing was sent\.$/,
        ),
      });
      expect(asked).toEqual(['public.example']);
      expectNobody();
    });

    test('a name without an address is no refusal: it may have one later', async () => {
      const { resolve } = resolvingTo([]);
      await expect(
        outletTo(['https://public.example'], strict({ resolve })).fetch('https://public.example'),
      ).rejects.toMatchObject({
        cause: { code: 'ENOTFOUND' },
      });
      expectNobody();
    });

    test('the count is of what is counted: allowed, the same server is contacted', async () => {
      const url = `http://public.example:${server.port}/`;
      const { resolve } = resolvingTo(['127.0.0.1']);
      const rules = { allowLoopback: true, allowInsecure: true, allowPrivate: [] };
      expect((await outletTo([url], strict({ rules, resolve })).fetch(url)).status).toBe(200);
      expect([server.connections(), watch.attempts]).toEqual([1, ['127.0.0.1']]);
    });
  });

  describe('what is looked up', () => {
    test('is connected to: one look-up for a connection, and no second one that could answer otherwise (rebinding)', async () => {
      const server = await serverOf((_request, response) => void response.setHeader('connection', 'close').end('{}'));
      const { resolve, asked } = resolvingTo(['127.0.0.1'], ['169.254.169.254']);
      // No resolver of this machine knows the name: whoever asked one would not get there.
      const url = `http://rebind.localhost:${server.port}/`;
      const outlet = outletTo([url], loopbackEgress({ resolve }));
      expect(await (await outlet.fetch(url)).text()).toBe('{}');
      expect([asked.length, server.connections()]).toEqual([1, 1]);
      await expect(outlet.fetch(url)).rejects.toMatchObject({ code: 'EGRESS_FORBIDDEN' });
      expect([asked.length, server.connections()]).toEqual([2, 1]);
    });

    test('is not what TLS is checked against: that is the name', async () => {
      const names: string[] = [];
      const server = createServer({
        SNICallback: (name, done) => {
          names.push(name);
          done(new Error('this test has no certificate'));
        },
      }).on('tlsClientError', () => {});
      await new Promise<void>((resolve) => server.listen(0, '127.0.0.1', resolve));
      closing.push(async () => void (await new Promise((resolve) => server.close(resolve))));
      // Sound: a listening TCP server has an address of this form.
      const url = `https://tickets.localhost:${(server.address() as AddressInfo).port}/`;
      const { resolve } = resolvingTo(['127.0.0.1']);
      await expect(outletTo([url], loopbackEgress({ resolve })).fetch(url)).rejects.toThrow('fetch failed');
      expect(names).toEqual(['tickets.localhost']);
    });

    test('localhost is this machine, whatever a resolver says (RFC 6761)', async () => {
      const { resolve } = resolvingTo(['9.9.9.9']);
      await expect(
        outletTo(['http://localhost'], loopbackEgress({ resolve })).fetch('http://localhost'),
      ).rejects.toMatchObject(withCode('EGRESS_FORBIDDEN', 'resolves to another machine'));
    });
  });

  test('an outlet whose requests share no connection opens one for each', async () => {
    const server = await serverOf((_request, response) => void response.end('{}'));
    const outlet = loopbackEgress().outlet({ what: 'a', to: [server.origin], maxBytes: 1_000, unshared: true });
    closing.push(outlet.close);
    for (let asked = 0; asked < 3; asked += 1) expect(await (await outlet.fetch(server.origin)).text()).toBe('{}');
    expect(server.connections()).toBe(3);
  });

  describe('origins', () => {
    test.each([
      ['another host', 'https://b.example/'],
      ['another port', 'https://a.example:8443/'],
      ['another scheme', 'http://a.example/'],
      ['a trailing dot', 'https://a.example./'],
      ['a longer name', 'https://a.example.b.example/'],
    ])('an outlet is for its own: %s is refused', async (_what, url) => {
      const { resolve, asked } = resolvingTo(['9.9.9.9']);
      await expect(outletTo(['https://a.example'], strict({ resolve })).fetch(url)).rejects.toMatchObject({
        code: 'EGRESS_FORBIDDEN',
      });
      expect(asked).toEqual([]);
    });

    test('what the configuration does not name is refused, also where an outlet was opened for it', async () => {
      const { resolve, asked } = resolvingTo(['9.9.9.9']);
      const origins = new Set(['https://a.example']);
      await expect(
        outletTo(['https://b.example'], strict({ resolve, origins })).fetch('https://b.example'),
      ).rejects.toMatchObject(withCode('EGRESS_FORBIDDEN', 'https://b.example'));
      expect(asked).toEqual([]);
    });

    test.each([301, 302, 303, 307, 308])(
      'F15: a redirect (%i) is handed back, not followed, whatever was asked',
      async (status) => {
        const other = await serverOf(undefined);
        const server = await serverOf(
          (_request, response) => void response.writeHead(status, { location: other.origin }).end(),
        );
        for (const redirect of ['follow', 'manual', 'error'] as const) {
          const outlet = outletTo([server.origin]);
          const answer = await outlet.fetch(server.origin, { redirect, headers: { authorization: 'Bearer canary' } });
          expect([answer.status, answer.headers.get('location')]).toEqual([status, other.origin]);
          await expect(outlet.fetch(other.origin)).rejects.toMatchObject({ code: 'EGRESS_FORBIDDEN' });
        }
        expect(other.connections()).toBe(0);
      },
    );
  });

  test.each([
    ['Not Found', 'Not Found'],
    ['N\u00e3o encontrado', ''],
  ])('a status with the phrase %s is an answer like any other', async (phrase, kept) => {
    const server = await serverOf((_request, response) => void response.writeHead(404, phrase).end('hello'));
    const answer = await outletTo([server.origin]).fetch(server.origin);
    expect([answer.status, answer.statusText, await answer.text()]).toEqual([404, kept, 'hello']);
  });

  test('a status that HTTP does not have counts as a fault of the server (RFC 9110 §15)', async () => {
    const server = await serverOf((_request, response) => void response.writeHead(999).end('hello'));
    const answer = await outletTo([server.origin]).fetch(server.origin);
    expect([answer.status, await answer.text()]).toEqual([500, 'hello']);
  });

  describe('the bounds of an answer', () => {
    test('headers', async () => {
      const server = await serverOf(
        (_request, response) => void response.setHeader('x-large', 'x'.repeat(17_000)).end(),
      );
      await expect(outletTo([server.origin]).fetch(server.origin)).rejects.toMatchObject({
        cause: { code: 'UND_ERR_HEADERS_OVERFLOW' },
      });
    });

    const long = Buffer.alloc(100_000, 'x');
    test.each<[string, Readonly<Record<string, string>>, Buffer]>([
      ['with its length', { 'content-length': '100000' }, long],
      ['without', {}, long],
      ['that was compressed', { 'content-encoding': 'gzip' }, gzipSync(long)],
      ['of one event', { 'content-type': 'text/event-stream' }, long],
    ])('a body %s', async (_what, headers, body) => {
      const server = await serverOf((_request, response) => void response.writeHead(200, headers).end(body));
      let told = 0;
      const answer = await outletTo([server.origin]).fetch(server.origin, {}, { onTooLarge: () => (told += 1) });
      await expect(answer.text()).rejects.toBeInstanceOf(ResponseTooLarge);
      expect(told).toBe(1);
    });

    test('a stream of small events goes on, where it is not bounded as a whole', async () => {
      const events = 'data: 1234567890\n\n'.repeat(20_000);
      const server = await serverOf((_request, response) => {
        response.writeHead(200, { 'content-type': 'text/event-stream' }).end(events);
      });
      const maxBytes = 100_000;
      expect(await (await outletTo([server.origin], undefined, maxBytes).fetch(server.origin)).text()).toBe(events);
      const whole = loopbackEgress().outlet({ what: 'a', to: [server.origin], maxBytes, wholeStreams: true });
      closing.push(whole.close);
      await expect((await whole.fetch(server.origin)).text()).rejects.toBeInstanceOf(ResponseTooLarge);
    });
  });
});

describe('what the surroundings of a worker do not change: proxies of the environment, and how long a server is silent', () => {
  const closing: (() => Promise<void>)[] = [];
  afterEach(async () => {
    for (const close of closing.splice(0).toReversed()) await close();
  });

  async function serverOf(answer?: Parameters<typeof listenOnLoopback>[0]) {
    const server = await listenOnLoopback(answer);
    closing.push(server.close);
    const outlet = loopbackEgress().outlet({ what: 'servers.tickets.url', to: [server.origin], maxBytes: 1_000 });
    closing.push(outlet.close);
    return { server, outlet };
  }

  test('proxies of the environment are not used', async () => {
    const { server: proxy } = await serverOf();
    const names = ['HTTP_PROXY', 'HTTPS_PROXY', 'ALL_PROXY', 'http_proxy', 'https_proxy', 'all_proxy'];
    const before = { ...process.env };
    try {
      for (const name of names) process.env[name] = proxy.origin;
      Object.assign(process.env, { NODE_USE_ENV_PROXY: '1', NO_PROXY: '', no_proxy: '' });
      // Opened now: an agent reads its environment when it is made.
      const { server, outlet } = await serverOf();
      expect((await outlet.fetch(server.origin)).status).toBe(200);
      expect([proxy.connections(), server.connections()]).toEqual([0, 1]);
    } finally {
      for (const name of [...names, 'NODE_USE_ENV_PROXY', 'NO_PROXY', 'no_proxy']) delete process.env[name];
      Object.assign(process.env, before);
    }
  });

  test('silence ends nothing, before the headers and after them: ten minutes pass, and the answer counts', async () => {
    // undici counts time in ticks of its own, and has this to make them pass.
    const require = createRequire(import.meta.url);
    // Sound: `tick` is what undici's own tests call.
    const timers = require('undici/lib/util/timers.js') as { tick(ms: number): void };
    const pass = (): void => {
      // The first one starts what is new.
      timers.tick(1_000);
      timers.tick(600_000);
    };
    let heard = (): void => {};
    let answer = (): void => {};
    let end = (): void => {};
    const arrived = new Promise<void>((resolve) => {
      heard = resolve;
    });
    const { server, outlet } = await serverOf((_request, response) => {
      answer = () => void response.writeHead(200).write('first, ');
      end = () => void response.end('last');
      heard();
    });
    const asked = outlet.fetch(server.origin);
    await arrived;
    pass();
    answer();
    const response = await asked;
    pass();
    end();
    expect(await response.text()).toBe('first, last');
  });
});
