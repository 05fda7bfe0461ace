/**
 * The pages beyond the inbox, in Chromium, on the whole stack: other arguments by the schema of their tool,
 * definitions, ledgers, catalogs, and the start of runs.
 *
 * One file, because all of it is one stack.
 *
 * 1. `UPDATE_SCREENSHOTS=1` writes the pictures of the guide anew; look at them before committing.
 */
import { afterAll, afterEach, beforeAll, describe, expect, jest, test } from '@jest/globals';
import type { Locator, Page, Route } from 'playwright-core';
import type { ToolChange } from '../../contracts/schemas/catalog.ts';
import type { JsonObject } from '../../contracts/schemas/json.ts';
import { until } from '../support/until.ts';
import { decisionOn, openRequests } from '../support/world/world.ts';
import { type RecordingServer, startRecordingServer } from '../support/servers/recording-server.ts';
import { DESK, done, faultsOf, LONG_MS, type PagesWorld, PHONE, picture, startPagesWorld } from './pages-world.ts';

jest.setTimeout(LONG_MS);

const ORDER = {
  name: 'order',
  title: 'Order goods',
  description: 'Orders goods from a supplier. The supplier sends an invoice.',
  inputSchema: {
    type: 'object' as const,
    required: ['supplier', 'lines', 'currency'],
    additionalProperties: false,
    properties: {
      purpose: { type: 'string' },
      supplier: { type: 'string', minLength: 2, maxLength: 80, description: 'Name as in the register of suppliers.' },
      currency: { enum: ['EUR', 'USD', 'CHF'] },
      express: { type: 'boolean', default: false, description: 'Delivery on the next working day, for 15 more.' },
      lines: {
        type: 'array',
        minItems: 1,
        maxItems: 5,
        items: { $ref: '#/$defs/Line' },
      },
      note: { anyOf: [{ type: 'string', maxLength: 200 }, { type: 'null' }], title: 'Note to the supplier' },
    },
    $defs: {
      Line: {
        type: 'object',
        required: ['article', 'count'],
        properties: {
          article: { type: 'string', pattern: '^[A-Z]{2}-[0-9]{4}$' },
          count: { type: 'integer', minimum: 1, maximum: 100 },
        },
      },
    },
  },
};
const ORDERED = {
  supplier: 'Müller GmbH',
  currency: 'EUR',
  express: true,
  lines: [{ article: 'AB-1200', count: 40 }],
} as const satisfies JsonObject;

const VIEWS = [
  ['desk', DESK, 'light'],
  ['phone', PHONE, 'dark'],
] as const;

/** What the shop lists now. */
const sold: (typeof ORDER)[] = [ORDER];
let shop: RecordingServer;
let pages: PagesWorld;

beforeAll(async () => {
  // oidc-provider says on the console that it runs on Node 20 and without a store.
  jest.spyOn(console, 'info').mockImplementation(() => undefined);
  jest.spyOn(console, 'warn').mockImplementation(() => undefined);
  shop = await startRecordingServer({ tools: sold });
  const server = { url: shop.url, credentials: { kind: 'none' as const }, recheckSeconds: 0 };
  const steps = [{ calls: [{ tool: 'bank/pay', arguments: { purpose: 'started', amount: 5 } }] }, { text: 'Paid.' }];
  pages = await startPagesWorld({
    config: {
      servers: { shop: server },
      models: { small: { provider: 'scripted', script: { steps } } },
      catalog: {
        administrators: [
          { ids: ['ann', 'cleo'], may: ['connect', 'loosen', 'tighten'] },
          { ids: ['tim'], may: ['tighten'] },
        ],
        origins: [new URL(shop.url).origin],
        loosening: 'countersign',
      },
    },
    gateway: {
      may: { start: { ids: ['ann'] }, read: { groups: ['finance'] } },
      agents: {
        payer: {
          title: 'Pay invoices',
          description: 'Reads an invoice and pays it. Paste the invoice.',
          spec: { agent: { name: 'payer', model: 'small' }, servers: [{ name: 'bank' }] },
        },
        buyer: {
          title: 'Buy office goods',
          description: 'Orders from the suppliers of the register. Say what is needed, and by when.',
          spec: { agent: { name: 'buyer', model: 'small' }, servers: [{ name: 'shop' }] },
        },
      },
    },
  });
});
afterEach(async () => await pages.clear());
afterAll(async () => {
  await pages?.stop();
  await shop?.close();
});

