/** What a configuration says of catalogs: where servers may be, with which credentials, and who may say what (INV-S1). */
import { describe, expect, test } from '@jest/globals';
import { stringify } from 'yaml';
import { secretsOf } from '../../../../workers/config/secrets.ts';
import { warningsOf } from '../../../../workers/config/warnings.ts';
import { useConfigFolders } from '../../../support/config-folder.ts';
import { refusalOf } from '../../../support/refusal.ts';

const { load, refusedAt } = useConfigFolders();
const ORIGIN = 'https://tools.example.com';

const credentials = (over: object = {}, origins: readonly string[] = [ORIGIN]): object => ({
  credentials: {
    vault: {
      use: {
        kind: 'client-credentials',
        issuer: 'https://i.example.com',
        clientId: 'a',
        clientSecret: 'b',
        ...over,
      },
      origins,
    },
  },
});
const catalog = (over: object): object => ({ catalog: over });

describe('where servers of a catalog may be', () => {
  test.each<[string, object]>([
    ['credentials.vault.use.issuer', credentials({ issuer: 'http://i.example.com' })],
    ['credentials.vault.origins[1]', credentials({}, [ORIGIN, 'http://x.example.com'])],
    ['catalog.origins[0]', catalog({ origins: ['http://x.example.com'] })],
  ])('plain http to another host is refused at %s, and allowed by egress.allowInsecure', async (path, config) => {
    expect(await refusedAt(path, config)).toContain('must use https');
    await expect(load(stringify({ ...config, egress: { allowInsecure: true } }))).resolves.toBeDefined();
  });

  test.each<[string, object]>([
    ['credentials.vault.use.issuer', credentials({ issuer: 'https://u:canary@i.example.com' })],
    ['credentials.vault.use.issuer', credentials({ issuer: 'https://i.example.com?api_key=canary' })],
    ['credentials.vault.use.issuer', credentials({ issuer: 'https://i.example.com/#canary' })],
    ['credentials.vault.use.resource', credentials({ resource: 'https://canary@a.example.com' })],
    ['credentials.vault.use.resource', credentials({ resource: 'https://a.example.com/?token=canary' })],
    ['credentials.vault.origins[0]', credentials({}, ['https://canary@tools.example.com'])],
    ['credentials.vault.origins[0]', credentials({}, ['https://tools.example.com/canary'])],
    // They could go anywhere.
    ['credentials.vault.origins', credentials({}, [])],
    ['catalog.origins[1]', catalog({ origins: [ORIGIN, 'https://tools.example.com/canary'] })],
    ['catalog.origins[0]', catalog({ origins: ['https://tools.example.com?key=canary'] })],
    ['catalog.origins[0]', catalog({ origins: ['https://Tools.example.com/'] })],
  ])('%s is refused for what it holds, without showing it', async (path, config) => {
    await refusedAt(path, config);
  });

  test('an origin may end with a slash, and be on this machine', async () => {
    const egress = { allowLoopback: true };
    const config = { ...catalog({ origins: [`${ORIGIN}/`, 'http://127.0.0.1:8080'] }), ...credentials(), egress };
    await expect(load(stringify(config))).resolves.toBeDefined();
  });
});

describe('a secret of named credentials', () => {
  const text = stringify(credentials({ clientSecret: '${VAULT_SECRET}' }));

  test('comes from the environment, and is among those that are scrubbed', async () => {
    const { config } = await load(text, { VAULT_SECRET: 'canary' });
    expect(config.credentials['vault']?.use).toMatchObject({ clientSecret: 'canary' });
    expect(secretsOf(config, undefined)).toContain('canary');
  });

  test('that is not set is named by its variable and path', async () => {
    expect(await refusalOf(load(text))).toMatchObject({
      facts: { path: 'credentials.vault.use.clientSecret' },
      message: expect.stringContaining('needs the environment variable VAULT_SECRET'),
    });
  });
});

describe('what is allowed and probably not meant', () => {
  const warnings = async (...parts: readonly object[]): Promise<readonly string[]> =>
    warningsOf((await load(stringify(Object.assign({}, ...parts)))).config);
  const administrators = (...named: readonly object[]) => catalog({ administrators: named, loosening: 'countersign' });

  test('INV-G4: administrators who are nobody', async () => {
    expect(
      await warnings(catalog({ administrators: [{ ids: ['ann'], may: ['connect'] }, { may: ['tighten'] }] })),
    ).toEqual(['catalog.administrators[1] names neither ids nor groups: it gives its rights to nobody.']);
  });

  test('a second administrator who must agree, where there is only one', async () => {
    expect(
      await warnings(
        administrators(
          { ids: ['ann'], may: ['connect', 'loosen'] },
          { ids: ['bob'], may: ['tighten'] },
          { ids: ['ann'], may: ['loosen'] },
          { tenant: 'acme', ids: ['ann', 'bob'], may: ['loosen'] },
          { tenant: 'emea', ids: ['ann'], groups: ['ops'], may: ['loosen'] },
        ),
      ),
    ).toEqual([
      'catalog.loosening is countersign, and in tenant default only ann may loosen: nobody can agree to a loosening there.',
    ]);
    expect(await warnings(catalog({ administrators: [{ ids: ['ann'], may: ['loosen'] }] }))).toEqual([]);
  });

  test('a second administrator who is the first one in other letters', async () => {
    const both = administrators({ ids: ['ann', 'Ann'], may: ['loosen'] });
    expect(await warnings(both)).toEqual([]);
    expect(await warnings(both, { policy: { idCase: 'ignored' } })).toEqual([
      expect.stringContaining('only Ann may loosen: nobody can agree'),
    ]);
  });

  test("a run's own grant, where no run can have one", async () => {
    const given = { credentials: { own: { use: { kind: 'given' }, origins: [ORIGIN] } } };
    const reachable = catalog({ origins: [ORIGIN] });
    expect(await warnings(given, reachable)).toEqual([
      'credentials.own.use is given, and grants.keys is empty: no run can seal an authorization for own.',
    ]);
  });

  test('a setting that is unsupported for a server that nobody has connected yet is right', async () => {
    const unsupported = [{ setting: 'enabled', servers: ['later'], tools: ['wipe'], reason: 'not licensed' }];
    expect(await warnings(catalog({ unsupported }))).toEqual([]);
  });
});
