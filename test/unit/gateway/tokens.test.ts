/** Who is asking: only what a verified token says, in the tenant and the groups that count (D-7, INV-G4). */
import { afterAll, beforeAll, describe, expect, test } from '@jest/globals';
import { SignJWT, UnsecuredJWT } from 'jose';
import { GatewayConfig, type GatewayConfigInput } from '../../../contracts/schemas/gateway.ts';
import { People, type Voice } from '../../../gateway/identity/person.ts';
import { Tokens } from '../../../gateway/identity/tokens.ts';
import { refusalOf, withCode } from '../../support/refusal.ts';
import { AUDIENCE, startTestProvider, type TestProvider } from '../../support/scenes/gateway-world.ts';

let provider: TestProvider;
beforeAll(async () => {
  provider = await startTestProvider();
});
afterAll(async () => {
  await provider.close();
});

interface Made {
  readonly tokens: Tokens;
  /** Moves the clock of the key set. */
  later(ms: number): void;
  cut(): void;
}

function made(over: GatewayConfigInput = {}, voice?: Voice, published?: (keys: readonly unknown[]) => unknown): Made {
  let now = Date.now();
  let isCut = false;
  const oidc = { issuer: provider.issuer, audience: AUDIENCE, tenant: 'acme', ...over.oidc };
  const config = GatewayConfig.parse({ ...over, oidc });
  const ask = async (url: string, init?: RequestInit): Promise<Response> => {
    if (isCut) throw new Error('away');
    const answer = await fetch(url, init);
    if (published === undefined || !url.endsWith('/jwks')) return answer;
    // Sound: the test provider answers so.
    const { keys } = (await answer.json()) as { readonly keys: readonly unknown[] };
    return Response.json({ keys: published(keys) });
  };
  return {
    tokens: new Tokens(config, new People(config.may, voice), ask, () => now),
    later: (ms) => {
      now += ms;
    },
    cut: () => {
      isCut = true;
    },
  };
}

const codeOf = async (asked: Promise<unknown>): Promise<string> => (await refusalOf(asked)).code;

describe('a token', () => {
  test('names its owner with groups, tenant and rights', async () => {
    const { tokens } = made({ may: { start: { groups: ['backends'] }, read: { ids: ['ann'] } } });
    const token = await provider.token({ sub: 'ann', groups: ['backends', 'no group: spaces'], tenant: 'beta' });
    const asker = await tokens.askerOf(`Bearer ${token}`);
    expect(asker).toMatchObject({ id: 'ann', groups: ['backends'], tenant: 'beta', seesAll: true });
    expect([...asker.may].toSorted()).toEqual(['read', 'start']);
    expect(asker.until).toBeGreaterThan(Date.now());
  });

  test('is refused where anything of it is wrong, and the refusal repeats nothing of it', async () => {
    const { tokens } = made();
    const good = await provider.token({ sub: 'ann' });
    const [head = '', claims = '', signature = ''] = good.split('.');
    const unsigned = new UnsecuredJWT({ sub: 'ann' }).setIssuer(provider.issuer).setAudience(AUDIENCE).encode();
    const symmetric = await new SignJWT({})
      .setProtectedHeader({ alg: 'HS256', kid: 'key-1' })
      .setIssuer(provider.issuer)
      .setAudience(AUDIENCE)
      .setSubject('ann')
      .setExpirationTime('1h')
      .sign(Buffer.alloc(32));
    const bad: readonly (string | undefined)[] = [
      undefined,
      '',
      `Basic ${good}`,
      'Bearer ',
      'Bearer not-a-token',
      `Bearer ${head}.${claims}.${signature.slice(0, -4)}AAAA`,
      `Bearer ${unsigned}`,
      `Bearer ${symmetric}`,
      `Bearer ${await provider.token({ sub: 'ann', aud: 'other' })}`,
      `Bearer ${await provider.token({ sub: 'ann', iss: 'https://evil.example' })}`,
      `Bearer ${await provider.token({ sub: 'ann', lives: -60 })}`,
      `Bearer ${await provider.forged({ sub: 'ann' })}`,
      `Bearer ${await provider.token({ sub: 'ann with spaces' })}`,
      `Bearer ${await provider.token({ sub: 'ann', tenant: 'no tenant' })}`,
      // Bound to a key (RFC 9449 §7.2): whoever has it without the key is not its owner.
      `Bearer ${await provider.token({ sub: 'ann', cnf: { jkt: 'thumbprint' } })}`,
      `Bearer ${good}${'A'.repeat(20_000)}`,
    ];
    for (const authorization of bad) {
      const { code, message } = await refusalOf(tokens.askerOf(authorization));
      expect([authorization, code]).toEqual([authorization, 'SIGN_IN_REQUIRED']);
      expect(message).not.toContain(claims);
    }
    expect((await tokens.askerOf(`Bearer ${good}`)).id).toBe('ann');
  });

  test('without a tenant is refused, unless the configuration names one', async () => {
    const config = GatewayConfig.parse({ oidc: { issuer: provider.issuer, audience: AUDIENCE } });
    const tokens = new Tokens(config, new People(config.may), async (url, init) => await fetch(url, init));
    expect(await codeOf(tokens.askerOf(`Bearer ${await provider.token({ sub: 'ann' })}`))).toBe('SIGN_IN_REQUIRED');
  });

  test('may hold its claims under other names, and inside objects', async () => {
    const claims = { id: 'https://acme.example/mail', groups: 'realm_access.roles', tenant: 'sub' };
    const { tokens } = made({ oidc: { issuer: provider.issuer, audience: AUDIENCE, claims } });
    const extra = { 'https://acme.example/mail': 'ann@acme.example', realm_access: { roles: ['ops'] } };
    const token = await provider.token({ sub: 'acme', ...extra });
    expect(await tokens.askerOf(`Bearer ${token}`)).toMatchObject({
      id: 'ann@acme.example',
      groups: ['ops'],
      tenant: 'acme',
    });
  });
});

