/** What the surroundings of a worker do not change: proxies of the environment, and how long a server is silent. */
import { createRequire } from 'node:module';
import { afterEach, expect, test } from '@jest/globals';
import { loopbackEgress } from '../../../support/egress.ts';
import { listenOnLoopback } from '../../../support/servers/loopback-server.ts';

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
