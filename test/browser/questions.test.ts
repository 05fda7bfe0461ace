/**
 * Questions of a server that speaks MCP 2026-07-28, answered in Chromium: each kind of field, an answer that does not
 * fit, a page of another host, a refusal.
 */
import { afterAll, afterEach, beforeAll, expect, jest, test } from '@jest/globals';
import { type MrtrServer, startMrtrServer } from '../support/servers/mrtr-server.ts';
import { question } from '../support/scenes/input.ts';
import { zoneKey } from '../support/signing/keys.ts';
import { DESK, done, faultsOf, LONG_MS, type PagesWorld, PHONE, picture, startPagesWorld } from './pages-world.ts';

jest.setTimeout(LONG_MS);

const VIEWS = [
  ['desk', DESK, 'light'],
  ['phone', PHONE, 'dark'],
] as const;

let desk: MrtrServer;
let pages: PagesWorld;

beforeAll(async () => {
  // oidc-provider says on the console that it runs on Node 20 and without a store.
  jest.spyOn(console, 'info').mockImplementation(() => undefined);
  jest.spyOn(console, 'warn').mockImplementation(() => undefined);
  desk = await startMrtrServer();
  const tools = Object.fromEntries(['survey', 'book', 'visit'].map((tool) => [tool, 'allow' as const]));
  pages = await startPagesWorld({
    zone: await zoneKey(),
    config: {
      servers: { desk: { url: desk.url, credentials: { kind: 'none' } } },
      policy: { servers: { desk: { tools } } },
    },
  });
});
afterEach(async () => {
  await pages.clear();
  desk.reset();
});
afterAll(async () => {
  await pages?.stop();
  await desk?.close();
});

const asked = async (tool: string) => await pages.asking({}, {}, `desk/${tool}`);

test('a form has a control for each kind of field, and the server gets what was chosen', async () => {
  const { run, path } = await asked('survey');
  const page = await pages.signedIn('ann', path, { javaScriptEnabled: false });
  await page.getByRole('heading', { level: 1, name: 'A question from survey on desk' }).waitFor();
  await page.getByLabel('E-mail').fill('ann@example.org');
  await page.getByLabel('day').fill('2026-12-24');
  await page.getByLabel('seats').fill('3');
  await page.getByLabel('window').selectOption('false');
  await page.getByLabel('coach').selectOption('Quiet');
  await page.getByLabel('cake').check();
  await page.getByLabel('note').fill('two lines\nof words');
  await page.getByRole('button', { name: 'Send the answer' }).click();
  await done(page);
  await run.result();
  const given = {
    mail: 'ann@example.org',
    day: '2026-12-24',
    seats: 3,
    window: false,
    coach: 'q',
    meals: ['soup', 'cake'],
    note: 'two lines\nof words',
  };
  expect(desk.executed).toHaveLength(1);
  expect(JSON.parse(desk.executed[0]?.replace('surveyed: ', '') ?? '')).toEqual(given);
});

test('an answer that does not fit comes back with its reason, and keeps what was typed', async () => {
  const { path } = await asked('survey');
  const page = await pages.signedIn('ann', path);
  // The browser checks the same bounds; this form comes from one that does not.
  await page
    .locator('form:has(fieldset)')
    .first()
    .evaluate((form: { noValidate: boolean }) => (form.noValidate = true));
  await page.getByLabel('E-mail').fill('ann@example.org');
  await page.getByLabel('seats').fill('9');
  await page.getByLabel('soup').uncheck();
  await page.getByLabel('salad').check();
  await page.getByLabel('note').fill('kept');
  await page.getByRole('button', { name: 'Send the answer' }).click();
  await page.locator('.problem').first().waitFor();
  expect(await page.getByLabel('seats').inputValue()).toBe('9');
  expect(await page.getByLabel('note').inputValue()).toBe('kept');
  expect(await page.getByLabel('soup').isChecked()).toBe(false);
  expect(await page.getByLabel('salad').isChecked()).toBe(true);
  expect(desk.executed).toEqual([]);
  await page.getByLabel('seats').fill('4');
  await page.getByRole('button', { name: 'Send the answer' }).click();
  await done(page);
});

test('a page of another host is named and no link, and counts once the person says so', async () => {
  const { run, path } = await asked('visit');
  const page = await pages.signedIn('ann', path);
  await page.getByText('https://id.example:8443/in?x=1').waitFor();
  expect(await page.locator('a[href*="id.example"]').count()).toBe(0);
  await page.getByLabel('I have done what the page asks').check();
  await page.getByRole('button', { name: 'Send the answer' }).click();
  await done(page);
  await run.result();
  expect(desk.executed).toEqual(['visited: accept']);
});

test('who declines tells the server, and answers nothing', async () => {
  const { run, path } = await asked('visit');
  const page = await pages.signedIn('ann', path);
  await page.getByRole('button', { name: 'Decline' }).click();
  await done(page);
  await run.result();
  expect(desk.executed).toEqual(['visited: decline']);
});

test('the next question of a call stands on a page of its own', async () => {
  const { run, path } = await asked('book');
  const page = await pages.signedIn('ann', path);
  await page.getByLabel('name').fill('Ben');
  await page.getByRole('button', { name: 'Send the answer' }).click();
  await done(page);
  await question(run, 2);
  await page.goto(`${pages.url}${path}`);
  await page.getByLabel('card').selectOption('visa');
  await page.getByRole('button', { name: 'Send the answer' }).click();
  await done(page);
  await run.result();
  expect(desk.executed).toEqual(['booked for Ben, {"card":"visa"}']);
});

test.each(VIEWS)('a form is readable by everybody, %s', async (name, viewport, colorScheme) => {
  const { path } = await asked('survey');
  const page = await pages.signedIn('ann', path, { viewport, colorScheme });
  await page.getByLabel('E-mail').waitFor();
  expect(await faultsOf(page)).toEqual([]);
  await picture(page, `question-${name}`, true);
});
