/** A catalog and its file, and whatever the command line is refused: exit code, code, and nothing is changed. */
import { writeFile } from 'node:fs/promises';
import { join } from 'node:path';
import { afterAll, beforeAll, describe, expect, test } from '@jest/globals';
import { parse, stringify } from 'yaml';
import type { CatalogFile, CatalogSnapshot } from '../../contracts/schemas/catalog.ts';
import { type CatalogWorld, type ListedTools, startCatalogWorld } from '../support/scenes/catalog-world.ts';
import { documentOf } from '../support/cli.ts';

let world: CatalogWorld;
beforeAll(async () => {
  // A server of its own for each: what a test changes, no other test sees.
  world = await startCatalogWorld(['files', 'shop', 'older', 'locked']);
});
afterAll(async () => world.stop());

describe('a file', () => {
  const path = (name: string): string => join(world.directory, name);

  test('that was written out changes nothing when it is brought back, and sets what is changed in it', async () => {
    await world.json('connect files --as ann');
    await world.json('ask files pay --as ann --deadline-seconds 60');
    const written = (await world.cli('catalog export files')).out;
    expect((await world.cli('catalog export files')).out).toBe(written);
    expect(documentOf(await world.cli('catalog export files --json'))).toEqual(parse(written));
    await writeFile(path('files.yaml'), written);
    expect(await world.json('import files.yaml --plan')).toMatchObject({
      version: 2,
      changes: [],
      refused: [],
      outdated: [],
      unnamed: [],
      connection: [],
    });
    expect(await world.json('import files.yaml --as ann')).toMatchObject({ status: 'unchanged', policyVersion: 2 });

    // Sound: it was just written in this shape.
    const file = parse(written) as CatalogFile;
    const { close, lookup, pay } = file.tools;
    if (close === undefined || lookup === undefined || pay === undefined) throw new Error('a tool is missing');
    const edited = { ...file, tools: { close: { ...close, denied: true }, pay: { ...pay, enabled: false } } };
    await writeFile(path('edited.yaml'), stringify(edited));
    const plan = await world.cli('catalog import edited.yaml --plan');
    expect(plan).toMatchObject({ exitCode: 0, err: '' });
    expect(plan.out).toContain('close: asks → denied, asks');
    expect(plan.out).toMatch(/not named +lookup/);
    expect((await world.json<ListedTools>('list files')).version).toBe(2);
    expect(await world.json('import edited.yaml --as tim')).toMatchObject({ status: 'applied', policyVersion: 3 });
    expect((await world.tool('files', 'close')).verdict).toMatchObject({ kind: 'deny', code: 'POLICY_DENIED' });
    expect((await world.tool('files', 'pay')).verdict).toMatchObject({ kind: 'deny', code: 'TOOL_DISABLED' });
    expect(await world.json('import edited.yaml --plan')).toMatchObject({ changes: [] });
  });

  test('with a tool that is not there, or for a definition that is another one, is refused; the other is set', async () => {
    const lines = (tools: object): string => JSON.stringify({ tenant: 'default', server: 'files', version: 1, tools });
    const open = { enabled: true, requiresApproval: false, denied: false };
    expect(await world.refusal('import - --as ann', lines({ lokup: open }))).toMatchObject([
      4,
      {
        code: 'TOOL_UNKNOWN',
        message: expect.stringMatching(/^standard input, tools\["lokup"\].*Did you mean lookup\?/),
      },
    ]);
    const other = { ...open, definition: 'a'.repeat(64) };
    expect(await world.refusal('import - --as ann', lines({ lookup: other }))).toMatchObject([
      5,
      { code: 'DEFINITION_CHANGED' },
    ]);
    expect(await world.json('import - --plan', lines({ lookup: other }))).toMatchObject({
      changes: [],
      refused: ['lookup'],
    });
    expect(await world.refusal('import - --as ann', lines({ lookup: { ...open, note: 'x' } }))).toMatchObject([
      2,
      { code: 'CATALOG_INVALID', facts: { path: 'tools.lookup.note' } },
    ]);
    expect(await world.refusal('import - --plan --server shop', lines({ lookup: open }))).toMatchObject([
      2,
      { code: 'USAGE' },
    ]);
    expect(await world.refusal('import -', lines({ lookup: open }))).toMatchObject([2, { code: 'USAGE' }]);
  });

  test('of the older shape, a plain list, is read where the server is named', async () => {
    await world.json('connect older --as ann');
    const list = JSON.stringify([
      { name: 'pay', description: 'Pays.', enabled: false, requires_approval: true, status: 'available' },
      { name: 'lookup', description: 'Reads.' },
    ]);
    expect(await world.refusal('import - --plan', list)).toMatchObject([
      2,
      { code: 'USAGE', message: expect.stringContaining('--server') },
    ]);
    expect(await world.json('import - --plan --server older', list)).toMatchObject({
      changes: [
        { tool: 'lookup', after: { enabled: true, requiresApproval: false } },
        { tool: 'pay', after: { enabled: false, requiresApproval: true } },
      ],
    });
    expect(await world.json('import - --server older --as ann', list)).toMatchObject({
      status: 'waiting',
      changeId: 'change-1',
    });
    const unknown = JSON.stringify([{ name: 'pay', status: 'retired' }]);
    expect(await world.refusal('import - --plan --server older', unknown)).toMatchObject([
      2,
      { code: 'CATALOG_INVALID', facts: { path: '[0].status' } },
    ]);
  });
});

