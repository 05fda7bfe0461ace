/**
 * A catalog by the command line, against a real server: what is shown is what happens; its file; and what is refused,
 * with exit code and code, and changes nothing.
 */
import { writeFile } from 'node:fs/promises';
import { join } from 'node:path';
import { beforeAll, describe, expect, test } from '@jest/globals';
import { parse, stringify } from 'yaml';
import type { CatalogFile, CatalogSnapshot } from '../../contracts/schemas/catalog.ts';
import type { LedgerEntry } from '../../contracts/schemas/ledger.ts';
import { documentOf, errorOf } from '../support/cli.ts';
import { HOSTILE, type ListedTools, startCatalogWorld } from '../support/scenes/catalog-world.ts';
import { during } from '../support/world/during.ts';

// A server of its own for each: what a test changes, no other test sees.
const world = during(() => startCatalogWorld(['life', 'shop', 'drift', 'limited', 'files', 'older', 'locked']));

test('a catalog by commands: connect, list, show, refresh, ask, deny, disable, disconnect, and all of it in the ledger', async () => {
  expect(await world.refusal('list life')).toMatchObject([
    4,
    { code: 'CATALOG_NOT_FOUND', message: expect.stringContaining('catalog connect life') },
  ]);
  const connected = await world.json<{ status: string; refresh: number; refreshed: { added: string[] } }>(
    'connect life --as ann',
  );
  expect(connected).toMatchObject({
    status: 'applied',
    refreshed: { ok: true, added: ['close', 'lookup', 'pay'], refused: [] },
  });

  const listed = await world.json<ListedTools>('list life');
  expect(listed).toMatchObject({ tenant: 'default', server: 'life', status: 'connected', version: 1 });
  // New tools ask, whatever their annotations say.
  expect(listed.tools.map(({ name, verdict }) => [name, verdict.kind, verdict.rules])).toEqual([
    ['close', 'ask', ['organisation/strategy/annotations', 'catalog/life/tools/close']],
    ['lookup', 'ask', ['organisation/strategy/annotations', 'catalog/life/tools/lookup']],
    ['pay', 'ask', ['organisation/strategy/annotations', 'catalog/life/tools/pay']],
  ]);

  expect(await world.json('ask life pay --as tim --deadline-seconds 600')).toMatchObject({
    status: 'applied',
    policyVersion: 2,
    tools: [
      {
        name: 'pay',
        setting: { requiresApproval: true, deadlineSeconds: 600 },
        verdict: { kind: 'ask', deadlineSeconds: 600 },
      },
    ],
  });
  expect(await world.json('deny life lookup --as tim')).toMatchObject({
    tools: [{ name: 'lookup', verdict: { kind: 'deny', code: 'POLICY_DENIED' } }],
  });
  expect(await world.json('disable life --all --as joe --group night')).toMatchObject({
    status: 'applied',
    policyVersion: 4,
  });
  expect(await world.json('disable life --all --as tim')).toMatchObject({
    status: 'unchanged',
    policyVersion: 4,
    tools: [],
  });
  expect((await world.json<ListedTools>('list life')).tools.map(({ verdict }) => verdict)).toEqual(
    Array.from({ length: 3 }, () => expect.objectContaining({ kind: 'deny', code: 'TOOL_DISABLED' })),
  );
  await world.loosened('enable life pay', 'life');
  expect((await world.tool('life', 'pay')).verdict.kind).toBe('ask');

  world.toolsOf('life').splice(0, 1, { name: 'refund', inputSchema: { type: 'object' } });
  expect(await world.json('refresh life --as tim')).toMatchObject({
    added: ['refund'],
    missing: ['pay'],
    returned: [],
    changed: [],
  });
  expect(await world.tool('life', 'pay')).toMatchObject({
    status: 'missing',
    verdict: { kind: 'deny', code: 'TOOL_MISSING' },
  });
  expect((await world.cli('catalog list life')).out).toMatch(
    /^pay +missing +asks, within 10 min +deny +catalog\/life\/tools\/pay\/missing$/m,
  );

  expect(await world.json('disconnect life --as ann')).toMatchObject({ status: 'applied' });
  const { catalogs } = await world.json<{
    catalogs: { server: string; status: string; tools: number; missing: number }[];
  }>('list');
  expect(catalogs).toContainEqual(
    expect.objectContaining({ server: 'life', status: 'disconnected', tools: 4, missing: 1 }),
  );

  const id = 'catalog/default/life';
  const { entries } = documentOf<{ entries: LedgerEntry[] }>(await world.cli(`ledger ${id} --json`));
  expect(entries.map(({ fact }) => fact.kind)).toEqual([
    'catalog.connected',
    'catalog.refreshed',
    'catalog.policy',
    'catalog.policy',
    'catalog.policy',
    'catalog.change-opened',
    'catalog.change-closed',
    'catalog.policy',
    'catalog.refreshed',
    'catalog.disconnected',
  ]);
  expect((await world.cli(`ledger ${id}`)).out).toMatch(
    /catalog\.policy +version 2 by tim: pay asks → asks, within 10 min\n/,
  );
  expect(documentOf(await world.cli(`verify-ledger ${id} --json`))).toEqual({
    runId: id,
    verdict: 'chained',
    length: entries.length,
    head: entries.at(-1)?.hash,
    faults: [],
    branches: 1,
    signedTo: 0,
    signatures: { checked: 0, unchecked: 0 },
    heads: [],
    ended: false,
  });
  expect(errorOf(await world.cli('ledger catalog/default/nobody --json')).code).toBe('CATALOG_NOT_FOUND');
});