const compare = async (page: Page) =>
  await page.getByRole('button', { name: 'Compare before approving' }).first().click();

test('other arguments follow the schema of the tool, and need no JavaScript', async () => {
  const { run, path } = await pages.asking({ purpose: 'by schema', ...ORDERED }, SHOP, 'shop/order');
  const page = await pages.signedIn('ann', path, { javaScriptEnabled: false });
  await page.getByRole('link', { name: 'Approve with other arguments' }).click();
  await page.getByText('Name as in the register of suppliers.').waitFor();
  await page.getByLabel('supplier').first().fill('Meier AG');
  await page.getByLabel('count').fill('20');
  await page.getByLabel('currency').selectOption('CHF');
  await page.locator('[type=checkbox][name="argument.3"]').uncheck();
  await page.getByRole('button', { name: 'Add an item to lines' }).click();
  await page.getByLabel('article').nth(1).fill('CD-0001');
  await page.getByLabel('count').nth(1).fill('0');
  // The browser checks the same bounds; this form comes from one that does not.
  await page
    .locator('form[data-edit]')
    .first()
    .evaluate((form: { noValidate: boolean }) => (form.noValidate = true));
  await compare(page);
  expect(await page.locator('.problem').allInnerTexts()).toEqual(['must be at least 1']);
  expect(await page.getByLabel('supplier').first().inputValue()).toBe('Meier AG');
  await page.getByLabel('count').nth(1).fill('2');
  await compare(page);
  const changes = await page.getByRole('region', { name: 'What you change' }).innerText();
  expect(changes).toMatch(/Müller GmbH[\s\S]*Meier AG/);
  await page.getByRole('button', { name: 'Approve these arguments' }).click();
  await done(page);
  await run.result();
  expect(shop.callsFor('by schema').map(({ arguments: args }) => args)).toEqual([
    {
      purpose: 'by schema',
      supplier: 'Meier AG',
      currency: 'CHF',
      express: false,
      lines: [
        { article: 'AB-1200', count: 20 },
        { article: 'CD-0001', count: 2 },
      ],
    },
  ]);
});

test.each(VIEWS)('the form of other arguments reads well at %s width', async (name, viewport, colorScheme) => {
  const { path } = await pages.asking({ ...ORDERED }, SHOP, 'shop/order');
  const page = await pages.signedIn('ann', `${path}/edit`, { viewport, colorScheme });
  expect(await faultsOf(page)).toEqual([]);
  await picture(page, `edit-${name}`, true);
  await page.getByLabel('count').fill('20');
  await compare(page);
  await page.getByRole('heading', { name: 'What you change' }).waitFor();
  const changes = page.getByRole('region', { name: 'What you change' });
  // What was not touched is as it was, also what is checked.
  expect(await changes.getByRole('term').allInnerTexts()).toEqual(['lines[0].count']);
  expect(await faultsOf(page)).toEqual([]);
  await picture(page, `compare-${name}`);
});

test('who is asked again sees what has changed in the definition, and the earlier calls of the tool', async () => {
  const { run, path } = await pages.asking({ purpose: 'changed', ...ORDERED }, SHOP, 'shop/order');
  const page = await pages.signedIn('ann', path);
  await page.getByText('The whole definition').click();
  await page.getByText('"inputSchema"').waitFor();
  sold[0] = { ...ORDER, description: 'Orders goods, and pays for them at once.' };
  try {
    await page.getByRole('button', { name: 'Approve', exact: true }).click();
    await until(async () => (await run.requests())[0]?.reopenedBecause !== undefined, { what: 'asked again' });
    await page.goto(`${pages.url}${path}`);
    const tool = page.getByRole('region', { name: 'What the server says of its tool' });
    await tool.getByText('Changed since this run listed its tools').waitFor();
    expect(await page.locator('.banner.warning').innerText()).toMatch(/description was .*sends an invoice/);
    expect(await faultsOf(page)).toEqual([]);
    await run.stop({ by: 'ann', reason: 'seen' });
  } finally {
    sold[0] = ORDER;
  }
});

