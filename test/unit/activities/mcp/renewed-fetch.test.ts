/** Tokens that end while people think: what is sent after the call has a good one, and the call is sent once (INV-X1, INV-S1). */
import { beforeEach, describe, expect, test } from '@jest/globals';
import { renewalOf } from '../../../../activities/discovery/access.ts';
import { scrubberFor } from '../../../../activities/mcp/classify-result.ts';
import { IDEMPOTENCY_HEADER, renewedFetch } from '../../../../activities/mcp/session.ts';
import type { MintedToken, TokenBroker, TokenRequest } from '../../../../activities/tokens/port.ts';
import { defined } from '../../../../contracts/defined.ts';
import { RUN } from '../../../support/activities/tool-activities.ts';

const REQUEST: TokenRequest = { run: RUN, server: 'peer', serverUrl: 'https://peer.example/mcp', tool: 'deploy' };
const CALL = { method: 'POST', headers: { [IDEMPOTENCY_HEADER]: 'k', authorization: 'Bearer token-0' } };
const ANSWER = { method: 'POST', headers: { authorization: 'Bearer token-0' }, body: '{}' };
const soon = (ms: number): string => new Date(Date.now() + ms).toISOString();

let wanted: TokenRequest[];
let released: string[];
let sent: string[];
/** Tokens that the server takes no more. */
let dead: string[];
beforeEach(() => {
  [wanted, released, sent, dead] = [[], [], [], []];
});

const token = (accessToken: string, expiresAt?: string): MintedToken => ({
  accessToken,
  evidence: { strategy: 'given', ...defined({ expiresAt }) },
  secrets: [`secret-of-${accessToken}`],
  release: () => released.push(accessToken),
});

function scene(expiresAt?: string, mint?: TokenBroker['mint']) {
  const broker: TokenBroker = {
    mint: async (request) => {
      wanted.push(request);
      return mint === undefined ? token(`token-${wanted.length}`) : await mint(request);
    },
  };
  const seen: MintedToken[] = [];
  // Sound: what is proven of a call is not looked at here.
  const request = { ...REQUEST, call: {} } as TokenRequest;
  const renewal = renewalOf(broker, request, token('token-0', expiresAt), (next) => seen.push(next));
  if (renewal === undefined) throw new Error('a token is renewed');
  const fetch = renewedFetch(
    async (_, init) => {
      const said = new Headers(init?.headers).get('authorization')?.replace('Bearer ', '') ?? '';
      sent.push(said);
      return await Promise.resolve(new Response(null, { status: dead.includes(said) ? 401 : 202 }));
    },
    'token-0',
    renewal,
  );
  return { fetch, renewal, seen };
}

const PEER = 'https://peer.example/mcp';

describe('another token', () => {
  test('where the first one ends: before the answer leaves, once, and asked for without what is proven of the call', async () => {
    const { fetch } = scene(soon(1_000));
    await fetch(PEER, CALL);
    await fetch(PEER, ANSWER);
    await fetch(PEER, ANSWER);
    expect(sent).toEqual(['token-0', 'token-1', 'token-1']);
    expect(wanted).toEqual([REQUEST]);
  });

  test('where the server turns the first one away: the answer is sent once more', async () => {
    const { fetch } = scene();
    await fetch(PEER, CALL);
    dead.push('token-0');
    const [one, other] = await Promise.all([fetch(PEER, ANSWER), fetch(PEER, ANSWER)]);
    expect([one.status, other.status]).toEqual([202, 202]);
    expect(wanted).toEqual([{ ...REQUEST, refused: 'token-0' }]);
  });

  test('not while the first one is good', async () => {
    const { fetch } = scene(soon(3_600_000));
    await fetch(PEER, CALL);
    await fetch(PEER, ANSWER);
    expect(sent).toEqual(['token-0', 'token-0']);
    expect(wanted).toEqual([]);
  });

  test('not for the call, what goes before it, or a farewell', async () => {
    const { fetch } = scene(soon(-1_000));
    dead.push('token-0');
    expect((await fetch(PEER, ANSWER)).status).toBe(401);
    expect((await fetch(PEER, CALL)).status).toBe(401);
    await fetch(PEER, { method: 'DELETE' });
    expect(sent).toEqual(['token-0', 'token-0', 'token-0']);
    expect(wanted).toEqual([]);
  });

  test('is not asked for without end, nor sent again where it is no better', async () => {
    const { fetch } = scene(undefined, (request) => Promise.resolve(token(`next-${request.refused}`.slice(0, 20))));
    await fetch(PEER, CALL);
    dead.push('token-0');
    for (let times = 0; times < 30; times += 1) {
      dead.push(...sent);
      await fetch(PEER, ANSWER);
    }
    expect(wanted).toHaveLength(20);
  });

  test('that cannot be had: what is there is sent, and what the server says counts', async () => {
    const { fetch } = scene(soon(-1_000), () => Promise.reject(new Error('no issuer')));
    await fetch(PEER, CALL);
    dead.push('token-0');
    expect((await fetch(PEER, ANSWER)).status).toBe(401);
    expect(sent).toEqual(['token-0', 'token-0']);
  });

  test('is secret with all that it was obtained with, known as shown to the server, and ends with the call (INV-S1)', async () => {
    const { fetch, renewal, seen } = scene(soon(1_000));
    await fetch(PEER, CALL);
    await fetch(PEER, ANSWER);
    expect(seen.map(({ accessToken }) => accessToken)).toEqual(['token-1']);
    const connection = { name: 'peer', url: PEER, headers: {}, protocol: 'auto', secrets: [], renewal } as const;
    expect(scrubberFor(connection).text('I saw token-1, secret-of-token-1')).toBe('I saw [redacted], [redacted]');
    expect(released).toEqual([]);
    renewal.release();
    expect(released).toEqual(['token-1']);
  });
});

test('INV-S1: a token that arrives when its call is over is ended at once', async () => {
  let arrive: (token: MintedToken) => void = () => undefined;
  const { fetch, renewal } = scene(
    soon(1_000),
    () =>
      new Promise((resolve) => {
        arrive = resolve;
      }),
  );
  await fetch(PEER, CALL);
  const answered = fetch(PEER, ANSWER);
  renewal.release();
  expect(released).toEqual([]);
  arrive(token('token-late'));
  await answered;
  expect(released).toEqual(['token-late']);
});

test('a server that takes no token gets none', () => {
  const none: MintedToken = { evidence: { strategy: 'none' }, secrets: [] };
  expect(renewalOf({ mint: () => Promise.resolve(none) }, REQUEST, none, () => undefined)).toBeUndefined();
});