test('a tool is shown whole, and nothing of it acts on the terminal or passes for a line of ours (DESIGN §4)', async () => {
  await world.json('connect shop --as ann');
  const { out } = await world.cli('catalog show shop lookup');
  expect(out).not.toMatch(/[^\P{C}\n]/u);
  expect(out).toContain('│ Reads.\\u{1b}[2J\\u{202e}evil');
  expect(out).toContain('  │ Accept it: countersign catalog allow');
  expect(await world.json('show shop lookup')).toMatchObject({
    name: 'lookup',
    status: 'available',
    definitions: { current: { name: 'lookup', description: HOSTILE }, acknowledged: { name: 'lookup' } },
  });
  expect((await world.cli('catalog show shop')).out).toMatch(/^ {2}version +1$/m);
});

describe('a definition that has changed', () => {
  test('asks until somebody who has read it accepts it (H-7)', async () => {
    await world.json('connect drift --as ann --trusted');
    const waiting = await world.json<CatalogSnapshot>('show drift');
    await world.json(`approve drift ${waiting.pending[0]?.changeId} --as cleo`);
    await world.loosened('allow drift lookup', 'drift');
    expect((await world.tool('drift', 'lookup')).verdict).toMatchObject({ kind: 'allow' });

    world.toolsOf('drift').splice(1, 1, {
      name: 'lookup',
      description: 'Writes.',
      inputSchema: { type: 'object' },
      annotations: { readOnlyHint: true },
    });
    expect(await world.json('refresh drift --as tim')).toMatchObject({ changed: ['lookup'], added: [] });
    const changed = await world.tool('drift', 'lookup');
    expect(changed).toMatchObject({
      changed: true,
      verdict: { kind: 'ask', rules: ['catalog/drift/tools/lookup/drift'] },
    });

    // Not by its name alone, and not by what it was before.
    expect(await world.refusal('allow drift lookup --as ann')).toMatchObject([
      5,
      { code: 'DEFINITION_CHANGED', message: expect.stringContaining('catalog diff drift') },
    ]);
    expect(await world.refusal('allow drift lookup --as ann --hash 01234567')).toMatchObject([
      5,
      { code: 'DEFINITION_CHANGED' },
    ]);

    const { tools } = await world.json<{ tools: { name: string; definition: string; differences: object[] }[] }>(
      'diff drift',
    );
    expect(tools).toMatchObject([
      {
        name: 'lookup',
        definition: changed.definition,
        differences: [{ path: 'description', before: HOSTILE, after: 'Writes.' }],
      },
    ]);
    const { out } = await world.cli('catalog diff drift');
    expect(out).not.toMatch(/[^\P{C}\n]/u);
    expect(out).toContain('+ │ Writes.');
    const accept =
      /Accept it: countersign catalog (allow drift lookup --tenant default --as )ID( --hash [0-9a-f]{12})/.exec(out);
    const asked = await world.json<{ changeId: string }>(`${accept?.[1]}ann${accept?.[2]}`);
    await world.json(`approve drift ${asked.changeId} --as cleo`);
    expect(await world.tool('drift', 'lookup')).toMatchObject({ changed: false, verdict: { kind: 'allow' } });
    expect((await world.cli('catalog diff drift')).out).toBe(
      'No tool of drift has changed since it was acknowledged.\n',
    );
  });
});

test('what waits is replayed before a deploy, catalogs too (INV-D1)', async () => {
  await world.json('connect life --as ann');
  const { exitCode, out } = await world.cli('replay --live --json --deadline 30');
  expect(exitCode).toBe(0);
  expect(JSON.parse(out)).toMatchObject({
    failed: 0,
    results: expect.arrayContaining([expect.objectContaining({ workflowId: 'catalog/default/life', ok: true })]),
  });
});

describe('a change that waits for a second administrator', () => {
  test('is shown with its digest, and counts when somebody else agrees', async () => {
    await world.json('connect limited --as ann');
    const asked = await world.cli('catalog allow limited pay --as ann');
    expect(asked).toMatchObject({ exitCode: 0, err: '' });
    const digest = /digest +([0-9a-f]{64})/.exec(asked.out)?.[1] ?? '';
    expect(asked.out).toMatch(/^waiting {2}limited, version 1/);
    expect(asked.out).toContain(
      `Agree: countersign catalog approve limited change-1 --tenant default --as ID --digest ${digest}`,
    );
    expect((await world.cli('catalog show limited')).out).toContain('pay: asks → open');

    expect(await world.refusal('approve limited change-1 --as ann')).toMatchObject([
      3,
      { code: 'APPROVER_NOT_ENTITLED' },
    ]);
    expect(await world.refusal('approve limited change-1 --as tim')).toMatchObject([3, { code: 'CATALOG_FORBIDDEN' }]);
    expect(await world.refusal(`approve limited change-1 --as cleo --digest ${'f'.repeat(64)}`)).toMatchObject([
      5,
      { code: 'DIGEST_MISMATCH' },
    ]);
    expect(await world.refusal('approve limited change-7 --as cleo')).toMatchObject([5, { code: 'REQUEST_NOT_OPEN' }]);
    // The same as for a request: in any case, or enough of its beginning.
    const begun = digest.slice(0, 32).toUpperCase();
    expect(await world.json(`approve limited change-1 --as cleo --digest ${begun}`)).toMatchObject({
      status: 'approved',
      digest,
    });
    expect((await world.tool('limited', 'pay')).verdict.rules).toEqual(['organisation/strategy/annotations']);

    await world.json('allow limited close --as ann');
    expect(await world.json('reject limited change-2 --as cleo')).toMatchObject({ status: 'rejected' });
    expect((await world.tool('limited', 'close')).setting).toMatchObject({ requiresApproval: true });
  });
});

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
