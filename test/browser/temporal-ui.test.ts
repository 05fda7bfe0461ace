/**
 * What an operator sees of a run in Temporal UI, read from the page as Chromium shows it.
 *
 * 1. `UPDATE_SCREENSHOTS=1` writes the pictures of the guide anew; look at them before committing.
 */
import { mkdir, mkdtemp, rm, stat } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { afterAll, afterEach, beforeAll, beforeEach, expect, test } from '@jest/globals';
import { type Browser, chromium, type FrameLocator, type Page } from 'playwright-core';
import { findChromium } from '../../scripts/chromium.mjs';
import { decisionOn } from '../support/world/world.ts';
import { HOSTILE, startUiWorld, type UiWorld } from './ui-world.ts';

const LONG_MS = 120_000;
const PAGE_MS = 30_000;
const MOST_BYTES = 200 * 1_024;
/** Chromium speaks to the page under test only, also where a sandbox of its own cannot be had. */
const FLAGS = [
  '--no-sandbox',
  '--disable-gpu',
  '--disable-quic',
  '--no-first-run',
  '--disable-background-networking',
  '--disable-component-update',
  '--disable-sync',
];

let world: UiWorld;
let browser: Browser;
let page: Page;
let scratch: string;

beforeAll(async () => {
  const executablePath = findChromium();
  if (executablePath === undefined)
    throw new Error('No Chromium: run the suite through `node scripts/test.mjs browser`');
  scratch = await mkdtemp(join(tmpdir(), 'screenshots-'));
  browser = await chromium.launch({ executablePath, args: FLAGS });
  world = await startUiWorld();
}, LONG_MS);

beforeEach(async () => {
  page = await browser.newPage({ viewport: { width: 1_400, height: 900 } });
  page.setDefaultTimeout(PAGE_MS);
});

afterEach(async () => {
  await page.close();
});

afterAll(async () => {
  await browser?.close();
  await world?.stop();
  await rm(scratch, { recursive: true, force: true });
}, LONG_MS);

/** Temporal UI renders the Markdown of a section in a frame of its own. */
function section(title: string): FrameLocator {
  return page.locator(`xpath=//h3[normalize-space()="${title}"]/following::iframe[1]`).contentFrame();
}

async function picture(name: string): Promise<void> {
  const folder =
    process.env['UPDATE_SCREENSHOTS'] === '1' ? join(import.meta.dirname, '../../docs/guide/images') : scratch;
  await mkdir(folder, { recursive: true });
  const path = join(folder, `${name}.png`);
  await page.mouse.move(0, 0);
  await page.screenshot({ path, animations: 'disabled' });
  expect((await stat(path)).size).toBeLessThan(MOST_BYTES);
}

test('the run page says for whom it runs and which call waits on whom, and no longer once it is decided', async () => {
  const { handle, request, url } = await world.startWriter('weekly-report');
  await page.goto(`${url}/user-metadata`);
  await section('Summary').getByText('clerk for ann').waitFor();
  const details = section('Current Details');
  await details.getByText('1 waiting for a decision').waitFor();
  const shown = await details.locator('body').innerText();
  expect(shown).toContain(`${request.callId} files/write_file until ${request.deadline}`);
  expect(shown).toContain('who: ben or anybody in finance');
  expect(shown).toContain('report.txt');
  // Quotes and dashes as they are: nothing may be made prettier than what would run.
  expect(shown).toContain('{"content":"Sales rose by four percent.","path":"report.txt"}');
  await page.getByText(`${request.callId} files/write_file waits for ben or group:finance`).waitFor();
  // The frame is lower than its text.
  await details.getByText('arguments:').last().scrollIntoViewIfNeeded();
  await picture('waiting-run');

  await handle.decide(decisionOn(request, 'ben'));
  await handle.result();
  await page.reload();
  await details.getByText('completed').waitFor();
  const after = await details.locator('body').innerText();
  expect(after).not.toContain('waiting for a decision');
  expect(after).not.toContain('files/write_file');
});

test('the event history names tool, call and who countersigned beside each activity', async () => {
  const { handle, request, url } = await world.startWriter('monthly-report');
  await handle.decide(decisionOn(request, 'ben'));
  await handle.result();
  await page.goto(`${url}/history`);
  for (const summary of [
    't1.c0 files/read_text_file allowed by policy',
    `${request.callId} files/write_file countersigned by ben`,
    `${request.callId} files/write_file waits for ben or group:finance`,
  ]) {
    // The table below the timeline: the timeline draws its labels and may cut them.
    await page.getByText(summary, { exact: true }).locator('visible=true').first().waitFor();
  }
  await page
    .getByRole('heading', { name: 'Event History' })
    .evaluate((heading: { scrollIntoView(): void }) => heading.scrollIntoView());
  await picture('event-history');
});

test('the run page says which calls were made in stretches: the turns, their tools, and what failed', async () => {
  const { url } = await world.startReader('sales-question');
  await page.goto(`${url}/user-metadata`);
  const details = section('Current Details');
  await details.getByText('calls made in stretches, newest turn first').waitFor();
  const lines = await details.locator('li').allInnerTexts();
  expect(lines.map((line) => line.replace(/ at .+?Z:/, ':'))).toEqual([
    'turn 3: files/read_text_file (TOOL_FAILED)',
    'turn 2: files/list_directory',
    'turn 1: files/read_text_file ×2',
  ]);
  // The frame is lower than its text.
  await details.getByText('turn 1').scrollIntoViewIfNeeded();
  await picture('stretch-run');
  await page.goto(`${url}/history`);
  await page.getByText('check the spec, then').locator('visible=true').first().waitFor();
});

test('the workflow list, asked for runs with something pending, shows those and no other', async () => {
  const done = await world.startWriter('done-report');
  await done.handle.decide(decisionOn(done.request, 'ben'));
  await done.handle.result();
  await world.startWriter('sales-report');
  const waiting = `${world.url}?query=${encodeURIComponent('CountersignPending > 0')}`;
  await page.goto(waiting);
  await page.getByRole('link', { name: 'sales-report', exact: true }).waitFor();
  expect(await page.getByRole('link', { name: 'done-report', exact: true }).count()).toBe(0);
  await picture('waiting-list');
});

test('markup, links, scripts and reversed text of tools and models are shown as text', async () => {
  const { url } = await world.startPayer('odd-payment', { ...HOSTILE });
  await page.goto(`${url}/user-metadata`);
  const details = section('Current Details');
  await details.getByText('1 waiting for a decision').waitFor();
  const shown = await details.locator('body').innerText();
  // As typed, but for quotes, which Temporal UI makes typographic.
  expect(shown).toContain('# Approved **by all** [click](https://evil.example/)');
  expect(shown).toContain('<img src=x onerror=');
  expect(shown).toContain('<script>window.hacked=1</script>');
  expect(shown).toContain('pay \\u{202e}001 to eve');
  expect(shown).not.toContain('\u{202e}');
  expect(await details.locator('img, body script:has-text("hacked"), a').count()).toBe(0);
  // Our own heading, and none of the tool's.
  expect(await details.locator('h1, h2, h3, h4, h5, h6').allInnerTexts()).toEqual(['1 waiting for a decision']);
  for (const frame of page.frames()) expect(await frame.evaluate('window.hacked')).toBeUndefined();
});
