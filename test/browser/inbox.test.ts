/**
 * The pages for approvers, in Chromium, on the whole stack: Temporal, workers, a tool server, the gateway, and an
 * identity provider that we did not write.
 *
 * One file, because all of it is one person at one stack.
 *
 * 1. `UPDATE_SCREENSHOTS=1` writes the pictures of the guide anew; look at them before committing.
 */
import { afterAll, afterEach, beforeAll, describe, expect, jest, test } from '@jest/globals';
import type { RunHandle } from '../../client/index.ts';
import type { JsonObject } from '../../contracts/schemas/json.ts';
import { until } from '../support/until.ts';
import { factsOf } from '../support/world/run-record.ts';
import { decisionOn } from '../support/world/world.ts';
import { DESK, done, faultsOf, LONG_MS, type PagesWorld, PHONE, picture, startPagesWorld } from './pages-world.ts';

jest.setTimeout(LONG_MS);

/** Where three parts of one value stand in the page. */
const LEFT_EDGES = `(() => {
  const value = [...document.querySelectorAll('.text-value')].find((each) => each.textContent.includes('200'));
  return ['100', 'שלום', '200'].map((text) => {
    const walker = document.createTreeWalker(value, NodeFilter.SHOW_TEXT);
    for (let node = walker.nextNode(); node !== null; node = walker.nextNode()) {
      const index = node.textContent.indexOf(text);
      if (index < 0) continue;
      const range = document.createRange();
      range.setStart(node, index);
      range.setEnd(node, index + text.length);
      return range.getBoundingClientRect().left;
    }
    return NaN;
  });
})()`;

/**
 * What a page is made of, with bytes over the wire: 0 for what the browser had. What the script asks for once it runs
 * is no part of the view.
 */
const SIZES = `[...performance.getEntriesByType('navigation'), ...performance.getEntriesByType('resource')]
  .filter(({ initiatorType }) => ['navigation', 'link', 'script', 'css', 'img'].includes(initiatorType))
  .map(({ name, transferSize }) => [new URL(name).pathname, transferSize])`;

let pages: PagesWorld;

beforeAll(async () => {
  // oidc-provider says on the console that it runs on Node 20 and without a store.
  jest.spyOn(console, 'info').mockImplementation(() => undefined);
  jest.spyOn(console, 'warn').mockImplementation(() => undefined);
  pages = await startPagesWorld();
});
afterEach(async () => await pages.clear());
afterAll(async () => await pages?.stop());

const signedIn: PagesWorld['signedIn'] = async (...asked) => await pages.signedIn(...asked);
const asking: PagesWorld['asking'] = async (...asked) => await pages.asking(...asked);
const decided = async (run: RunHandle) => factsOf(await run.ledger(), 'decision.accepted');
const sentFor = (purpose: string) => pages.bank.callsFor(purpose).map(({ arguments: args }) => args);

test("one signs in at the provider, finds what waits, and approves it in one's own name (S2.3)", async () => {
  const { run } = await asking({ purpose: 'simple', amount: 12 });
  const page = await signedIn('ann');
  await page
    .getByRole('link', { name: /pay on bank/ })
    .first()
    .click();
  await page.getByRole('heading', { name: /Allow pay on bank/ }).waitFor();
  await page.getByLabel('Comment').fill('looks right');
  await page.getByRole('button', { name: 'Approve', exact: true }).click();
  await done(page);
  await run.result();
  // The page of the run follows it to its end.
  await page.getByText('completed', { exact: true }).first().waitFor();
  expect(await decided(run)).toMatchObject([{ approver: { id: 'ann' }, comment: 'looks right' }]);
  expect(sentFor('simple')).toHaveLength(1);
});

test('a group of the token lets one decide; a rejection tells the model why', async () => {
  const { run, path } = await asking({ purpose: 'no', amount: 1 });
  const page = await signedIn('ben', path);
  await page.getByLabel('Reason').fill('Too early.');
  await page.getByRole('button', { name: 'Reject' }).click();
  await done(page);
  await run.result();
  expect(await decided(run)).toMatchObject([{ decision: 'reject', approver: { id: 'ben' }, comment: 'Too early.' }]);
  expect(sentFor('no')).toEqual([]);
});

