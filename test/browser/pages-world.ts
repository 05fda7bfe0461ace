/**
 * Everything that the pages for approvers stand on, for tests in Chromium: Temporal, workers, tool servers, the
 * gateway, and an identity provider that we did not write.
 */
import { readFileSync } from 'node:fs';
import { createRequire } from 'node:module';
import { type AddressInfo, connect, createServer, type Socket } from 'node:net';
import { type Browser, type BrowserContext, type BrowserContextOptions, chromium, type Page } from 'playwright-core';
import type { RunHandle } from '../../client/index.ts';
import { defined } from '../../contracts/defined.ts';
import type { ConfigInput } from '../../contracts/schemas/config.ts';
import type { GatewayConfigInput } from '../../contracts/schemas/gateway.ts';
import type { JsonObject } from '../../contracts/schemas/json.ts';
import type { ApprovalRequest } from '../../contracts/schemas/request.ts';
import type { Gateway } from '../../gateway/gateway.ts';
import { findChromium } from '../../scripts/chromium.mjs';
import { startLoginProvider } from '../support/oauth/provider.ts';
import { startTestGateway } from '../support/scenes/gateway-world.ts';
import type { RecordingServer } from '../support/servers/recording-server.ts';
import type { ZoneKey } from '../support/signing/keys.ts';
import { until } from '../support/until.ts';
import { startBank } from '../support/world/bank-world.ts';
import { openRequests, type World } from '../support/world/world.ts';

export const LONG_MS = 120_000;
const PAGE_MS = 20_000;
const FLAGS = ['--no-sandbox', '--disable-gpu', '--disable-quic', '--no-first-run', '--disable-background-networking'];
export const PHONE = { width: 390, height: 844 };
export const DESK = { width: 1_280, height: 900 };
const END = { text: 'done' };

export interface Asking {
  readonly run: RunHandle;
  readonly request: ApprovalRequest;
  /** The page of the request. */
  readonly path: string;
}

export interface PagesWorld {
  readonly world: World;
  readonly bank: RecordingServer;
  readonly gateway: Gateway;
  /** Where browsers reach the gateway: through a connection that a test may cut. */
  readonly url: string;
  /** Ends all connections of browsers, and takes none until `mend`. */
  cut(): void;
  mend(): void;
  /** Opens a browser window in which this person is signed in, at this page. */
  signedIn(id: string, path?: string, options?: BrowserContextOptions): Promise<Page>;
  /** Starts a run that asks for a call of `tool`, and waits until the gateway knows it. */
  asking(args: JsonObject, over?: object, tool?: string): Promise<Asking>;
  /** Ends what a test has left open: it would stand in the inbox of the next. */
  clear(): Promise<void>;
  stop(): Promise<void>;
}

export interface PagesOptions {
  readonly config?: ConfigInput;
  readonly gateway?: GatewayConfigInput;
  /** Workers with the key of a zone ask people what servers ask. */
  readonly zone?: ZoneKey;
}

