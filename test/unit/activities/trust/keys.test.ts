/** The trusted keys of a worker: where they are read from, when anew, and what is kept when they cannot be (§3.3, INV-G4). */
import { writeFile } from 'node:fs/promises';
import type { RequestListener } from 'node:http';
import { join } from 'node:path';
import { afterEach, describe, expect, test } from '@jest/globals';
import { createTrustedKeys, createTrustFile, createTrustUrl } from '../../../../activities/trust/keys.ts';
import { TrustConfig } from '../../../../contracts/schemas/trust.ts';
import { useConfigFolders } from '../../../support/config-folder.ts';
import { loopbackEgress } from '../../../support/egress.ts';
import { listenOnLoopback, type LoopbackServer } from '../../../support/servers/loopback-server.ts';
import { person, service, writeTrust } from '../../../support/signing/people.ts';

const config = TrustConfig.parse({ mode: 'signed', jwks: 'trust.jwks' });
if (config.mode !== 'signed') throw new Error('it is');

const ann = person('ann', 'ann', ['ops']);
const backend = service('backend', [], {
  speaksForMany: true,
  holder: 'b',
  retired: '2026-01-01T00:00:00.000Z',
  tenants: ['one', 'two'],
});

const { folder } = useConfigFolders();

/** A store whose document the test changes. */
function store(document: unknown) {
  const held = { document, reads: 0, freshMs: 1_000, name: 'the store' };
  return Object.assign(held, {
    read: async () => {
      held.reads += 1;
      if (held.document instanceof Error) throw held.document;
      return JSON.stringify(held.document);
    },
  });
}
const setOf = (...keys: readonly { readonly entry: unknown }[]) => ({ keys: keys.map(({ entry }) => entry) });
const kidsIn = async (promise: Promise<{ keys: readonly { kid: string }[] }>) =>
  (await promise).keys.map(({ kid }) => kid);

describe('what a run is given', () => {
  test('the keys of its tenant, and what they may assert', async () => {
    const keys = createTrustedKeys(config, store(setOf(ann, backend)));
    expect((await keys.setFor('default', 'kept')).keys).toEqual([
      { kid: 'ann', x: ann.entry.x, iss: 'acme', sub: 'ann', groups: ['ops'] },
    ]);
    expect(await keys.setFor('two', 'kept')).toEqual({
      keys: [
        {
          kid: 'backend',
          x: backend.entry.x,
          iss: 'acme',
          groups: [],
          speaksForMany: true,
          holder: 'b',
          retired: 1_767_225_600,
        },
      ],
      may: config.may,
      maxAgeSeconds: 900,
    });
  });

  test('no more than a run can hold', async () => {
    const many = Array.from({ length: 700 }, (_, index) =>
      person(`k-${index}`, `person-${index}`, ['a-long-group-name', 'another-one']),
    );
    const keys = createTrustedKeys(config, store(setOf(...many)));
    await expect(keys.setFor('default', 'kept')).rejects.toMatchObject({
      code: 'CONFIG_INVALID',
      facts: { path: 'trust.jwks' },
    });
  });
});

describe('when they are read', () => {
  test('once in a while, at once where somebody asks, and once at a time', async () => {
    let now = 0;
    const held = store(setOf(ann));
    const keys = createTrustedKeys(config, held, () => now);
    await Promise.all([keys.setFor('default', 'kept'), keys.setFor('default', 'new')]);
    now = 999;
    await keys.setFor('default', 'kept');
    expect(held.reads).toBe(1);
    held.document = setOf(ann, person('ben', 'ben'));
    expect(await kidsIn(keys.setFor('default', 'kept'))).toEqual(['ann']);
    expect(await kidsIn(keys.setFor('default', 'new'))).toEqual(['ann', 'ben']);
    now = 2_000;
    held.document = setOf(ann);
    expect(await kidsIn(keys.setFor('default', 'kept'))).toEqual(['ann']);
  });

  test('what cannot be read, or is not valid, leaves what was known, for a day', async () => {
    let now = 0;
    const held = store(setOf(ann));
    const keys = createTrustedKeys(config, held, () => now);
    await keys.setFor('default', 'new');
    for (const broken of [new Error('away'), {}, setOf(ann, ann), { keys: 'all' }]) {
      held.document = broken;
      expect(await kidsIn(keys.setFor('default', 'new'))).toEqual(['ann']);
    }
    now = 86_400_000;
    held.document = new Error('away');
    await expect(keys.setFor('default', 'new')).rejects.toMatchObject({ code: 'TRUST_UNAVAILABLE' });
  });

  test('while what was known stands in for keys that cannot be read, the log says so: revocations are not seen', async () => {
    let now = 0;
    const warnings: string[] = [];
    const held = store(setOf(ann));
    const keys = createTrustedKeys(
      config,
      held,
      () => now,
      (message) => warnings.push(message),
    );
    await keys.setFor('default', 'new');
    held.document = Object.assign(new Error('secret-canary'), { code: 'EACCES' });
    for (let times = 0; times < 3; times += 1) await keys.setFor('default', 'new');
    expect(warnings).toEqual([
      'The trusted keys of the store (trust.jwks) cannot be read (EACCES). Those of 1970-01-01T00:00:00.000Z count until 1970-01-02T00:00:00.000Z, with every key that was revoked since.',
    ]);
    // One that is not valid says where; it is told again after a while, and at once after keys that were taken.
    held.document = { keys: [{ ...ann.entry, kid: 7 }] };
    now = 900_000;
    await keys.setFor('default', 'new');
    held.document = setOf(ann);
    await keys.setFor('default', 'new');
    held.document = new Error('away');
    await keys.setFor('default', 'new');
    expect(warnings.slice(1)).toEqual([
      expect.stringContaining('keys[0].kid'),
      expect.stringContaining('00:15:00.000Z'),
    ]);
  });
});

