/** Chromium shows an edit form and sends it back as it is: every argument is as it was proposed. */
import { afterAll, beforeAll, expect, jest, test } from '@jest/globals';
import { type Browser, chromium } from 'playwright-core';
import { editFields } from '../../gateway/page/edit/fields.ts';
import { readEdited } from '../../gateway/page/edit/read.ts';
import { editForm } from '../../gateway/page/edit/schema.ts';
import { findChromium } from '../../scripts/chromium.mjs';
import { EDIT_SCHEMAS, EDIT_VALUES } from '../support/edit-forms.ts';

jest.setTimeout(120_000);
let browser: Browser;

beforeAll(async () => {
  const executablePath = findChromium();
  if (executablePath === undefined)
    throw new Error('No Chromium: run the suite through `node scripts/test.mjs browser`');
  browser = await chromium.launch({ executablePath, args: ['--no-sandbox', '--disable-gpu', '--no-first-run'] });
});
afterAll(async () => await browser?.close());

test.each(EDIT_SCHEMAS)('an untouched form with %s', async (_, schema) => {
  const page = await browser.newPage();
  for (const args of EDIT_VALUES) {
    const form = editForm(schema, args, () => undefined);
    await page.setContent(`<!doctype html><form>${editFields(form, {}).text}</form>`);
    // A string: the code runs in the page.
    const sent = await page.evaluate<[string, string][]>('[...new FormData(document.forms[0])]');
    const { arguments: read, problems } = readEdited(form, new URLSearchParams(sent));
    expect([...problems.values()]).toEqual([]);
    expect(read).toEqual(args);
  }
  await page.close();
});