test.each(VIEWS)(
  'the ledger of a run is checked, and the page says what that shows, at %s width',
  async (name, viewport, colorScheme) => {
    const twice = [
      { calls: [{ tool: 'bank/pay', arguments: { n: 1 } }] },
      { calls: [{ tool: 'bank/pay', arguments: { n: 2 } }] },
      { text: 'done' },
    ];
    const run = await pages.world.start(twice);
    const [first] = await openRequests(run);
    await run.decide(decisionOn(first, 'ann'));
    await until(async () => (await run.requests())[0]?.callId === 't2.c0', { what: 'the second call' });
    const page = await pages.signedIn('ann', `/runs/${run.runId}/requests/t2.c0`, { viewport, colorScheme });
    expect(await page.getByRole('region', { name: 'This tool, earlier in this run' }).innerText()).toMatch(
      /1 call\.[\s\S]*succeeded[\s\S]*t1\.c0/,
    );
    await page.goto(`${pages.url}/runs/${run.runId}`);
    await page.getByRole('link', { name: 'Check the ledger' }).click();
    await page.getByText('The chain is unbroken.').waitFor();
    const { ledgerLength, ledgerHead } = await run.state();
    expect(await page.locator('main').innerText()).toContain(`All ${ledgerLength} entries`);
    expect(await page.locator('.digest').innerText()).toBe(ledgerHead);
    expect(await faultsOf(page)).toEqual([]);
    await picture(page, `ledger-${name}`);
  },
);

/** Moves by the tabulator until this has the focus. */
async function tabTo(page: Page, wanted: Locator): Promise<void> {
  for (let pressed = 0; pressed < 60; pressed += 1) {
    if (await wanted.evaluate((element: { matches(selector: string): boolean }) => element.matches(':focus'))) return;
    await page.keyboard.press('Tab');
  }
  throw new Error('the keyboard does not reach it');
}

test('arguments are changed by the keyboard alone', async () => {
  const { run, path } = await pages.asking({ purpose: 'by keys', ...ORDERED }, SHOP, 'shop/order');
  const page = await pages.signedIn('ann', path);
  await tabTo(page, page.getByRole('link', { name: 'Approve with other arguments' }));
  await page.keyboard.press('Enter');
  const count = page.getByLabel('count');
  await count.waitFor();
  await tabTo(page, count);
  await page.keyboard.press('Control+A');
  await page.keyboard.type('7');
  // Enter in a field compares, and never adds an item.
  await page.keyboard.press('Enter');
  await page.getByRole('heading', { name: 'What you change' }).waitFor();
  await page.keyboard.press('a');
  await page.keyboard.press('Enter');
  await done(page);
  await run.result();
  expect(shop.callsFor('by keys')[0]?.arguments).toMatchObject({ lines: [{ article: 'AB-1200', count: 7 }] });
});

