/** Consent that names a server by its address is for one server of the run, or for none (INV-G1). */
import { beforeAll, describe, expect, test } from '@jest/globals';
import type { Namesakes } from '../../../../activities/trust/executions.ts';
import type { CatalogSnapshot } from '../../../../contracts/schemas/catalog.ts';
import { Config, type ConfigInput } from '../../../../contracts/schemas/config.ts';
import { RunSpec, type RunSpecInput } from '../../../../contracts/schemas/run-spec.ts';
import type { DispatchInput } from '../../../../contracts/wire/tools.ts';
import { warningsOf } from '../../../../workers/config/warnings.ts';
import { answer, forged, input, prepareInput, reset } from '../../../support/stories/signed-input.ts';
import { createNamesakes } from '../../../../activities/catalog/namesakes.ts';

const URL = 'https://crm.example/mcp';
const RO = { url: URL, credentials: { kind: 'none' } } as const;
const ADMIN = {
  url: 'https://CRM.example:443/mcp',
  headers: { 'X-Role': 'admin' },
  credentials: { kind: 'none' },
} as const;
const ELSEWHERE = { ...ADMIN, url: 'https://other.example/mcp' };
const CALLED = { name: 'crm-admin', url: URL, regranted: false };

type Servers = NonNullable<ConfigInput['servers']>;
const configOf = (servers: Servers, mode: 'signed' | 'temporal' = 'signed'): Config =>
  Config.parse({ servers, ...(mode === 'signed' ? { trust: { mode, jwks: 'trust.jwks' } } : {}) });

const specOf = (over: Partial<RunSpecInput> = {}): RunSpec =>
  RunSpec.parse({
    agent: { name: 'clerk', model: 'm' },
    input: 'Do it.',
    initiator: { id: 'acme|ann' },
    servers: [{ name: 'crm-ro' }, { name: 'crm-admin' }],
    ...over,
  });

function namesakesOf(servers: Servers, connections: Readonly<Record<string, object>> = {}): Namesakes {
  return createNamesakes(configOf(servers), async ({ server }) => {
    const connection = connections[server];
    // Sound: only the connection is read.
    return connection && ({ status: 'connected', connection } as unknown as CatalogSnapshot);
  });
}

describe('another server of the run with the same address', () => {
  test('and other headers or credentials is told by its name', async () => {
    expect(await namesakesOf({ 'crm-ro': RO, 'crm-admin': ADMIN })(specOf(), CALLED)).toBe('crm-ro');
    const given = { 'crm-ro': { url: URL }, 'crm-admin': { url: URL, credentials: RO.credentials } };
    expect(await namesakesOf(given)(specOf(), CALLED)).toBe('crm-ro');
  });

  test('and another grant, too', async () => {
    const servers = { 'crm-ro': { url: URL }, 'crm-admin': { url: URL } };
    const both = [
      { server: 'crm-ro', ref: 'readers' },
      { server: 'crm-admin', ref: 'writers' },
    ];
    expect(await namesakesOf(servers)(specOf({ grants: both }), CALLED)).toBe('crm-ro');
    expect(await namesakesOf(servers)(specOf({ grants: both.slice(1) }), CALLED)).toBe('crm-ro');
    const same = both.map((grant) => ({ ...grant, ref: 'readers' }));
    expect(await namesakesOf(servers)(specOf({ grants: same }), CALLED)).toBeUndefined();
  });

  test('and a grant that was given later, which is of one name alone', async () => {
    const servers = { 'crm-ro': { url: URL }, 'crm-admin': { url: URL } };
    expect(await namesakesOf(servers)(specOf(), CALLED)).toBeUndefined();
    expect(await namesakesOf(servers)(specOf(), { ...CALLED, regranted: true })).toBe('crm-ro');
  });

  test('INV-G3: is looked for without the catalogs of servers that are configured elsewhere', async () => {
    const config = configOf({ 'crm-ro': ELSEWHERE, 'crm-admin': ADMIN });
    const asked: string[] = [];
    const namesakes = createNamesakes(config, async ({ server }) => {
      asked.push(server);
      throw new Error('the catalog is stuck');
    });
    expect(await namesakes(specOf(), CALLED)).toBeUndefined();
    expect(asked).toEqual([]);
  });

  test('that the run brings by its URL, or reaches through a catalog', async () => {
    const brought = specOf({ servers: [{ name: 'crm-ro', url: `${URL}` }, { name: 'crm-admin' }] });
    expect(await namesakesOf({ 'crm-admin': ADMIN })(brought, CALLED)).toBe('crm-ro');
    const through = { 'crm-ro': { url: URL, credentials: 'readers' } };
    expect(await namesakesOf({ 'crm-admin': ADMIN }, through)(specOf(), CALLED)).toBe('crm-ro');
    // One name in the configuration may have its credentials from the catalog.
    expect(await namesakesOf({ 'crm-ro': RO, 'crm-admin': RO }, through)(specOf(), CALLED)).toBe('crm-ro');
  });

  test('is none where it has the same authority, another address, or no part in this run', async () => {
    expect(await namesakesOf({ 'crm-ro': RO, 'crm-admin': RO })(specOf(), CALLED)).toBeUndefined();
    expect(await namesakesOf({ 'crm-ro': ELSEWHERE, 'crm-admin': ADMIN })(specOf(), CALLED)).toBeUndefined();
    const one = specOf({ servers: [{ name: 'crm-admin' }] });
    expect(await namesakesOf({ 'crm-ro': RO, 'crm-admin': ADMIN })(one, CALLED)).toBeUndefined();
    expect(await namesakesOf({ 'crm-admin': ADMIN })(specOf(), CALLED)).toBeUndefined();
  });
});

describe('INV-G1: in trust mode `signed`', () => {
  beforeAll(prepareInput);
  const other: Namesakes = async ({ servers }, { name }) => servers.find((each) => each.name !== name)?.name;
  const allowed = { proof: { kind: 'policy', rules: [] } } as const;

  test('a call that was consented to goes to no server that it may not have meant', async () => {
    reset();
    expect(await answer({}, {})).toBe('proven');
    expect(await answer({}, {}, other)).toBe(forged);
  });

  test('nor is one sent again by a word that may have meant another; what policy allows needs none', async () => {
    reset();
    expect(await answer(allowed, {}, other)).toBe('proven');
    // Sound: it is not read any further.
    const retry = { ...allowed, retry: {} } as unknown as Partial<DispatchInput>;
    expect(await answer(retry, {}, other)).toBe(forged);
    expect(input.server.name).toBe('bank');
  });
});

describe('the configuration', () => {
  test('is warned of two names with one address and other authority', () => {
    const [warning, ...others] = warningsOf(configOf({ 'crm-ro': RO, 'crm-admin': ADMIN }));
    expect(others).toEqual([]);
    expect(warning).toContain('servers.crm-admin');
    expect(warning).toContain('crm-ro');
  });

  test('not where they are the same, or nothing is signed', () => {
    expect(warningsOf(configOf({ 'crm-ro': RO, 'crm-admin': RO }))).toEqual([]);
    expect(warningsOf(configOf({ 'crm-ro': RO, 'crm-admin': ELSEWHERE }))).toEqual([]);
    expect(warningsOf(configOf({ 'crm-ro': RO, 'crm-admin': ADMIN }, 'temporal'))).toEqual([]);
  });
});