/** One function, because it is one stack. Of the people, `ann` is named by policy, and `ben` is in the group `finance`. */
export async function startPagesWorld({ config, gateway: settings, zone }: PagesOptions = {}): Promise<PagesWorld> {
  const executablePath = findChromium();
  if (executablePath === undefined)
    throw new Error('No Chromium: run the suite through `node scripts/test.mjs browser`');
  const browser: Browser = await chromium.launch({ executablePath, args: FLAGS });
  const contexts: BrowserContext[] = [];
  const wire = await startWire();
  const publicUrl = wire.url;
  const client = { id: 'pages', secret: 'secret-of-the-pages', redirectUri: `${publicUrl}/auth/callback` };
  const provider = await startLoginProvider({
    ...client,
    claims: { tenant: 'default' },
    groupsOf: (id) => (id === 'ben' ? ['finance'] : []),
  });
  const approvers = { ids: ['ann'], groups: ['finance'], may: ['edit' as const, 'respond' as const] };
  const { world, bank } = await startBank(
    { ...config, policy: { approvers, ...config?.policy } },
    { beside: [provider], ...defined({ zone }) },
  );
  const gateway = await startTestGateway(world, provider, {
    config: { signIn: { publicUrl, clientId: client.id, clientSecret: client.secret }, ...settings },
  });
  wire.leadTo(Number(new URL(gateway.url).port));
  return {
    world,
    bank,
    gateway,
    url: publicUrl,
    cut: wire.cut,
    mend: wire.mend,
    signedIn: async (id, path = '/', options = {}) => {
      const context = await browser.newContext({ viewport: DESK, ...options });
      contexts.push(context);
      const page = await context.newPage();
      page.setDefaultTimeout(PAGE_MS);
      await page.goto(`${publicUrl}${path}`);
      await page.fill('input[name=login]', id);
      await page.fill('input[name=password]', 'any');
      await page.click('button[type=submit]');
      // The provider's own page asks for consent.
      await page.click('button[type=submit]');
      await page.waitForURL(`${publicUrl}${path}`);
      return page;
    },
    asking: async (args, over = {}, tool = 'bank/pay') => {
      const run = await world.start([{ calls: [{ tool, arguments: args }] }, END], over);
      const [request] = await openRequests(run);
      await until(() => gateway.projection.run(run.runId)?.row.pending === 1, {
        what: 'the gateway knows the request',
      });
      return { run, request, path: `/runs/${run.runId}/requests/t1.c0` };
    },
    clear: async () => {
      const left = world.runs.map((runId) => world.countersign.run(runId));
      await Promise.all(left.map(async (run) => await run.stop({ by: 'ann', reason: 'over' }).catch(() => undefined)));
      await until(() => gateway.projection.waiting().length === 0, { what: 'an empty inbox' });
      await Promise.all(contexts.splice(0).map(async (context) => await context.close()));
    },
    stop: async () => {
      await browser.close();
      await wire.close();
      await gateway.stop();
      await world.stop();
    },
  };
}

/** A connection between browsers and the gateway, which has an address before the gateway has one. */
async function startWire() {
  const open = new Set<Socket>();
  let port: number | undefined;
  let isCut = false;
  const server = createServer((near) => {
    if (isCut || port === undefined) return void near.destroy();
    const far = connect(port, '127.0.0.1');
    for (const socket of [near, far]) {
      open.add(socket);
      socket.once('close', () => open.delete(socket));
      // What ends one side ends the other.
      socket.once('error', () => void [near, far].map((each) => each.destroy()));
    }
    near.pipe(far).pipe(near);
  });
  await new Promise<void>((resolve) => void server.listen(0, '127.0.0.1', resolve));
  // Sound: a TCP server that listens has a port.
  const { port: own } = server.address() as AddressInfo;
  const drop = (): void => [...open].forEach((socket) => socket.destroy());
  return {
    url: `http://127.0.0.1:${own}`,
    leadTo: (to: number) => void (port = to),
    cut: () => {
      isCut = true;
      drop();
    },
    mend: () => void (isCut = false),
    close: async () => {
      drop();
      await new Promise((resolve) => void server.close(resolve));
    },
  };
}

export const done = async (page: Page): Promise<void> => await page.getByText('Your answer counts.').waitFor();

const AXE = createRequire(import.meta.url).resolve('axe-core/axe.min.js');
const FINDINGS = `axe.run().then(({ violations }) =>
  violations.map(({ id, impact, nodes }) => ({ id, impact, html: nodes[0].html })))`;

/** What axe finds, as the page tells it. */
interface Finding {
  readonly id: string;
  readonly impact: string;
  readonly html: string;
}

/** Returns what is wrong with a page for everybody: serious findings of axe, and content that is wider than the page. */
export async function faultsOf(page: Page): Promise<readonly string[]> {
  await page.evaluate(readFileSync(AXE, 'utf8'));
  const found = await page.evaluate<Finding[]>(FINDINGS);
  const serious = found.filter(({ impact }) => impact === 'serious' || impact === 'critical');
  const width = await page.evaluate<number>('document.documentElement.scrollWidth');
  const most = page.viewportSize()?.width ?? 0;
  return [
    ...serious.map(({ id, html }) => `${id}: ${html}`),
    ...(width > most ? [`${width} px wide, on a page of ${most} px`] : []),
  ];
}

/** Keeps a picture for the guide with `UPDATE_SCREENSHOTS=1`; look at them before committing. */
export async function picture(page: Page, name: string, whole = false): Promise<void> {
  if (process.env['UPDATE_SCREENSHOTS'] === '1')
    await page.screenshot({ path: `docs/guide/images/page-${name}.png`, fullPage: whole });
}
