/**
 * The pages for approvers, in Chromium, on the whole stack: Temporal, workers, a tool server, the gateway, and an identity
 * provider that we did not write.
 *
 * One file, because all of it is one person at one stack.
 *
 * 1. `UPDATE_SCREENSHOTS=1` writes the pictures of the guide anew; look at them before committing.
 */
import { readFileSync } from 'node:fs';
import { createRequire } from 'node:module';
import { createServer } from 'node:net';
import { afterAll, afterEach, beforeAll, describe, expect, jest, test } from '@jest/globals';
import { type Browser, type BrowserContext, type BrowserContextOptions, chromium, type Page } from 'playwright-core';
import type { RunHandle } from '../../client/index.ts';
import type { ApprovalRequest } from '../../contracts/schemas/request.ts';
import type { JsonObject } from '../../contracts/schemas/json.ts';
import type { Gateway } from '../../gateway/gateway.ts';
import { findChromium } from '../../scripts/chromium.mjs';
import { startLoginProvider } from '../support/oauth/provider.ts';
import { startTestGateway } from '../support/scenes/gateway-world.ts';
import type { RecordingServer } from '../support/servers/recording-server.ts';
import { until } from '../support/until.ts';
import { startBank } from '../support/world/bank-world.ts';
import { factsOf } from '../support/world/run-record.ts';
import { decisionOn, openRequests, type World } from '../support/world/world.ts';

const LONG_MS = 120_000;
const PAGE_MS = 20_000;
const FLAGS = ['--no-sandbox', '--disable-gpu', '--disable-quic', '--no-first-run', '--disable-background-networking'];
const PHONE = { width: 390, height: 844 };
const DESK = { width: 1_280, height: 900 };
const PICTURES = 'docs/guide/images';
const END = { text: 'done' };
const AXE = createRequire(import.meta.url).resolve('axe-core/axe.min.js');

/** What axe finds, as the page tells it. */
interface Finding {
  readonly id: string;
  readonly impact: string;
  readonly html: string;
}
const FINDINGS = `axe.run().then(({ violations }) =>
  violations.map(({ id, impact, nodes }) => ({ id, impact, html: nodes[0].html })))`;

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

let world: World;
let bank: RecordingServer;
let gateway: Gateway;
let browser: Browser;
let provider: Awaited<ReturnType<typeof startLoginProvider>>;
const contexts: BrowserContext[] = [];

beforeAll(async () => {
  // oidc-provider says on the console that it runs on Node 20 and without a store.
  jest.spyOn(console, 'info').mockImplementation(() => undefined);
  jest.spyOn(console, 'warn').mockImplementation(() => undefined);
  const executablePath = findChromium();
  if (executablePath === undefined)
    throw new Error('No Chromium: run the suite through `node scripts/test.mjs browser`');
  browser = await chromium.launch({ executablePath, args: FLAGS });
  const port = await freePort();
  const publicUrl = `http://127.0.0.1:${port}`;
  const client = { id: 'pages', secret: 'secret-of-the-pages', redirectUri: `${publicUrl}/auth/callback` };
  provider = await startLoginProvider({
    ...client,
    claims: { tenant: 'default' },
    groupsOf: (id) => (id === 'ben' ? ['finance'] : []),
  });
  const approvers = { ids: ['ann'], groups: ['finance'], may: ['edit' as const, 'respond' as const] };
  ({ world, bank } = await startBank({ policy: { approvers } }, { beside: [provider] }));
  gateway = await startTestGateway(world, provider, {
    config: { port, signIn: { publicUrl, clientId: client.id, clientSecret: client.secret } },
  });
}, LONG_MS);
afterEach(async () => {
  // What a failed test leaves open would stand in the inbox of the next.
  const left = world.runs.map((runId) => world.countersign.run(runId));
  await Promise.all(left.map(async (run) => await run.stop({ by: 'ann', reason: 'over' }).catch(() => undefined)));
  await until(() => gateway.projection.waiting().length === 0, { what: 'an empty inbox' });
  await Promise.all(contexts.splice(0).map(async (context) => await context.close()));
});
afterAll(async () => {
  await browser?.close();
  await gateway?.stop();
  await world?.stop();
}, LONG_MS);

