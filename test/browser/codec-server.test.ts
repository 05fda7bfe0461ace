/** Temporal UI in Chromium shows an encrypted run through the codec server, at the origin that it is configured for. */
import { randomBytes } from 'node:crypto';
import { afterAll, beforeAll, expect, jest, test } from '@jest/globals';
import { type Browser, chromium, type Page, type Request } from 'playwright-core';
import { CodecServerConfig } from '../../contracts/schemas/gateway.ts';
import { type CodecServer, startCodecServer } from '../../gateway/codec/server.ts';
import { findChromium } from '../../scripts/chromium.mjs';
import { createCodec } from '../../workers/codec.ts';
import { freePort } from '../../workers/dev-server.ts';
import { startEngine, type TestEngine } from '../support/engine.ts';
import { startWorld, type World } from '../support/world/world.ts';

jest.setTimeout(120_000);
const PAGE_MS = 30_000;
const SECRET = `pay ${randomBytes(8).toString('hex')}`;
const ENCRYPTION = { keys: [{ id: 'k1', key: randomBytes(32).toString('base64') }] };

let browser: Browser;
let codec: CodecServer;
let engine: TestEngine;
let world: World;
let page: string;

beforeAll(async () => {
  const executablePath = findChromium();
  if (executablePath === undefined)
    throw new Error('No Chromium: run the suite through `node scripts/test.mjs browser`');
  browser = await chromium.launch({ executablePath, args: ['--no-sandbox', '--disable-gpu'] });
  const uiPort = await freePort();
  codec = await startCodecServer({
    // Of the two names of this machine, one is configured.
    config: CodecServerConfig.parse({ port: 0, development: true, origins: [`http://127.0.0.1:${uiPort}`] }),
    namespace: 'default',
    codec: createCodec({ encryption: ENCRYPTION }),
    ask: async (url, init) => await fetch(url, init),
  });
  engine = await startEngine({ ui: true, uiPort, uiCodecEndpoint: codec.url });
  world = await startWorld({ engine, config: { encryption: ENCRYPTION } });
  const run = await world.start([{ text: 'done' }], { input: SECRET });
  await run.result();
  const { runId } = await world.client.workflow.getHandle(run.runId).describe();
  page = `:${uiPort}/namespaces/default/workflows/${run.runId}/${runId}`;
});

afterAll(async () => {
  await browser?.close();
  await world?.stop();
  await engine?.stop();
  await codec?.stop();
});

/** Opens the run's page, and waits until the browser has let it have an answer of the codec server, or not. */
async function opened(host: string): Promise<{ readonly tab: Page; readonly isAnswered: boolean }> {
  const tab = await browser.newPage();
  tab.setDefaultTimeout(PAGE_MS);
  const isDecoding = (request: Request): boolean =>
    request.url() === `${codec.url}/decode` && request.method() === 'POST';
  const asked = new Promise<boolean>((resolve) => {
    tab.on('requestfinished', (request) => void (isDecoding(request) && resolve(true)));
    tab.on('requestfailed', (request) => void (isDecoding(request) && resolve(false)));
  });
  await tab.goto(`http://${host}${page}`);
  return { tab, isAnswered: await asked };
}

test('at the configured origin the page shows what the run was asked', async () => {
  const { tab, isAnswered } = await opened('127.0.0.1');
  expect(isAnswered).toBe(true);
  await tab.getByText(SECRET).first().waitFor();
  await tab.close();
});

test('at another origin the browser gives the same page nothing to show', async () => {
  const { tab, isAnswered } = await opened('localhost');
  expect(isAnswered).toBe(false);
  await tab.getByText('WorkflowExecutionCompleted').or(tab.getByText('Workflow Execution Completed')).first().waitFor();
  expect(await tab.locator('body').innerText()).not.toContain(SECRET);
  await tab.close();
});
