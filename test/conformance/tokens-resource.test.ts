/** What a tool server says of its authorization servers (RFC 9728): it may make us refuse, and never leads us anywhere. */
import type { ServerResponse } from 'node:http';
import { afterEach, beforeEach, describe, expect, test } from '@jest/globals';
import { defined } from '../../contracts/defined.ts';
import type { MintedToken } from '../../activities/tokens/port.ts';
import { brokerFor, CLIENT, SECRET, expectNoSecret, runOf } from '../support/oauth/broker.ts';
import { listenOnLoopback, type LoopbackServer } from '../support/servers/loopback-server.ts';
import { type HostileServer, startHostile } from '../support/oauth/provider.ts';
import { withCode, refusalOf } from '../support/refusal.ts';

const INSERTED = '/.well-known/oauth-protected-resource/mcp';
const ROOT = '/.well-known/oauth-protected-resource';

describe('metadata of a protected resource', () => {
  let issuer: HostileServer;
  let foreign: HostileServer;
  let http: LoopbackServer;
  let url: string;
  let asked: string[];
  let authorizations: (string | undefined)[];
  let answer: (path: string, response: ServerResponse) => void;

  beforeEach(async () => {
    let minted = 0;
    const token = () => ({ body: { access_token: `at-${(minted += 1)}`, token_type: 'Bearer', expires_in: 60 } });
    [issuer, foreign] = await Promise.all([startHostile({ token }), startHostile({ token })]);
    asked = [];
    authorizations = [];
    http = await listenOnLoopback((request, response) => {
      asked.push(request.url ?? '');
      authorizations.push(request.headers.authorization);
      answer(request.url ?? '', response);
    });
    url = `${http.origin}/mcp`;
  });
  afterEach(async () => {
    await Promise.all([issuer.close(), foreign.close(), http.close()]);
  });

  /** Publishes this at this path; elsewhere nothing is. */
  function publishes(metadata: object | string, at = INSERTED, status = 200): void {
    answer = (path, response) => {
      if (path !== at) response.writeHead(404).end();
      else
        response
          .writeHead(status, { 'content-type': 'application/json', location: `${foreign.issuer}/` })
          .end(typeof metadata === 'string' ? metadata : JSON.stringify(metadata));
    };
  }

  function brokerWith(resourceMetadata: 'on-refusal' | 'required', now?: () => number) {
    const credentials = {
      kind: 'client-credentials' as const,
      issuer: issuer.issuer,
      clientId: CLIENT.id,
      clientSecret: SECRET,
      resourceMetadata,
    };
    return brokerFor({ servers: { notes: { url, credentials } } }, defined({ now }));
  }

  async function mint(how: 'on-refusal' | 'required', refused?: string): Promise<MintedToken> {
    const request = { run: runOf(1), server: 'notes', serverUrl: url, ...defined({ refused }) };
    return brokerWith(how).mint(request);
  }

  const named = (...servers: string[]) => ({ resource: url, authorization_servers: servers });

  test('required: a server that names the configured issuer, also among others, gets its token', async () => {
    publishes(named('https://first.example.com', `${issuer.issuer}/`));
    expect((await mint('required')).accessToken).toBe('at-1');
    expect(asked).toEqual([INSERTED]);
    expect(authorizations).toEqual([undefined]);
  });

  test('required: metadata at the root of the server count, as older servers have them', async () => {
    publishes(named(issuer.issuer), ROOT);
    expect((await mint('required')).accessToken).toBe('at-1');
    expect(asked).toEqual([INSERTED, ROOT]);
  });

  test('required: they are read once in five minutes', async () => {
    publishes(named(issuer.issuer));
    let now = Date.now();
    const broker = brokerWith('required', () => now);
    const request = { run: runOf(1), server: 'notes', serverUrl: url };
    await broker.mint(request);
    await broker.mint(request);
    expect(asked).toHaveLength(1);
    now += 300_001;
    await broker.mint(request);
    expect(asked).toHaveLength(2);
  });

  test.each<[string, () => void, RegExp]>([
    [
      'names a foreign issuer',
      () => publishes(named(foreign.issuer)),
      /names other authorization servers \(http:\/\/127\.0\.0\.1:\d+\)/,
    ],
    [
      'names a foreign issuer that begins like ours',
      () => publishes(named(`${issuer.issuer}.evil.example.com`)),
      /names other/,
    ],
    ['names nobody', () => publishes({ resource: url }), /names other authorization servers \(none\)/],
    [
      'speaks of another resource',
      () => publishes({ ...named(issuer.issuer), resource: `${url}/other` }),
      /another resource/,
    ],
    ['publishes nothing', () => publishes('', '/nowhere'), /publishes no metadata/],
    ['redirects to its metadata', () => publishes(named(issuer.issuer), INSERTED, 302), /publishes no metadata/],
  ])(
    'required: for a server that %s no token is asked for, and no other issuer is contacted',
    async (_what, prepare, reason) => {
      prepare();
      const error = await refusalOf(mint('required'));
      expect(error).toMatchObject({ code: 'TOKEN_REFUSED', message: expect.stringMatching(reason) });
      expectNoSecret(error, SECRET);
      expect([...issuer.seen, ...foreign.seen]).toEqual([]);
      expect(foreign.discoveries()).toBe(0);
    },
  );

  test.each<[string, () => void]>([
    ['fails', () => publishes('', INSERTED, 503)],
    ['answers with no JSON', () => publishes('<html>')],
    [
      'cuts the connection',
      () => {
        answer = (_path, response) => void response.destroy();
      },
    ],
  ])('required: where a server %s, it may pass', async (_what, prepare) => {
    prepare();
    expect((await refusalOf(mint('required'))).code).toBe('TOKEN_UNAVAILABLE');
    expect(issuer.seen).toEqual([]);
  });

  test('unless required, nothing is read before a token was refused', async () => {
    publishes(named(foreign.issuer));
    expect((await mint('on-refusal')).accessToken).toBe('at-1');
    expect(asked).toEqual([]);
  });

  test('after a refusal, a server that trusts another issuer is told apart from one that wants a fresh token', async () => {
    publishes(named(foreign.issuer));
    const error = await refusalOf(mint('on-refusal', 'at-0'));
    expect(error).toMatchObject(withCode('TOKEN_REFUSED', 'never followed to another issuer'));
    expect([...issuer.seen, ...foreign.seen]).toEqual([]);
    expect(foreign.discoveries()).toBe(0);
    publishes(named(issuer.issuer));
    expect((await mint('on-refusal', 'at-0')).accessToken).toBe('at-1');
  });

  test.each([404, 500])(
    'after a refusal, a server that answers %d for its metadata gets the fresh token',
    async (status) => {
      publishes('', INSERTED, status);
      expect((await mint('on-refusal', 'at-0')).accessToken).toBe('at-1');
    },
  );

  test('after a refusal, metadata of another resource say nothing of this one', async () => {
    publishes({ ...named(foreign.issuer), resource: `${url}/` });
    expect((await mint('on-refusal', 'at-0')).accessToken).toBe('at-1');
    expect(foreign.discoveries()).toBe(0);
  });
});