describe('catalogs', () => {
  const settingOf = async (tool: string) => {
    const { entries } = await pages.world.countersign.catalog('shop').snapshot();
    return entries.find(({ name }) => name === tool)?.setting;
  };

  test('are connected, read, set and refreshed; a second administrator agrees to what loosens', async () => {
    sold.push({ ...ORDER, name: 'cancel' }, { ...ORDER, name: 'refund', description: '<img src=x> \u{202e}evil' });
    const page = await pages.signedIn('ann', '/catalogs', { javaScriptEnabled: false });
    await page.getByText('Connect a server').click();
    await page.locator('[name=server]').fill('shop');
    await page.getByRole('button', { name: 'Connect', exact: true }).click();
    await page.getByRole('heading', { name: 'shop' }).waitFor();
    await page.getByText('What the last refresh changed').waitFor();
    expect(await page.locator('tbody tr').count()).toBe(3);
    await page.getByLabel('cancel: deny').check();
    await page.getByLabel('refund: enabled').uncheck();
    await page.getByRole('button', { name: 'Save the changes' }).click();
    await page.getByRole('link', { name: 'Denied 1' }).click();
    expect(await page.locator('tbody tr').allInnerTexts()).toEqual([expect.stringContaining('cancel')]);
    expect(await settingOf('cancel')).toMatchObject({ enabled: true, denied: true });
    expect(await settingOf('refund')).toMatchObject({ enabled: false });

    // Loosening waits for a second person.
    await page.getByLabel('cancel: deny').uncheck();
    await page.getByRole('button', { name: 'Save the changes' }).click();
    const waiting = page.getByRole('region', { name: 'Change that waits' });
    expect(await waiting.innerText()).toMatch(/Asked for by ann[\s\S]*cancel[\s\S]*denied[\s\S]*true[\s\S]*false/);
    expect(await waiting.getByRole('button', { name: 'Agree' }).count()).toBe(0);
    expect(await settingOf('cancel')).toMatchObject({ denied: true });
    const other = await pages.signedIn('cleo', '/catalogs/shop');
    await other.getByRole('button', { name: 'Agree' }).click();
    await other.getByRole('link', { name: 'Denied 0' }).waitFor();
    expect(await settingOf('cancel')).toMatchObject({ denied: false });

    // A definition that changes is told, read and acknowledged.
    sold[1] = { ...ORDER, name: 'cancel', description: 'Cancels, and charges a fee.' };
    await page.goto(`${pages.url}/catalogs/shop`);
    await page.getByRole('button', { name: 'Refresh' }).click();
    await page.getByText('definition changed').waitFor();
    await page.getByRole('link', { name: 'cancel', exact: true }).click();
    await page.getByText('Cancels, and charges a fee.').first().waitFor();
    await page.getByRole('button', { name: 'Acknowledge this definition' }).click();
    expect(await waiting.innerText()).toContain('its definition acknowledged');
    await other.goto(`${pages.url}/catalogs/shop`);
    await other.getByRole('button', { name: 'Refuse' }).click();
    await other.getByText('definition changed').waitFor();
    expect(await other.getByRole('region', { name: 'Change that waits' }).count()).toBe(0);
  });

  test('offer to each person what the catalog would take from them, and readers no toggle', async () => {
    const reader = await pages.signedIn('ben', '/catalogs/shop');
    expect(await reader.getByRole('checkbox').count()).toBe(0);
    expect(await reader.getByRole('button').allInnerTexts()).toEqual(['Sign out']);
    const tim = await pages.signedIn('tim', '/catalogs/shop');
    // Who may only tighten may switch off what is on, and deny what is not denied, and nothing back.
    expect(await tim.getByLabel('refund: enabled').isDisabled()).toBe(true);
    expect(await tim.getByLabel('order: enabled').isDisabled()).toBe(false);
    await tim.getByLabel('order: ask').check();
    await tim.getByRole('button', { name: 'Save the changes' }).click();
    await tim.waitForURL('**/catalogs/shop');
    expect(await settingOf('order')).toMatchObject({ requiresApproval: true });
    expect(await tim.getByLabel('order: ask').isDisabled()).toBe(true);
    const eve = await pages.signedIn('eve', '/catalogs');
    expect(await eve.locator('main').innerText()).toContain('No catalog yet');
    expect(await eve.getByRole('link', { name: 'Catalogs' }).count()).toBe(0);
    await eve.goto(`${pages.url}/catalogs/shop`);
    expect(await eve.locator('main').innerText()).toContain('CATALOG_NOT_FOUND');
  });

  test('that somebody else has changed are not changed by an old page', async () => {
    const page = await pages.signedIn('ann', '/catalogs/shop');
    await page.getByLabel('order: enabled').uncheck();
    const tim = await pages.signedIn('tim', '/catalogs/shop');
    await tim.getByLabel('order: deny').check();
    await tim.getByRole('button', { name: 'Save the changes' }).click();
    await tim.getByRole('link', { name: 'Denied 1' }).waitFor();
    // The page has heard of it, and leaves the switch as it was turned.
    await page.getByText('This page has changed.').waitFor();
    expect(await page.getByLabel('order: enabled').isChecked()).toBe(false);
    expect(await page.getByLabel('order: deny').isChecked()).toBe(false);
    await page.getByRole('button', { name: 'Save the changes' }).click();
    await page.getByText('CATALOG_VERSION_CONFLICT').waitFor();
    expect(await settingOf('order')).toMatchObject({ enabled: true, denied: true });
  });

  test('come back from a refusal with every switch, field and filter as they were, and say what to do', async () => {
    const page = await pages.signedIn('ann', '/catalogs/shop?show=enabled', { javaScriptEnabled: false });
    await page.getByLabel('order: deny').setChecked(false);
    await page.getByLabel('cancel: deny').check();
    await pages.world.countersign.catalog('shop').setToolPolicies({
      by: { id: 'tim', groups: [] },
      expectedVersion: (await pages.world.countersign.catalog('shop').snapshot()).policyVersion,
      changes: [{ tool: 'cancel', enabled: false }],
    });
    await page.getByRole('button', { name: 'Save the changes' }).click();
    const alert = page.getByRole('alert');
    expect(await alert.innerText()).toMatch(/somebody has changed it[\s\S]*then save again[\s\S]*VERSION_CONFLICT/);
    expect(await page.locator('a[aria-current=true]').innerText()).toContain('Enabled');
    // `cancel` is no more enabled; its switch that is not saved keeps it in sight.
    const row = page.getByRole('row', { name: 'cancel' });
    expect(await row.innerText()).toContain('not saved: deny on');
    expect(await page.getByLabel('cancel: deny').isChecked()).toBe(true);
    expect(await page.getByLabel('order: deny').isChecked()).toBe(false);
    expect(await settingOf('cancel')).toMatchObject({ enabled: false, denied: false });
    await page.getByLabel('order: deny').check();
    await page.getByRole('button', { name: 'Save the changes' }).click();
    await page.waitForURL('**/catalogs/shop?show=enabled');
    expect(await settingOf('cancel')).toMatchObject({ enabled: false, denied: true });
    expect(await settingOf('order')).toMatchObject({ denied: true });

    await page.getByText('Change the connection').click();
    const url = page.getByLabel('URL');
    await url.fill('https://elsewhere.example/mcp');
    await page.getByLabel('Credentials').fill('other');
    await page.locator('[name=trusted]').check();
    await page.getByRole('button', { name: 'Change it' }).click();
    expect(await alert.innerText()).toMatch(/Correct it, then send it again/);
    expect(await url.inputValue()).toBe('https://elsewhere.example/mcp');
    expect(await page.getByLabel('Credentials').inputValue()).toBe('other');
    expect(await page.locator('[name=trusted]').isChecked()).toBe(true);
    expect(await url.getAttribute('aria-invalid')).toBe('true');
    expect(await page.locator('[id="url.problem"]').innerText()).toMatch(
      /is not the configured URL of shop; choose another/,
    );
    expect(await page.locator('a[aria-current=true]').innerText()).toContain('Enabled');
  });

  /** Changes a tool as another person does elsewhere. */
  const elsewhere = async (change: ToolChange, by = 'tim'): Promise<void> => {
    const catalog = pages.world.countersign.catalog('shop');
    const { policyVersion: expectedVersion } = await catalog.snapshot();
    await catalog.setToolPolicies({ by: { id: by, groups: [] }, expectedVersion, changes: [change] });
  };
  const refreshed = async (): Promise<void> => {
    const catalog = pages.world.countersign.catalog('shop');
    const { refresh = 0 } = await catalog.refresh({ by: { id: 'ann', groups: [] } });
    await catalog.settled(refresh);
  };

  test.each(VIEWS)('read well at %s width', async (name, viewport, colorScheme) => {
    const page = await pages.signedIn('ann', '/catalogs', { viewport, colorScheme });
    for (const [view, at] of [
      ['catalogs', '/catalogs'],
      ['catalog', '/catalogs/shop'],
      ['catalog-tool', '/catalogs/shop/tool?name=cancel'],
    ] as const) {
      await page.goto(`${pages.url}${at}`);
      expect(await faultsOf(page)).toEqual([]);
      await picture(page, `${view}-${name}`);
    }
  });

  test('are followed by their pages: what somebody sets elsewhere, and what a refresh finds, is there', async () => {
    const list = await pages.signedIn('ben', '/catalogs');
    const page = await pages.signedIn('ben', '/catalogs/shop');
    await elsewhere({ tool: 'refund', denied: true });
    await page.getByRole('row', { name: 'refund' }).getByRole('cell').nth(2).getByText('yes').waitFor();
    sold[2] = { ...ORDER, name: 'refund', description: 'Pays back twice.' };
    await refreshed();
    await page.getByRole('row', { name: 'refund' }).getByText('definition changed').waitFor();
    // Also of the cancel tool, whose new definition was refused before.
    await list.getByRole('row', { name: 'shop' }).getByRole('cell').nth(4).getByText('2', { exact: true }).waitFor();
    expect(await page.locator('#link-state').innerText()).toContain('Live');
  });

  test('change under no hand: what is open, typed, turned and focused stays, and no other definition is acknowledged', async () => {
    const page = await pages.signedIn('ann', '/catalogs/shop');
    await page.getByText('Disconnect', { exact: true }).click();
    await page.getByLabel('order: ask').focus();
    expect(await page.getByLabel('order: enabled').isChecked()).toBe(true);
    await elsewhere({ tool: 'order', enabled: false });
    await page.getByLabel('order: enabled').and(page.locator(':not(:checked)')).waitFor();
    expect(await page.getByRole('button', { name: 'Disconnect shop' }).isVisible()).toBe(true);
    expect(await page.evaluate("document.activeElement.getAttribute('aria-label')")).toBe('order: ask');

    await page.getByText('Change the connection').click();
    await page.getByLabel('Credentials').fill('typed');
    const reading = await pages.signedIn('ann', '/catalogs/shop/tool?name=refund');
    const acknowledge = reading.getByRole('button', { name: 'Acknowledge this definition' });
    expect(await acknowledge.isEnabled()).toBe(true);
    sold[2] = { ...ORDER, name: 'refund', description: 'Pays back three times.' };
    await refreshed();
    await reading.getByText('What is asked has changed.').waitFor();
    expect(await acknowledge.isDisabled()).toBe(true);
    await reading.getByRole('link', { name: 'Look at it again' }).click();
    await reading.getByText('Pays back three times.').first().waitFor();
    expect(await acknowledge.isEnabled()).toBe(true);
    // What changes beside it takes nothing from it: it is sent with the version of now.
    await elsewhere({ tool: 'order', deadlineSeconds: 600 });
    const { policyVersion } = await pages.world.countersign.catalog('shop').snapshot();
    await reading.locator(`input[name=version][value="${policyVersion}"]`).first().waitFor({ state: 'attached' });
    await acknowledge.click();
    await reading.getByText('its definition acknowledged').waitFor();

    await page.getByText('This page has changed.').waitFor();
    expect(await page.getByLabel('Credentials').inputValue()).toBe('typed');
    await page.getByRole('link', { name: 'Load it again' }).click();
    await page.waitForURL('**/catalogs/shop');
    expect(await page.getByLabel('Credentials').inputValue()).not.toBe('typed');
  });

  test.each([
    [
      'the gateway answers with a fault',
      600,
      'No answer; trying again.',
      async (route: Route) =>
        await route.fulfill({ status: 503, contentType: 'text/html', body: '<main id="main">Not possible</main>' }),
    ],
    [
      'the connection is lost while they load again',
      540,
      'No connection; trying again.',
      async (route: Route) => await route.abort(),
    ],
    [
      'something before the gateway answers that they ask too often',
      480,
      'No answer; trying again.',
      async (route: Route) => await route.fulfill({ status: 429, json: { code: 'RATE_LIMITED' } }),
    ],
    [
      'something before the gateway answers with what is no page',
      420,
      'No answer; trying again.',
      async (route: Route) => await route.fulfill({ status: 200, contentType: 'text/plain', body: 'Be back soon.' }),
    ],
    [
      'the gateway answers that they ask too often',
      360,
      'No answer; trying again.',
      async (route: Route) =>
        await route.fulfill({ status: 429, contentType: 'text/html', body: '<main id="main">Not possible</main>' }),
    ],
  ])('stay where %s, say so, and follow again when it is over', async (_, deadlineSeconds, told, fault) => {
    const page = await pages.signedIn('ben', '/catalogs/shop');
    await page.getByText('Live: this page follows what happens.').waitFor();
    let faults = 0;
    await page.route('**/catalogs/shop', async (route) => {
      faults += 1;
      await fault(route);
    });
    await elsewhere({ tool: 'refund', deadlineSeconds });
    await page.getByText(told).waitFor();
    await until(() => faults > 1, { what: 'another try' });
    expect(await page.getByRole('heading', { name: 'shop' }).isVisible()).toBe(true);
    const { policyVersion } = await pages.world.countersign.catalog('shop').snapshot();
    await page.unroute('**/catalogs/shop');
    await page.getByText('Live: this page follows what happens.').waitFor();
    await until(async () => (await page.locator('dd').allInnerTexts()).includes(String(policyVersion)), {
      what: 'the new version',
    });
  });

  test('follow again after their events were refused, and call themselves live not before', async () => {
    const page = await pages.signedIn('ben', '/catalogs/shop');
    const state = page.locator('#link-state');
    await page.getByText('Live: this page follows what happens.').waitFor();
    let faults = 0;
    await page.route('**/live?*', async (route) => {
      faults += 1;
      await route.fulfill({ status: 503, contentType: 'text/html', body: 'Bad gateway' });
    });
    pages.cut();
    await page.getByText('No connection; trying again.').waitFor();
    pages.mend();
    await until(() => faults > 2, { what: 'further tries' });
    // The page itself loads, and its next change would be missed.
    expect(await state.innerText()).toBe('No connection; trying again.');
    await page.unroute('**/live?*');
    await page.getByText('Live: this page follows what happens.').waitFor();
    await elsewhere({ tool: 'refund', deadlineSeconds: 300 });
    const { policyVersion } = await pages.world.countersign.catalog('shop').snapshot();
    await until(async () => (await page.locator('dd').allInnerTexts()).includes(String(policyVersion)), {
      what: 'the new version',
    });
  });

  test('say that their session has ended, keep what is typed, and ask no more', async () => {
    const page = await pages.signedIn('ann', '/catalogs/shop');
    await page.getByText('Live: this page follows what happens.').waitFor();
    await page.getByText('Change the connection').click();
    await page.getByLabel('Credentials').fill('typed');
    const statuses: number[] = [];
    page.on('response', (response) => {
      if (response.url().includes('/live')) statuses.push(response.status());
    });
    await page.context().clearCookies();
    // The stream ends, as it does with a session, and the page asks for it anew.
    pages.cut();
    pages.mend();
    await page.getByText('You are signed out.').waitFor();
    expect(statuses[0]).toBe(401);
    expect(await page.locator('#link-state').innerText()).toBe('This page follows nothing any more.');
    expect(await page.getByLabel('Credentials').inputValue()).toBe('typed');
    expect(await page.getByRole('link', { name: 'Sign in again' }).getAttribute('href')).toBe(page.url());
  });

  test('hold back a button that appears under a hand, for a moment', async () => {
    const catalog = pages.world.countersign.catalog('shop');
    for (const { changeId, digest } of (await catalog.snapshot()).pending)
      await catalog.decide({ by: { id: 'ann', groups: [] }, changeId, digest, verdict: 'reject' });
    const page = await pages.signedIn('ann', '/catalogs/shop');
    const agree = page.getByRole('button', { name: 'Agree' });
    await page.locator('main:not(:has(input[name=digest]))').waitFor();
    await page.evaluate(`new MutationObserver(() => {
        const found = [...document.querySelectorAll('button')].find(({ textContent }) => textContent === 'Agree');
        if (found !== undefined) window.appeared ??= found.disabled;
      }).observe(document.querySelector('main'), { childList: true })`);
    await elsewhere({ tool: 'cancel', denied: false }, 'cleo');
    await agree.and(page.locator(':enabled')).waitFor();
    expect(await page.evaluate('window.appeared')).toBe(true);
    await page.getByRole('button', { name: 'Refuse' }).click();
    await page.getByRole('region', { name: 'Change that waits' }).waitFor({ state: 'detached' });
  });

  test('keep what is turned beside a waiting change, and let it be saved, when another change waits', async () => {
    await elsewhere({ tool: 'cancel', denied: false }, 'cleo');
    const page = await pages.signedIn('ann', '/catalogs/shop');
    const agree = page.getByRole('button', { name: 'Agree' });
    const loaded = async (): Promise<boolean> => {
      await page.goto(`${pages.url}/catalogs/shop`);
      return (await agree.count()) > 0;
    };
    await until(loaded, { what: 'the change that waits' });
    const ask = page.getByLabel('cancel: ask');
    await ask.uncheck();
    await elsewhere({ tool: 'refund', denied: false }, 'cleo');
    await page.getByText('What is asked has changed.').waitFor();
    expect(await agree.first().isDisabled()).toBe(true);
    expect(await ask.isChecked()).toBe(false);
    await page.getByRole('button', { name: 'Save the changes' }).click();
    await page.locator('li', { hasText: /cancel.*requiresApproval/s }).waitFor();
  });
});