describe('keys of the provider', () => {
  test('are read once for many tokens, and anew for an unknown key, but not again and again', async () => {
    const { tokens, later } = made();
    const before = provider.reads();
    const first = await provider.token({ sub: 'ann' });
    await Promise.all(Array.from({ length: 20 }, async () => await tokens.askerOf(`Bearer ${first}`)));
    expect(provider.reads() - before).toBe(1);
    await provider.rotate();
    const second = await provider.token({ sub: 'ann' });
    // Another key was looked for just now.
    expect(await codeOf(tokens.askerOf(`Bearer ${second}`))).toBe('SIGN_IN_REQUIRED');
    expect(provider.reads() - before).toBe(1);
    later(31_000);
    expect((await tokens.askerOf(`Bearer ${second}`)).id).toBe('ann');
    expect(provider.reads() - before).toBe(2);
    // The old key is not published any more.
    expect(await codeOf(tokens.askerOf(`Bearer ${first}`))).toBe('SIGN_IN_REQUIRED');
  });

  test('are waited for by all who come with a new one while they are read, not by the first alone', async () => {
    const { tokens, later } = made();
    await tokens.askerOf(`Bearer ${await provider.token({ sub: 'ann' })}`);
    await provider.rotate();
    later(31_000);
    const before = provider.reads();
    const fresh = await Promise.all(['ann', 'bob', 'cid'].map(async (sub) => await provider.token({ sub })));
    const known = fresh.map(async (token) => (await tokens.askerOf(`Bearer ${token}`)).id);
    expect(await Promise.all(known)).toEqual(['ann', 'bob', 'cid']);
    expect(provider.reads() - before).toBe(1);
  });

  test('count for a day while the provider is away; after that nobody is believed', async () => {
    const { tokens, later, cut } = made();
    const token = await provider.token({ sub: 'ann' });
    await tokens.askerOf(`Bearer ${token}`);
    cut();
    later(3_600_000);
    expect((await tokens.askerOf(`Bearer ${token}`)).id).toBe('ann');
    later(86_400_000);
    expect(await codeOf(tokens.askerOf(`Bearer ${token}`))).toBe('TRUST_UNAVAILABLE');
  });
});

test('keys that nobody here can use make no other key of the set useless (RFC 7517 §5)', async () => {
  const others = [{ kid: 'key-1', use: 'sig' }, { kid: 'key-1', kty: 'unheard-of' }, {}];
  const { tokens } = made({}, undefined, (keys) => [...others, ...keys]);
  expect((await tokens.askerOf(`Bearer ${await provider.token({ sub: 'ann' })}`)).id).toBe('ann');
});

describe('in trust mode `signed`', () => {
  const voice = (): Voice => ({ iss: provider.issuer, groups: ['finance'], tenants: ['acme'] });

  test('a person is issuer|subject, with the groups that the key may speak for', async () => {
    const { tokens } = made({ may: { start: { ids: ['ann'] } } }, voice());
    const token = await provider.token({ sub: 'ann', groups: ['finance', 'root'] });
    const asker = await tokens.askerOf(`Bearer ${token}`);
    expect(asker).toMatchObject({ id: `${provider.issuer}|ann`, groups: ['finance'] });
    expect(asker.may.has('start')).toBe(true);
  });

  test('nobody of a tenant that the key does not state is recognised', async () => {
    const { tokens } = made({}, voice());
    const token = await provider.token({ sub: 'ann', tenant: 'beta' });
    const refusal = await refusalOf(tokens.askerOf(`Bearer ${token}`));
    expect(refusal).toMatchObject(withCode('SIGN_IN_REQUIRED', 'tenant beta. Ask whoever runs this gateway.'));
    expect(refusal.message).not.toContain('Bearer');
  });
});

describe('the development login', () => {
  test('issues tokens of this process; without it there is none', async () => {
    const { tokens } = made({ development: true });
    const { token, asker } = await tokens.signInAs({ id: 'ann', groups: ['ops'], tenant: 'default' });
    expect(asker).toMatchObject({ id: 'ann', groups: ['ops'], tenant: 'default' });
    expect((await tokens.askerOf(`Bearer ${token}`)).id).toBe('ann');
    const refusal = await refusalOf(made({ development: true }).tokens.askerOf(`Bearer ${token}`));
    expect(refusal).toMatchObject(withCode('SIGN_IN_REQUIRED', 'not of this process. Sign in again.'));
    expect(refusal.message).not.toContain('Bearer');
    expect(await codeOf(made().tokens.askerOf(`Bearer ${token}`))).toBe('SIGN_IN_REQUIRED');
    expect(await codeOf(made().tokens.signInAs({ id: 'ann', groups: [], tenant: 'default' }))).toBe('ROUTE_UNKNOWN');
  });
});

test('what people may do here is compared as policy compares ids', () => {
  const nobody = { ids: [], groups: [] };
  const may = { start: nobody, read: nobody, administer: { ids: ['ann@x'], groups: [] } };
  const claimed = { id: 'Ann@X', groups: undefined, tenant: 'acme', exp: 1 };
  expect([...new People(may).personOf(claimed).may]).toEqual([]);
  expect([...new People(may, undefined, 'ignored').personOf(claimed).may]).toEqual(['administer']);
});
