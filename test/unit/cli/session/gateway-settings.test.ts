/** A gateway reads of the configuration what it serves by, who administers catalogs and how policy judges, and asks for no secret of workers (INV-S1). */
import { readFileSync } from 'node:fs';
import { fileURLToPath } from 'node:url';
import { expect, test } from '@jest/globals';
import { explainBy, loadGatewaySettings } from '../../../../cli/session/gateway.ts';
import { loadClientSettings } from '../../../../cli/session/session.ts';
import { Config } from '../../../../contracts/schemas/config.ts';
import { codeOf, withCode } from '../../../support/refusal.ts';
import { useConfigFolders } from '../../../support/config-folder.ts';

const { folder } = useConfigFolders();

const YAML = `
gateway: { development: true }
catalog:
  administrators: [{ tenant: acme, groups: [platform], may: [tighten] }]
credentials:
  shop: { use: { kind: client-credentials, issuer: 'https://login.example', clientId: x, clientSecret: '\${NOT_HERE}' }, origins: ['https://shop.example'] }
servers:
  bank: { url: 'https://bank.example/mcp', trusted: true, credentials: { kind: client-credentials, issuer: 'https://login.example', clientId: x, clientSecret: '\${NOR_HERE}' } }
policy:
  strategy: annotations
  rules: [{ id: large, match: { server: bank, tool: pay }, when: 'args.amount > 10', then: deny }]
`;

async function place() {
  return { env: {}, directory: await folder({ 'countersign.yaml': YAML }) };
}

test('administrators of catalogs are read, credentials are not', async () => {
  const settings = await loadGatewaySettings(await place(), {});
  expect(settings.administrators).toEqual([{ tenant: 'acme', ids: [], groups: ['platform'], may: ['tighten'] }]);
  await settings.close();
});

test.each([
  [{ MODE: 'signed' }, 'signed', true],
  [{ MODE: 'temporal' }, 'temporal', false],
])('a trust mode that a variable says (%j) is the one that workers read', async (env, mode, isSigned) => {
  const here = { env, directory: await folder({ 'countersign.yaml': 'trust: { mode: "${MODE}", jwks: keys.json }' }) };
  const settings = await loadGatewaySettings(here, {});
  expect(settings.trust.mode).toBe(mode);
  await settings.close();
  expect((await loadClientSettings(undefined, here)).isSigned).toBe(isSigned);
  const without = { ...here, env: {} };
  await expect(loadGatewaySettings(without, {})).rejects.toMatchObject(
    withCode('CONFIG_INVALID', 'trust.mode needs the environment variable MODE'),
  );
  // A command is told nothing more than the stricter of the two.
  expect((await loadClientSettings(undefined, without)).isSigned).toBe(true);
});

test('explain judges by the policy and the trust of the file, and refuses a condition that cannot be evaluated', async () => {
  const explain = explainBy(await loadClientSettings(undefined, await place()));
  const call = { call: 'bank/pay', initiator: 'ann', initiatorGroups: [], tenant: 'acme', turn: 1, earlier: {} };
  expect(await explain({ ...call, args: { amount: 50 } })).toMatchObject({ verdict: { kind: 'deny' } });
  const readOnly = { ...call, args: { amount: 5 }, annotations: { readOnlyHint: true } };
  expect(await explain(readOnly)).toMatchObject({ verdict: { kind: 'allow' } });
  const rules = [{ id: 'bad', match: { tool: 'pay' }, when: 'args.amount >', then: 'deny' as const }];
  expect(await codeOf(explain({ ...readOnly, run: { rules } }))).toBe('SPEC_INVALID');
});

function denying(conditions: readonly string[]) {
  const rules = conditions.map((when, index) => ({ id: `r${index}`, when, then: 'deny' as const }));
  return {
    call: 'bank/pay',
    initiator: 'ann',
    initiatorGroups: [],
    tenant: 'acme',
    args: {},
    turn: 1,
    earlier: {},
    run: { rules },
  };
}

test('other requests are served while explain reads the conditions that somebody sends', async () => {
  const explain = explainBy(await loadClientSettings(undefined, await place()));
  // What it needs is loaded first.
  await explain(denying([]));
  let served = 0;
  const serve = (): void => {
    served += 1;
    next = setImmediate(serve);
  };
  let next = setImmediate(serve);
  const plain = Array.from({ length: 200 }, (_, index) => `args.amount == ${index}`);
  expect(await codeOf(explain(denying([...plain, 'args.amount >'])))).toBe('SPEC_INVALID');
  clearImmediate(next);
  expect(served).toBeGreaterThanOrEqual(200);
});

test('conditions that take too long to read together are refused, by the first that was not read', async () => {
  const explain = explainBy(await loadClientSettings(undefined, await place()));
  const slow = (rule: number): string => `args.a.matches("${rule}x${'[^\\\\pL]{1000}q'.repeat(2)}")`;
  const policy = denying(Array.from({ length: 500 }, (_, rule) => slow(rule)));
  await expect(explain(policy)).rejects.toMatchObject({
    code: 'SPEC_INVALID',
    message: expect.stringMatching(/^The run's policy is not valid: run\.rules\[\d+\]\.when was not read/),
    facts: { path: expect.stringMatching(/^run\.rules/) },
  });
}, 60_000);

/** Parts of the configuration that the page says a gateway reads. */
function partsOfThePage(): readonly string[] {
  const page = readFileSync(fileURLToPath(new URL('../../../../docs/guide/gateway.md', import.meta.url)), 'utf8');
  const [, rows = ''] = /^\| part \| for what \|\n\|---\|---\|\n((?:\|.*\n)+)/m.exec(page) ?? [];
  const named = rows.split('\n').flatMap((row) => row.split('|')[1]?.match(/(?<=`)[a-z]\w+(?=[`.])/gi) ?? []);
  return named.filter((name) => name in Config.shape);
}

test('it reads the parts that the page names, and of no other part a variable has to be set', async () => {
  const read: string[] = [];
  for (const part of Object.keys(Config.shape)) {
    const terminal = { env: {}, directory: await folder({ 'countersign.yaml': `${part}: '\${NOT_HERE}'\n` }) };
    const all = Promise.all([loadClientSettings(undefined, terminal), loadGatewaySettings(terminal, {})]);
    const [settings] = await Promise.allSettled([all]);
    if (settings.status === 'rejected') expect(settings.reason).toMatchObject({ code: 'CONFIG_INVALID' });
    // Of `trust` it reads the mode as it stands.
    if (settings.status === 'rejected' || part === 'trust') read.push(part);
  }
  expect(partsOfThePage().toSorted()).toEqual(read.toSorted());
});
