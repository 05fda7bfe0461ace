/** The HTTP port of a worker process: says whether it lives, publishes what is public, and nothing else. */
import { createServer, type Server } from 'node:http';
import { type AddressInfo, connect } from 'node:net';
import { afterEach, describe, expect, test } from '@jest/globals';
import { type ConfigInput, Config } from '../../../contracts/schemas/config.ts';
import { freePort } from '../../../workers/dev-server.ts';
import { startHealth } from '../../../workers/health.ts';
import type { WorkerRole } from '../../../workers/config/load.ts';
import { useConfigFolders } from '../../support/config-folder.ts';
import { withCode, refusalOf } from '../../support/refusal.ts';
import { signingKey } from '../../support/signing/keys.ts';
import { until } from '../../support/until.ts';

const { folder } = useConfigFolders();

describe('the health port', () => {
  let open: Awaited<ReturnType<typeof startHealth>>;
  let taken: Server | undefined;
  afterEach(async () => {
    await open?.close();
    taken?.close();
    open = undefined;
    taken = undefined;
  });

  async function start(
    config: ConfigInput,
    isAlive: () => boolean,
    baseDirectory = '.',
    role: WorkerRole = 'all',
  ): Promise<string> {
    const port = await freePort();
    const loaded = { config: Config.parse({ ...config, health: { port } }), path: undefined, baseDirectory };
    open = await startHealth(loaded, role, isAlive);
    return `http://127.0.0.1:${port}`;
  }

  test('without one in the configuration nothing listens', async () => {
    expect(
      await startHealth({ config: Config.parse({}), path: undefined, baseDirectory: '.' }, 'all', () => true),
    ).toBeUndefined();
  });

  test('is asked anew each time, and never kept', async () => {
    let alive = false;
    const url = await start({}, () => alive);
    expect((await fetch(`${url}/healthz`)).status).toBe(503);
    alive = true;
    const answer = await fetch(`${url}/healthz?probe=1`);
    expect(answer.status).toBe(200);
    expect(answer.headers.get('cache-control')).toBe('no-store');
  });

  test.each([
    ['GET', '/.well-known/jwks.json', 404],
    ['GET', '/', 404],
    ['GET', '/..%2fissuer.pem', 404],
    ['POST', '/healthz', 405],
    ['DELETE', '/anything', 405],
    ['HEAD', '/healthz', 200],
  ])('without an issuer, %s %s answers %d', async (method, path, status) => {
    const url = await start({}, () => true);
    expect((await fetch(`${url}${path}`, { method })).status).toBe(status);
  });

  test('INV-S1: of the keys of an issuer only the public parts are answered, to be kept for five minutes', async () => {
    const key = await signingKey('issuer-1', 'RS256');
    const directory = await folder({ 'issuer-1.pem': key.pem });
    const url = await start({ issuer: { url: 'https://c.example.com', keys: [key.config] } }, () => true, directory);
    const answer = await fetch(`${url}/.well-known/jwks.json`);
    expect(answer.headers.get('cache-control')).toBe('public, max-age=300');
    expect(await answer.json()).toEqual({ keys: [key.publicJwk] });
  });

  test('a worker of role runs needs no key of the issuer, and publishes none', async () => {
    const issuer = { url: 'https://c.example.com', keys: [{ kid: 'k', privateKeyFile: 'elsewhere.pem' }] };
    const url = await start({ issuer }, () => true, '.', 'runs');
    expect((await fetch(`${url}/.well-known/jwks.json`)).status).toBe(404);
    expect((await fetch(`${url}/healthz`)).status).toBe(200);
  });

  test('connections that say nothing do not use up the files of the process', async () => {
    const url = await start({}, () => true);
    const silent = Array.from({ length: 300 }, () => connect(Number(new URL(url).port), '127.0.0.1').unref());
    for (const socket of silent) socket.resume().on('error', () => undefined);
    const closed = () => silent.filter(({ destroyed }) => destroyed).length;
    await until(async () => (closed() >= 300 - 256 ? true : undefined), { what: 'those beyond 256 are closed' });
    for (const socket of silent) socket.destroy();
    const answer = await until(async () => await fetch(`${url}/healthz`).catch(() => undefined), { what: 'an answer' });
    expect(answer.status).toBe(200);
  });

  test('a port that is taken is named, and the worker does not start', async () => {
    const other = createServer();
    taken = other;
    await new Promise<void>((resolve) => {
      other.listen(0, '127.0.0.1', resolve);
    });
    // Sound: a server that listens on a port has an address with one.
    const { port } = other.address() as AddressInfo;
    const config = Config.parse({ health: { port } });
    expect(
      await refusalOf(startHealth({ config, path: undefined, baseDirectory: '.' }, 'all', () => true)),
    ).toMatchObject(withCode('SETUP_INCOMPLETE', `127.0.0.1:${port}`));
  });
});
