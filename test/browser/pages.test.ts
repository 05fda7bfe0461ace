/**
 * The pages beyond the inbox, in Chromium, on the whole stack: other arguments by the schema of their tool.
 *
 * 1. `UPDATE_SCREENSHOTS=1` writes the pictures of the guide anew; look at them before committing.
 */
import { afterAll, afterEach, beforeAll, expect, jest, test } from '@jest/globals';
import type { Page } from 'playwright-core';
import type { JsonObject } from '../../contracts/schemas/json.ts';
import { until } from '../support/until.ts';
import { decisionOn, openRequests } from '../support/world/world.ts';
import { type RecordingServer, startRecordingServer } from '../support/servers/recording-server.ts';
import { DESK, done, faultsOf, LONG_MS, type PagesWorld, PHONE, picture, startPagesWorld } from './pages-world.ts';

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
  pages = await startPagesWorld({ config: { servers: { shop: server } } });
}, LONG_MS);
afterEach(async () => await pages.clear());
afterAll(async () => {
  await pages?.stop();
  await shop?.close();
}, LONG_MS);

const compare = async (page: Page) =>
  await page.getByRole('button', { name: 'Compare before approving' }).first().click();

test(
  'other arguments follow the schema of the tool, and need no JavaScript',
  async () => {
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
  },
  LONG_MS,
);

test.each(VIEWS)(
  'the form of other arguments reads well at %s width',
  async (name, viewport, colorScheme) => {
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
  },
  LONG_MS,
);

test(
  'who is asked again sees what has changed in the definition, and the earlier calls of the tool',
  async () => {
    const { run, path } = await pages.asking({ purpose: 'changed', ...ORDERED }, SHOP, 'shop/order');
    const page = await pages.signedIn('ann', path);
    await page.getByText('The whole definition').click();
    await page.getByText('"inputSchema"').waitFor();
    sold[0] = { ...ORDER, description: 'Orders goods, and pays for them at once.' };
    try {
      await page.getByRole('button', { name: 'Approve', exact: true }).click();
      await until(async () => (await run.requests())[0]?.reopenedBecause !== undefined, { what: 'asked again' });
      await page.goto(`${pages.gateway.url}${path}`);
      const tool = page.getByRole('region', { name: 'What the server says of its tool' });
      await tool.getByText('Changed since this run listed its tools').waitFor();
      expect(await page.locator('.banner.warning').innerText()).toMatch(/description was .*sends an invoice/);
      expect(await faultsOf(page)).toEqual([]);
      await run.stop({ by: 'ann', reason: 'seen' });
    } finally {
      sold[0] = ORDER;
    }
  },
  LONG_MS,
);

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
    await page.goto(`${pages.gateway.url}/runs/${run.runId}`);
    await page.getByRole('link', { name: 'Check the ledger' }).click();
    await page.getByText('The chain is unbroken.').waitFor();
    const { ledgerLength, ledgerHead } = await run.state();
    expect(await page.locator('main').innerText()).toContain(`All ${ledgerLength} entries`);
    expect(await page.locator('.digest').innerText()).toBe(ledgerHead);
    expect(await faultsOf(page)).toEqual([]);
    await picture(page, `ledger-${name}`);
  },
  LONG_MS,
);

const SHOP = { servers: [{ name: 'shop' }] };