test.each([
  ['no set', {}, 'CONFIG_INVALID'],
  ['a private key', { keys: [{ ...ann.entry, d: 'x' }] }, 'CONFIG_INVALID'],
  ['a key of another curve', { keys: [{ ...ann.entry, crv: 'P-256' }] }, 'CONFIG_INVALID'],
  ['a key that asserts nothing', { keys: [{ ...ann.entry, countersign: undefined }] }, 'CONFIG_INVALID'],
  [
    'a person without a subject',
    { keys: [{ ...ann.entry, countersign: { kind: 'person', iss: 'acme' } }] },
    'CONFIG_INVALID',
  ],
  [
    'a person who speaks for many',
    { keys: [{ ...ann.entry, countersign: { ...ann.entry.countersign, speaksForMany: true } }] },
    'CONFIG_INVALID',
  ],
  [
    'an issuer with a bar in it',
    { keys: [{ ...ann.entry, countersign: { kind: 'service', iss: 'a|b' } }] },
    'CONFIG_INVALID',
  ],
  ['one id twice', { keys: [ann.entry, { ...backend.entry, kid: 'ann' }] }, 'CONFIG_INVALID'],
  ['one key under two ids', { keys: [ann.entry, { ...ann.entry, kid: 'again' }] }, 'CONFIG_INVALID'],
  ['nothing', new Error('away'), 'TRUST_UNAVAILABLE'],
])('a worker does not start with %s', async (_what, document, code) => {
  await expect(createTrustedKeys(config, store(document)).setFor('default', 'new')).rejects.toMatchObject({ code });
});

test('a file is read when it has changed, and its old content stands in for a broken one', async () => {
  const path = join(await folder(), 'trust.jwks');
  await writeTrust(path, ann);
  const file = createTrustFile(path, 'trust.jwks');
  const first = await file.read();
  expect(await file.read()).toBe(first);
  const keys = createTrustedKeys(config, file);
  expect(await kidsIn(keys.setFor('default', 'kept'))).toEqual(['ann']);
  await writeTrust(path, ann, person('ben', 'ben'));
  expect(await kidsIn(keys.setFor('default', 'kept'))).toEqual(['ann', 'ben']);
  await writeFile(path, '{"keys": [');
  expect(await kidsIn(keys.setFor('default', 'kept'))).toEqual(['ann', 'ben']);
});

describe('a URL', () => {
  let server: LoopbackServer;
  const serve = async (answer: RequestListener): Promise<string> => {
    server = await listenOnLoopback(answer);
    return `${server.origin}/trust`;
  };
  afterEach(async () => server.close());

  test('is read', async () => {
    const url = await serve((_request, response) => void response.end(JSON.stringify(setOf(ann))));
    expect(
      await kidsIn(createTrustedKeys(config, createTrustUrl(url, loopbackEgress())).setFor('default', 'kept')),
    ).toEqual(['ann']);
  });

  test.each<readonly [string, RequestListener]>([
    ['a redirect', (_request, response) => void response.writeHead(302, { location: '/other' }).end()],
    ['an error', (_request, response) => void response.writeHead(500).end('{"keys":[]}')],
    ['what is no JSON', (_request, response) => void response.end('<html>')],
    ['more than a set may be', (_request, response) => void response.end(`{"keys":["${'x'.repeat(5_000_000)}"]}`)],
  ])('that answers with %s is not believed', async (_what, answer) => {
    const keys = createTrustedKeys(config, createTrustUrl(await serve(answer), loopbackEgress()));
    await expect(keys.setFor('default', 'new')).rejects.toMatchObject({ code: 'TRUST_UNAVAILABLE' });
  });
});