describe('what is refused changes nothing', () => {
  beforeAll(async () => {
    await world.json('connect locked --as ann');
  });

  test.each([
    ['another version', 'deny locked pay --as ann --expected-version 7', 5, 'CATALOG_VERSION_CONFLICT'],
    ['a stranger', 'deny locked pay --as mallory', 3, 'CATALOG_FORBIDDEN'],
    ['somebody who may only tighten, to loosen', 'allow locked pay --as tim', 3, 'CATALOG_FORBIDDEN'],
    ['a tool that is not there', 'deny locked pai --as ann', 4, 'TOOL_UNKNOWN'],
    ['tools and all', 'deny locked pay --all --as ann', 2, 'USAGE'],
    ['no tool', 'deny locked --as ann', 2, 'USAGE'],
    ['a server name that is none', 'list no:name', 2, 'CATALOG_INVALID'],
    ['a server that nobody named', 'connect nowhere --as ann', 2, 'USAGE'],
    [
      'an address with a secret in it',
      'connect locked --as ann --url http://ann:pw@127.0.0.1/mcp',
      2,
      'CATALOG_INVALID',
    ],
    [
      'an address where nobody may connect',
      'connect locked --as ann --url http://127.0.0.1:9/mcp',
      3,
      'CATALOG_SETTING_UNSUPPORTED',
    ],
    ['a deadline of nothing', 'ask locked pay --as ann --deadline-seconds 0', 2, 'CATALOG_INVALID'],
    ['a catalog of another tenant', 'deny locked pay --as ann --tenant acme', 4, 'CATALOG_NOT_FOUND'],
    ['nobody', 'deny locked pay', 2, 'USAGE'],
  ])('%s', async (_what, line, exitCode, code) => {
    const before = documentOf<CatalogSnapshot>(await world.cli('catalog show locked --json'));
    const [exit, error] = await world.refusal(line);
    expect([exit, error.code]).toEqual([exitCode, code]);
    expect(error.message).not.toContain('ann:pw');
    expect(documentOf<CatalogSnapshot>(await world.cli('catalog show locked --json')).ledgerHead).toBe(
      before.ledgerHead,
    );
  });

  test('a refresh that fails exits with its code, and leaves the tools as they were', async () => {
    await world.close('locked');
    const [exitCode, error] = await world.refusal('refresh locked --as ann --deadline 120');
    expect([exitCode, error.code]).toEqual([6, expect.stringMatching(/DISCOVERY_FAILED|TOOL_UNAVAILABLE/)]);
    const listed = await world.json<ListedTools>('list locked');
    expect(listed.tools.map(({ status }) => status)).toEqual(['available', 'available', 'available']);
  });
});