test('other arguments are compared first, and are what is sent', async () => {
  const { run, path } = await asking({ purpose: 'edited', amount: 500, note: 'first' });
  const page = await signedIn('ann', path);
  await page.getByRole('link', { name: 'Approve with other arguments' }).click();
  await page.getByRole('spinbutton', { name: 'amount' }).fill('50');
  await page.getByRole('button', { name: 'Compare before approving' }).first().click();
  const changes = page.getByRole('region', { name: 'What you change' });
  expect(await changes.innerText()).toMatch(/500[\s\S]*50[\s\S]*2 other arguments are as they were/);
  await page.getByRole('button', { name: 'Approve these arguments' }).click();
  await done(page);
  await run.result();
  expect(sentFor('edited')).toEqual([{ purpose: 'edited', amount: 50, note: 'first' }]);
});

test('of two approvers the second is told who was faster', async () => {
  const { run, path } = await asking({ purpose: 'race' });
  const [ann, ben] = [await signedIn('ann', path), await signedIn('ben', path)];
  // Without its live part, the second page does not learn of it before.
  await ben.context().setOffline(true);
  await ann.getByRole('button', { name: 'Approve', exact: true }).click();
  await done(ann);
  await ben.context().setOffline(false);
  await ben.evaluate("document.querySelector('form:has(.approve)')?.submit()");
  // As long as the run is at this turn, the request itself is there and says it.
  const told = /ann decided it: approve|approved by ann/;
  await until(async () => told.test(await ben.locator('main').innerText()), { what: 'the page says so' });
  await run.result();
  expect(await decided(run)).toHaveLength(1);
});

test('a page follows what happens: a request appears, is decided elsewhere, and goes', async () => {
  const page = await signedIn('ann');
  const { run, request } = await asking({ purpose: 'live' });
  const row = page.getByRole('link', { name: /pay on bank/ });
  await row.first().waitFor();
  await run.decide(decisionOn(request, 'ann'));
  await page.getByRole('heading', { name: 'Nothing waits for you' }).waitFor();
  await run.result();
});

test('what is asked never changes under the hand: after an edit by another the old form is closed (INV-G2)', async () => {
  const approvers = { ids: ['ann'], groups: ['finance'], need: 2, may: ['edit' as const] };
  const policy = { servers: { bank: { tools: { pay: { action: 'ask' as const, approvers } } } } };
  const { run, request, path } = await asking({ purpose: 'moved', amount: 1 }, { policy });
  const page = await signedIn('ann', path);
  const edit = {
    ...decisionOn(request, 'ben'),
    kind: 'approve' as const,
    arguments: { purpose: 'moved', amount: 9 },
  };
  await run.decide({ ...edit, approver: { id: 'ben', groups: ['finance'] } });
  await page.getByText('What is asked has changed.').waitFor();
  expect(await page.getByRole('button', { name: 'Approve', exact: true }).isDisabled()).toBe(true);
  await page.getByRole('link', { name: 'Look at it again' }).click();
  await page.getByRole('heading', { name: /Changed by ben/ }).waitFor();
  await run.stop({ by: 'ann', reason: 'seen' });
});

test('a request that expires while it is open takes no decision', async () => {
  const policy = { servers: { bank: { tools: { pay: { action: 'ask', deadlineSeconds: 8 } } } } } as const;
  const { run, path } = await asking({ purpose: 'late' }, { policy });
  const page = await signedIn('ann', path);
  await page.getByText('waits for nobody any more').waitFor();
  expect(await page.getByRole('button', { name: 'Approve', exact: true }).count()).toBe(0);
  await run.result();
  expect(sentFor('late')).toEqual([]);
});

test('who is not asked sees nothing of it', async () => {
  const { run, path } = await asking({ purpose: 'hidden' });
  const page = await signedIn('eve');
  expect(await page.locator('main').innerText()).toContain('Nothing waits for you');
  await page.goto(`${pages.url}${path}`);
  expect(await page.locator('main').innerText()).toContain('RUN_NOT_FOUND');
  await run.stop({ by: 'ann', reason: 'seen' });
});

