/**
 * The pages beyond the inbox, in Chromium, on the whole stack: other arguments by the schema of their tool.
 *
 * 1. `UPDATE_SCREENSHOTS=1` writes the pictures of the guide anew; look at them before committing.
 */
import { afterAll, afterEach, beforeAll, expect, jest, test } from '@jest/globals';
import type { Page } from 'playwright-core';
import type { JsonObject } from '../../contracts/schemas/json.ts';
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

let shop: RecordingServer;
let pages: PagesWorld;

beforeAll(async () => {
  // oidc-provider says on the console that it runs on Node 20 and without a store.
  jest.spyOn(console, 'info').mockImplementation(() => undefined);
  jest.spyOn(console, 'warn').mockImplementation(() => undefined);
  shop = await startRecordingServer({ tools: [ORDER] });
  pages = await startPagesWorld({ config: { servers: { shop: { url: shop.url, credentials: { kind: 'none' } } } } });
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

const SHOP = { servers: [{ name: 'shop' }] };