async function freePort(): Promise<number> {
  const server = createServer();
  await new Promise<void>((resolve) => void server.listen(0, '127.0.0.1', resolve));
  const address = server.address();
  await new Promise((resolve) => void server.close(resolve));
  return typeof address === 'object' && address !== null ? address.port : 0;
}

/** Opens a browser window in which this person is signed in, at this page. */
async function signedIn(id: string, path = '/', options: BrowserContextOptions = {}): Promise<Page> {
  const context = await browser.newContext({ viewport: DESK, ...options });
  contexts.push(context);
  const page = await context.newPage();
  page.setDefaultTimeout(PAGE_MS);
  await page.goto(`${gateway.url}${path}`);
  await page.fill('input[name=login]', id);
  await page.fill('input[name=password]', 'any');
  await page.click('button[type=submit]');
  // The provider's own page asks for consent.
  await page.click('button[type=submit]');
  await page.waitForURL(`${gateway.url}${path}`);
  return page;
}

/** Starts a run that asks, and waits until the gateway knows it. */
async function asking(
  args: JsonObject,
  over = {},
): Promise<{ run: RunHandle; request: ApprovalRequest; path: string }> {
  const run = await world.start([{ calls: [{ tool: 'bank/pay', arguments: args }] }, END], over);
  const [request] = await openRequests(run);
  await until(() => gateway.projection.run(run.runId)?.row.pending === 1, { what: 'the gateway knows the request' });
  return { run, request, path: `/runs/${run.runId}/requests/t1.c0` };
}

const done = async (page: Page) => await page.getByText('Your answer counts.').waitFor();
const decided = async (run: RunHandle) => factsOf(await run.ledger(), 'decision.accepted');
const sentFor = (purpose: string) => bank.callsFor(purpose).map(({ arguments: args }) => args);

test(
  "one signs in at the provider, finds what waits, and approves it in one's own name (S2.3)",
  async () => {
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
  },
  LONG_MS,
);

test(
  'a group of the token lets one decide; a rejection tells the model why',
  async () => {
    const { run, path } = await asking({ purpose: 'no', amount: 1 });
    const page = await signedIn('ben', path);
    await page.getByLabel('Reason').fill('Too early.');
    await page.getByRole('button', { name: 'Reject' }).click();
    await done(page);
    await run.result();
    expect(await decided(run)).toMatchObject([{ decision: 'reject', approver: { id: 'ben' }, comment: 'Too early.' }]);
    expect(sentFor('no')).toEqual([]);
  },
  LONG_MS,
);

test(
  'other arguments are compared first, and are what is sent',
  async () => {
    const { run, path } = await asking({ purpose: 'edited', amount: 500, note: 'first' });
    const page = await signedIn('ann', path);
    await page.getByText('Approve with other arguments').click();
    await page.locator('[name="argument.1"]').fill('50');
    await page.getByRole('button', { name: 'Compare before approving' }).click();
    const changes = page.getByRole('region', { name: 'What you change' });
    expect(await changes.innerText()).toMatch(/500[\s\S]*50[\s\S]*2 other arguments are as they were/);
    await page.getByRole('button', { name: 'Approve these arguments' }).click();
    await done(page);
    await run.result();
    expect(sentFor('edited')).toEqual([{ purpose: 'edited', amount: 50, note: 'first' }]);
  },
  LONG_MS,
);

test(
  'of two approvers the second is told who was faster',
  async () => {
    const { run, path } = await asking({ purpose: 'race' });
    const [ann, ben] = [await signedIn('ann', path), await signedIn('ben', path)];
    // Without its live part, the second page does not learn of it before.
    await ben.context().setOffline(true);
    await ann.getByRole('button', { name: 'Approve', exact: true }).click();
    await done(ann);
    await ben.context().setOffline(false);
    await ben.evaluate("document.querySelector('form.main-choice')?.submit()");
    await until(async () => /ann decided it: approve/.test(await ben.locator('main').innerText()), {
      what: 'the page says so',
    });
    await run.result();
    expect(await decided(run)).toHaveLength(1);
  },
  LONG_MS,
);

