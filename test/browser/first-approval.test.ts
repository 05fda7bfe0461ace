/**
 * The way of somebody who has nothing but the packed file: docs/guide/first-approval.md, played as it stands, from
 * `npm install` in an empty folder to an approval in Chromium.
 *
 * 1. Its time limit is the promise: five minutes of machine time, with Temporal's CLI on PATH. `bench/README.md` has
 *    the figures; `FIRST_APPROVAL_TIMES=FILE` writes those of this machine.
 * 2. Only ports differ from the page: others may hold its own.
 */
import { copyFileSync, mkdtempSync, rmSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { delimiter, dirname, join } from 'node:path';
import { afterAll, beforeAll, expect, jest, test } from '@jest/globals';
import { type Browser, chromium } from 'playwright-core';
import { findChromium } from '../../scripts/chromium.mjs';
import { findTemporalCli, freePort } from '../../workers/dev-server.ts';
import { openPage, type PlayedPage } from '../support/package/played-page.ts';
import { type SharedPack, sharedPack } from '../support/package/shared-pack.ts';
import { until } from '../support/until.ts';

jest.setTimeout(300_000);
const PAGE = 'docs/guide/first-approval.md';
const PORTS = { temporal: '7233', files: '8234', gateway: '8235' };

let packed: SharedPack;
let browser: Browser;
let folder: string;
let page: PlayedPage | undefined;

beforeAll(async () => {
  packed = await sharedPack();
  const executablePath = findChromium();
  if (executablePath === undefined)
    throw new Error('No Chromium: run the suite through `node scripts/test.mjs browser`');
  browser = await chromium.launch({ executablePath, args: ['--no-sandbox', '--disable-gpu', '--no-first-run'] });
  folder = mkdtempSync(join(tmpdir(), 'first-approval-'));
  copyFileSync(packed.tarball, join(folder, 'countersign-1.0.0-rc.1.tgz'));
});
afterAll(async () => {
  await page?.stop();
  await browser?.close();
  if (folder !== undefined) rmSync(folder, { recursive: true, force: true });
});

test('from an empty folder to a call that a person approved in a browser, by the commands of the page alone', async () => {
  const ports = { temporal: await freePort(), files: await freePort(), gateway: await freePort() };
  const temporalFolder = dirname(findTemporalCli(process.env));
  page = await openPage(PAGE, {
    folder,
    // As in a fresh shell: nothing of the repository's own environment but the proxy and registry settings of npm.
    env: {
      ...npmSettings(),
      PATH: [temporalFolder, dirname(process.execPath), process.env['PATH']].join(delimiter),
      HOME: process.env['HOME'],
      TEMPORAL_ADDRESS: `127.0.0.1:${ports.temporal}`,
    },
    adapt: (text) =>
      text
        .replace('server start-dev', `server start-dev --headless --port ${ports.temporal}`)
        .replaceAll(PORTS.files, String(ports.files))
        .replaceAll(PORTS.gateway, String(ports.gateway)),
    isUp: async (terminal, output) => {
      if (terminal.includes('temporal server'))
        return await until(() => output().includes('Server:'), { what: 'Temporal', withinMs: 60_000 });
      if (terminal.includes('mcp-proxy')) return await answers(`http://127.0.0.1:${ports.files}/ping`);
      if (terminal.includes('gateway')) return await answers(`http://127.0.0.1:${ports.gateway}/health`);
      return await until(() => output().includes('worker (all)'), { what: 'a worker', withinMs: 60_000 });
    },
  });
  await page.playUntil('countersign result');

  const tab = await browser.newPage();
  await tab.goto(`http://127.0.0.1:${ports.gateway}/`);
  await tab.getByLabel('Your id').fill('ann');
  await tab.getByRole('button', { name: 'Sign in' }).click();
  await tab
    .getByRole('link', { name: /write_file on files/ })
    .first()
    .click();
  await tab.getByRole('button', { name: 'Approve', exact: true }).click();
  await tab.getByText('Your answer counts.').waitFor();
  await tab.close();

  const said = await page.playRest();
  expect(said).toContain('It is written.');
  expect(said).toMatch(/^chained.*hello-1: 10 entries/m);
  // The file that only the approved call writes.
  expect(said.trim().split('\n').at(-1)).toBe('approved');
  const times = process.env['FIRST_APPROVAL_TIMES'];
  if (times !== undefined) writeFileSync(times, JSON.stringify(page.took, undefined, 2));
});

async function answers(url: string): Promise<unknown> {
  return await until(async () => (await fetch(url)).ok, { what: url, withinMs: 60_000 });
}

function npmSettings(): Record<string, string | undefined> {
  const names = /^(?:npm_config_|https?_proxy$|no_proxy$|node_extra_ca_certs$|ssl_cert)/i;
  return Object.fromEntries(Object.entries(process.env).filter(([name]) => names.test(name)));
}
