/** The wire of a session and tokens that are bound to a key: none of them leaves without its proof (RFC 9449). */
import { describe, expect, test } from '@jest/globals';
import { decodeJwt } from 'jose';
import { renewalOf } from '../../../../activities/discovery/access.ts';
import { scrubberFor } from '../../../../activities/mcp/classify-result.ts';
import type { ServerConnection } from '../../../../activities/mcp/port.ts';
import { IDEMPOTENCY_HEADER, openWire, renewedFetch } from '../../../../activities/mcp/session.ts';
import type { MintedToken } from '../../../../activities/tokens/port.ts';
import { ProofKey } from '../../../../activities/tokens/proof-key.ts';
import { egressBy } from '../../../support/egress.ts';
import { requestFor, URL_OF } from '../../../support/oauth/broker.ts';

const URL_ASKED = URL_OF.notes;

interface Sent {
  readonly url: string;
  readonly authorization: string | null;
  readonly proof: string | null;
}

async function bound(
  accessToken: string,
): Promise<MintedToken & { readonly accessToken: string; readonly binding: ProofKey }> {
  return { accessToken, binding: await ProofKey.create(), evidence: { strategy: 'x' }, secrets: [accessToken] };
}

/** Opens a wire that sends nothing, and answers with what `answer` says. */
function wireOf(over: Partial<ServerConnection>, answer: (sent: Sent, at: number) => Response = () => new Response()) {
  const sent: Sent[] = [];
  const connection: ServerConnection = {
    name: 'notes',
    url: URL_ASKED,
    headers: {},
    secrets: [],
    protocol: 'auto',
    ...over,
  };
  const wire = openWire({
    server: connection,
    egress: egressBy(async (url, init) => {
      const headers = new Headers(init?.headers);
      sent.push({ url: String(url), authorization: headers.get('authorization'), proof: headers.get('dpop') });
      return answer(sent.at(-1) ?? { url: '', authorization: null, proof: null }, sent.length);
    }),
  });
  return { wire, sent, connection };
}

const bearer = (token: string, more: Record<string, string> = {}) => ({
  method: 'POST',
  headers: { authorization: `Bearer ${token}`, ...more },
  body: '{}',
});

describe('the scheme of a token', () => {
  test('bound tokens leave with a proof, whatever the request says, and others as they are', async () => {
    const { accessToken, binding } = await bound('at-1');
    const { wire, sent } = wireOf({ accessToken, binding });
    await wire.fetch(URL_ASKED, bearer('at-1'));
    await wire.fetch(URL_ASKED, bearer('at-2'));
    await wire.fetch(URL_ASKED, { method: 'GET' });
    expect(sent.map(({ authorization, proof }) => [authorization, proof !== null])).toEqual([
      ['DPoP at-1', true],
      ['Bearer at-2', false],
      [null, false],
    ]);
  });

  test('the proof is for the address that is asked after a redirect', async () => {
    const { binding } = await bound('at-1');
    const moved = `${URL_ASKED}/moved`;
    const { wire, sent } = wireOf({ accessToken: 'at-1', binding }, (_, at) =>
      at === 1 ? new Response(null, { status: 307, headers: { location: moved } }) : new Response(),
    );
    await wire.fetch(URL_ASKED, bearer('at-1'));
    await wire.fetch(URL_ASKED, bearer('at-1'));
    expect(sent.map(({ url }) => url)).toEqual([URL_ASKED, moved]);
    expect(sent.map(({ proof }) => decodeJwt(proof ?? '')['htu'])).toEqual([URL_ASKED, moved]);
  });

  test('a renewed token leaves with the proof of its own key, and both keys are scrubbed', async () => {
    const first = await bound('at-0');
    const request = requestFor('notes', 'x');
    const renewal = renewalOf({ mint: async () => bound('at-1') }, request, first, () => undefined);
    if (renewal === undefined) throw new Error('it is renewed');
    const { wire, sent, connection } = wireOf({ accessToken: 'at-0', binding: first.binding, renewal }, (one) =>
      one.authorization === 'DPoP at-0' ? new Response(null, { status: 401 }) : new Response(),
    );
    const fetch = renewedFetch(wire.fetch, 'at-0', renewal);
    await fetch(URL_ASKED, bearer('at-0', { [IDEMPOTENCY_HEADER]: 'k' }));
    await fetch(URL_ASKED, bearer('at-0'));
    expect(sent.map(({ authorization }) => authorization)).toEqual(['DPoP at-0', 'DPoP at-0', 'DPoP at-1']);
    const keys = sent.map(({ proof }) => (proof ?? '').split('.')[0]);
    expect([keys[0] === keys[1], keys[1] === keys[2]]).toEqual([true, false]);
    const text = sent.map(({ proof }) => proof).join(' ');
    expect(scrubberFor(connection).text(text)).toBe('[redacted] [redacted] [redacted]');
  });

  test('a server that is never content with a nonce refuses no token: none is asked for in its place', async () => {
    const { binding } = await bound('at-0');
    const headers = { 'www-authenticate': 'DPoP error="use_dpop_nonce"', 'dpop-nonce': 'n' };
    const { wire, sent } = wireOf({ accessToken: 'at-0', binding }, () => new Response(null, { status: 401, headers }));
    let minted = 0;
    const mint = async () => `at-${(minted += 1)}`;
    const fetch = renewedFetch(
      wire.fetch,
      'at-0',
      { mint, secrets: () => [] },
      () => wire.exchange().nonceWanted === true,
    );
    await fetch(URL_ASKED, bearer('at-0', { [IDEMPOTENCY_HEADER]: 'k' }));
    expect((await fetch(URL_ASKED, bearer('at-0'))).status).toBe(401);
    expect([minted, sent.length]).toEqual([0, 4]);
  });

  test('a scrubber knows proofs that leave after it was made', async () => {
    const { binding } = await bound('at-1');
    const { wire, sent, connection } = wireOf({ accessToken: 'at-1', binding });
    const scrubber = scrubberFor(connection);
    await wire.fetch(URL_ASKED, bearer('at-1'));
    const proof = sent[0]?.proof ?? '';
    expect(scrubber.text(`I saw ${proof}`)).toBe('I saw [redacted]');
    expect(scrubber.value({ seen: [proof] })).toEqual({ seen: ['[redacted]'] });
    expect(Buffer.from(await scrubber.largeBytes(Buffer.from(proof))).toString()).toMatch(/^\*+$/);
  });
});

describe('facts of an exchange', () => {
  const WANTS = { 'www-authenticate': 'DPoP error="use_dpop_nonce"', 'dpop-nonce': 'n' };

  test.each([
    ['is never content with a nonce', { status: 401, headers: WANTS }, { status: 401, nonceWanted: true }],
    [
      'knows bearer tokens alone',
      { status: 401, headers: { 'www-authenticate': 'Bearer' } },
      { status: 401, declined: true },
    ],
    [
      'refuses the token',
      { status: 401, headers: { 'www-authenticate': 'DPoP error="invalid_token"' } },
      { status: 401 },
    ],
    ['answers', { status: 200 }, { status: 200 }],
  ])('of a server that %s', async (_what, answer, facts) => {
    const { binding } = await bound('at-1');
    const { wire } = wireOf({ accessToken: 'at-1', binding }, () => new Response(null, answer));
    await wire.fetch(URL_ASKED, bearer('at-1', { [IDEMPOTENCY_HEADER]: 'k' }));
    expect(wire.exchange()).toEqual({ streamed: false, ...facts });
  });
});