test(
  'a page follows what happens: a request appears, is decided elsewhere, and goes',
  async () => {
    const page = await signedIn('ann');
    const { run, request } = await asking({ purpose: 'live' });
    const row = page.getByRole('link', { name: /pay on bank/ });
    await row.first().waitFor();
    await run.decide(decisionOn(request, 'ann'));
    await page.getByRole('heading', { name: 'Nothing waits for you' }).waitFor();
    await run.result();
  },
  LONG_MS,
);

test(
  'what is asked never changes under the hand: after an edit by another the old form is closed (INV-G2)',
  async () => {
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
  },
  LONG_MS,
);

test(
  'a request that expires while it is open takes no decision',
  async () => {
    const policy = { servers: { bank: { tools: { pay: { action: 'ask', deadlineSeconds: 8 } } } } } as const;
    const { run, path } = await asking({ purpose: 'late' }, { policy });
    const page = await signedIn('ann', path);
    await page.getByText('waits for nobody any more').waitFor();
    expect(await page.getByRole('button', { name: 'Approve', exact: true }).count()).toBe(0);
    await run.result();
    expect(sentFor('late')).toEqual([]);
  },
  LONG_MS,
);

test(
  'who is not asked sees nothing of it',
  async () => {
    const { run, path } = await asking({ purpose: 'hidden' });
    const page = await signedIn('eve');
    expect(await page.locator('main').innerText()).toContain('Nothing waits for you');
    await page.goto(`${gateway.url}${path}`);
    expect(await page.locator('main').innerText()).toContain('RUN_NOT_FOUND');
    await run.stop({ by: 'ann', reason: 'seen' });
  },
  LONG_MS,
);

test(
  'who signs out in the middle signs in again, and nothing is sent before',
  async () => {
    const { run, path } = await asking({ purpose: 'signed out' });
    const page = await signedIn('ann', path);
    const other = await page.context().newPage();
    await other.goto(`${gateway.url}/`);
    await other.getByRole('button', { name: 'Sign out' }).click();
    await other.getByRole('heading', { name: 'Signed out' }).waitFor();
    await page.getByRole('button', { name: 'Approve', exact: true }).click();
    await page.getByText('You are signed out. Nothing was sent.').waitFor();
    expect(await decided(run)).toEqual([]);
    await run.stop({ by: 'ann', reason: 'seen' });
  },
  LONG_MS,
);

describe('arguments of an attacker', () => {
  const HOSTILE: JsonObject = {
    purpose: 'hostile',
    html: '<img src=x onerror="window.hacked=1"><script>window.hacked=1</script>',
    reversed: 'pay \u{202e}001 to eve',
    hebrew: '100 שלום 200',
    long: 'x'.repeat(20_000),
    last: 'in sight',
  };

  test(
    'do nothing, hide nothing and move nothing',
    async () => {
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
    },
    LONG_MS,
  );
});

test(
  'the keyboard alone is enough',
  async () => {
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
  },
  LONG_MS,
);

test(
  'without JavaScript one reads and decides',
  async () => {
    const { run, path } = await asking({ purpose: 'plain' });
    const page = await signedIn('ann', path, { javaScriptEnabled: false });
    await page.getByRole('button', { name: 'Approve', exact: true }).click();
    await done(page);
    await run.result();
    expect(sentFor('plain')).toHaveLength(1);
  },
  LONG_MS,
);

test(
  'several are shown once more and decided together',
  async () => {
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
  },
  LONG_MS,
);

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
        await page.goto(`${gateway.url}${at}`);
        page.removeAllListeners('response');
        await page.evaluate(readFileSync(AXE, 'utf8'));
        const found = await page.evaluate<Finding[]>(FINDINGS);
        expect(found.filter(({ impact }) => impact === 'serious' || impact === 'critical')).toEqual([]);
        expect(await page.evaluate('document.documentElement.scrollWidth')).toBeLessThanOrEqual(viewport.width);
        expect(bytes.reduce((sum, each) => sum + each, 0)).toBeLessThan(100_000);
        if (process.env['UPDATE_SCREENSHOTS'] === '1')
          await page.screenshot({ path: `${PICTURES}/page-${view}-${name}.png`, fullPage: false });
      }
      await run.stop({ by: 'ann', reason: 'seen' });
    },
    LONG_MS,
  );
});
