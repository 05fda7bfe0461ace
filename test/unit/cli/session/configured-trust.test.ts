/** Which keys `verify-ledger` takes from the configuration, without being told (INV-G2). */
import { writeFile } from 'node:fs/promises';
import { join } from 'node:path';
import { beforeAll, expect, test } from '@jest/globals';
import { configuredKeys } from '../../../../cli/session/session.ts';
import { useConfigFolders } from '../../../support/config-folder.ts';
import { codeOf } from '../../../support/world/run-record.ts';
import { service, writeTrust } from '../../../support/signing/people.ts';

const backend = service('backend');
const { folder } = useConfigFolders();
let directory: string;

beforeAll(async () => {
  directory = await folder();
  await writeTrust(join(directory, 'trust.jwks'), backend);
  await writeTrust(join(directory, 'twice.jwks'), backend, backend);
});

async function keys(yaml: string, mayAsk = true, env: Readonly<Record<string, string>> = {}) {
  const path = join(directory, 'given.yaml');
  await writeFile(path, yaml);
  return await configuredKeys(path, { env, directory }, mayAsk);
}

test('those of a file beside the configuration, of which nothing else is looked at', async () => {
  const yaml = 'trust: { mode: signed, jwks: trust.jwks }\nservers: { bank: { url: "${NOT_SET_HERE}" } }\n';
  expect(await keys(yaml)).toEqual([backend.entry]);
  expect(await keys(yaml, false)).toEqual([backend.entry]);
});

test('the keys of the zone, which workers alone have, are not asked for', async () => {
  const zone = 'zone: { keys: [{ id: zone-2026, key: "${COUNTERSIGN_ZONE_KEY}" }] }';
  expect(await keys(`trust: { mode: signed, jwks: trust.jwks, ${zone} }\n`)).toEqual([backend.entry]);
});

test.each<[string, string]>([
  ['in trust mode `temporal`', 'trust: { mode: temporal }\n'],
  ['that says nothing of trust', 'taskQueue: other\n'],
  ['that says nothing', '\n'],
])('none of a configuration %s', async (_, yaml) => {
  expect(await keys(yaml)).toBeUndefined();
});

test('none where there is no configuration', async () => {
  expect(await configuredKeys(undefined, { env: {}, directory }, true)).toBeUndefined();
});

test('those at a URL where somebody is asked anyway, and by the guarded way out alone', async () => {
  const yaml = 'trust: { mode: signed, jwks: "https://127.0.0.1:1/trust.jwks" }\n';
  expect(await keys(yaml, false)).toBeUndefined();
  expect(await codeOf(keys(yaml))).toBe('EGRESS_FORBIDDEN');
});

test.each([
  ['are not there', 'nowhere.jwks', 'TRUST_UNAVAILABLE'],
  ['stand there twice', 'twice.jwks', 'CONFIG_INVALID'],
])('keys that %s are an error, not none', async (_, jwks, code) => {
  expect(await codeOf(keys(`trust: { mode: signed, jwks: ${jwks} }\n`))).toBe(code);
});