test('who signs out in the middle signs in again, and nothing is sent before', async () => {
  const { run, path } = await asking({ purpose: 'signed out' });
  const page = await signedIn('ann', path);
  const other = await page.context().newPage();
  await other.goto(`${pages.url}/`);
  await other.getByRole('button', { name: 'Sign out' }).click();
  await other.getByRole('heading', { name: 'Signed out' }).waitFor();
  await page.getByRole('button', { name: 'Approve', exact: true }).click();
  await page.getByText('You are signed out. Nothing was sent.').waitFor();
  expect(await decided(run)).toEqual([]);
  await run.stop({ by: 'ann', reason: 'seen' });
});

describe('arguments of an attacker', () => {
  const HOSTILE: JsonObject = {
    purpose: 'hostile',
    html: '<img src=x onerror="window.hacked=1"><script>window.hacked=1</script>',
    reversed: 'pay \u{202e}001 to eve',
    hebrew: '100 שלום 200',
    long: 'x'.repeat(20_000),
    last: 'in sight',
  };

  test('do nothing, hide nothing and move nothing', async () => {
    const { run, path } = await asking(HOSTILE);
    const page = await signedIn('ann', path);
    const text = await page.getByRole('region', { name: 'Arguments' }).innerText();
    expect(text).toContain('<img src=x onerror=');
    expect(text).toContain('U+202E');
    expect(text).toContain('in sight');
    expect(await page.evaluate("'hacked' in window")).toBe(false);
    // The numbers stand where the data has them: the first left of the letters, the second right of them.
    const order = await page.evaluate<number[]>(LEFT_EDGES);
    expect(order).toEqual([...order].sort((one, other) => one - other));
    await run.stop({ by: 'ann', reason: 'seen' });
  });
});

test('a quarter of a megabyte of an attacker, the most that a call may have, is shown, folds and leaves the page usable', async () => {
  const lines = Array.from(
    { length: 400 },
    (_, at) => `<script>window.hacked=${at}</script> \u{202e}${'</div>'.repeat(8)}`,
  );
  const args = { purpose: 'huge', lines, html: '<b onload=x>'.repeat(18_000), last: 'in sight' };
  const limits = { argumentBytes: 262_144, argumentBytesPerTurn: 524_288, callsPerTurn: 4 };
  const { run, path } = await asking(args, { limits });
  const page = await signedIn('ann', path, { viewport: PHONE });
  expect(await faultsOf(page)).toEqual([]);
  expect(await page.evaluate("'hacked' in window")).toBe(false);
  const region = page.getByRole('region', { name: 'Arguments' });
  // What is folded says how much it is, and what follows it stands in sight.
  await region.getByText('360 more', { exact: true }).waitFor();
  await region.getByText(/215,600 more characters/).waitFor();
  await region.getByText('in sight', { exact: true }).waitFor();
  expect((await region.innerText()).length).toBeLessThan(30_000);
  await page.goto(pages.url);
  await page.getByText('… (+215940)').waitFor();
  expect(await faultsOf(page)).toEqual([]);
  await page.goto(`${pages.url}${path}`);
  await page.getByRole('button', { name: 'Approve', exact: true }).click();
  await done(page);
  await run.result();
  expect(sentFor('huge')).toEqual([args]);
});

test('a lost connection is told, and what happened meanwhile is there when it is back', async () => {
  const page = await signedIn('ann');
  await page.getByText('Live: this page follows what happens.').waitFor();
  pages.cut();
  try {
    await page.getByText('No connection; trying again.').waitFor();
    await asking({ purpose: 'meanwhile' });
    expect(await page.getByRole('heading', { name: 'Nothing waits for you' }).count()).toBe(1);
  } finally {
    pages.mend();
  }
  await page
    .getByRole('link', { name: /pay on bank/ })
    .first()
    .waitFor();
  await page.getByText('Live: this page follows what happens.').waitFor();
});