describe('a configured agent', () => {
  test.each(VIEWS)(
    'is started in the name of who is signed in, once, at %s width',
    async (name, viewport, colorScheme) => {
      const page = await pages.signedIn('ann', '/start', { viewport, colorScheme });
      expect(await faultsOf(page)).toEqual([]);
      await page.getByLabel('What it is to do').fill('Invoice INV-2026-118: 5 EUR to Müller GmbH.');
      await page.getByRole('radio', { name: /Pay invoices/ }).check();
      await picture(page, `start-${name}`);
      const sending = page.waitForRequest((request) => request.method() === 'POST');
      await page.getByRole('button', { name: 'Start', exact: true }).click();
      await page.waitForURL('**/runs/**');
      const runId = decodeURIComponent(new URL(page.url()).pathname.split('/').at(-1) ?? '');
      const run = pages.world.countersign.run(runId);
      await page.getByRole('link', { name: /pay on bank/ }).waitFor();
      expect((await run.ledger())[0]?.fact).toMatchObject({
        kind: 'run.started',
        agent: 'payer',
        initiator: 'ann',
      });
      // The same form sent again is the same run.
      const again = await page.request.post(`${pages.url}/start`, {
        data: (await sending).postData() ?? '',
        headers: { 'content-type': 'application/x-www-form-urlencoded' },
        maxRedirects: 0,
      });
      expect(again.headers()['location']).toBe(`/runs/${encodeURIComponent(runId)}`);
      await run.stop({ by: 'ann', reason: 'seen' });
    },
  );

  test('is not offered to people who may not start runs', async () => {
    const page = await pages.signedIn('ben', '/start');
    expect(await page.locator('main').innerText()).toContain('You may not start runs');
    expect(await page.getByRole('button').allInnerTexts()).toEqual(['Sign out']);
  });
});

const SHOP = { servers: [{ name: 'shop' }] };