test('the first view after the sign-in is one document and small assets, which the next views have already', async () => {
  await asking({ purpose: 'light' });
  const context = (await signedIn('ann', '/runs', { javaScriptEnabled: false })).context();
  const cookies = await context.cookies();
  const fresh = await context.browser()?.newContext();
  await fresh?.addCookies(cookies);
  const page = await fresh?.newPage();
  if (page === undefined) throw new Error('no page');
  try {
    await page.goto(pages.url);
    const sizes = await page.evaluate<readonly (readonly [string, number])[]>(SIZES);
    expect(sizes.map(([name]) => name).toSorted()).toEqual(['/', '/assets/page.css', '/assets/page.js']);
    expect(sizes.reduce((sum, [, size]) => sum + size, 0)).toBeLessThan(100_000);
    await page.goto(`${pages.url}/runs`);
    const again = await page.evaluate<readonly (readonly [string, number])[]>(SIZES);
    expect(again.filter(([, size]) => size > 0).map(([name]) => name)).toEqual(['/runs']);
  } finally {
    await fresh?.close();
  }
});

test('the keyboard alone is enough', async () => {
  const { run } = await asking({ purpose: 'keys' });
  const page = await signedIn('ann');
  await page
    .getByRole('link', { name: /pay on bank/ })
    .first()
    .waitFor();
  await page.keyboard.press('j');
  await page.keyboard.press('Enter');
  await page.getByRole('heading', { name: /Allow pay/ }).waitFor();
  await page.keyboard.press('a');
  await page.keyboard.press('Enter');
  await done(page);
  await run.result();
  expect(sentFor('keys')).toHaveLength(1);
});

test('without JavaScript one reads and decides', async () => {
  const { run, path } = await asking({ purpose: 'plain' });
  const page = await signedIn('ann', path, { javaScriptEnabled: false });
  await page.getByRole('button', { name: 'Approve', exact: true }).click();
  await done(page);
  await run.result();
  expect(sentFor('plain')).toHaveLength(1);
});

test('several are shown once more and decided together', async () => {
  const runs = [await asking({ purpose: 'many', n: 1 }), await asking({ purpose: 'many', n: 2 })];
  const page = await signedIn('ann');
  const boxes = page.getByRole('checkbox');
  await until(async () => (await boxes.count()) === 2, { what: 'two rows' });
  for (const box of await boxes.all()) await box.check();
  await page.getByRole('button', { name: 'Review the chosen together' }).click();
  await page.getByRole('button', { name: 'Approve all 2' }).click();
  await page.getByRole('heading', { name: '2 of 2 decided' }).waitFor();
  await Promise.all(runs.map(async ({ run }) => await run.result()));
  expect(sentFor('many')).toHaveLength(2);
});

describe('every view', () => {
  test.each([
    ['desk', DESK, 'light'],
    ['phone', PHONE, 'dark'],
  ] as const)(
    'reads well at %s width: no serious finding of axe, nothing wider than the page',
    async (name, viewport, colorScheme) => {
      const lines = {
        invoice: 'INV-2026-118',
        amount: 1250.5,
        currency: 'EUR',
        payee: { name: 'Müller GmbH', iban: 'DE89 3704 0044 0532 0130 00' },
      };
      const { run, path } = await asking({ purpose: `view-${name}`, ...lines });
      const page = await signedIn('ann', '/', { viewport, colorScheme });
      await page
        .getByRole('link', { name: /pay on bank/ })
        .first()
        .waitFor();
      for (const [view, at] of [
        ['inbox', '/'],
        ['request', path],
        ['run', `/runs/${run.runId}`],
        ['runs', '/runs'],
      ] as const) {
        const bytes: number[] = [];
        page.on(
          'response',
          (response) =>
            void response
              .body()
              .then((body) => bytes.push(body.length))
              .catch(() => undefined),
        );
        await page.goto(`${pages.url}${at}`);
        page.removeAllListeners('response');
        expect(await faultsOf(page)).toEqual([]);
        expect(bytes.reduce((sum, each) => sum + each, 0)).toBeLessThan(100_000);
        await picture(page, `${view}-${name}`);
      }
      await run.stop({ by: 'ann', reason: 'seen' });
    },
  );
});
