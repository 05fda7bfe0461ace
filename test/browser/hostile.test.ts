/**
 * The largest that models and servers may bring before a person, in Chromium, on the whole stack: arguments, the result
 * of a tool, and its definition. What is larger is refused.
 */
import { afterAll, afterEach, beforeAll, describe, expect, jest, test } from '@jest/globals';
import type { Page } from 'playwright-core';
import type { RunHandle } from '../../client/index.ts';
import type { JsonObject } from '../../contracts/schemas/json.ts';
import { MOST_ARGUMENT_BYTES } from '../../contracts/schemas/run-spec.ts';
import { acts, type RawServer, startRawServer } from '../support/servers/raw-server.ts';
import { until } from '../support/until.ts';
import { decisionOn, openRequests } from '../support/world/world.ts';
import { DESK, done, faultsOf, LONG_MS, type PagesWorld, PHONE, startPagesWorld } from './pages-world.ts';

/** Bytes of a page, whatever is shown in it. */
const MOST_PAGE_BYTES = 2_000_000;
/** Elements of a page: a browser lays them out, and axe reads them. */
const MOST_ELEMENTS = 20_000;
const MOST_DEFINITION_BYTES = 65_536;
const LONGEST_DESCRIPTION = 16_384;

const ATTACK =
  '</pre></textarea><script>window.hacked=1</script><img src=//evil.example/x onerror="window.hacked=1">\u{202e}0\u0336\u0300\u200b שלום ';
/** Texts of as many bytes, as JSON. */
const FILLS: Readonly<Record<string, (bytes: number) => string>> = {
  attacks: (bytes) => repeated(ATTACK, bytes),
  controls: (bytes) => repeated('\r', bytes),
  marks: (bytes) => repeated('a\u0336', bytes),
  'one line': (bytes) => repeated('x', bytes),
};

function repeated(part: string, bytes: number): string {
  return part.repeat(Math.floor(bytes / (Buffer.byteLength(JSON.stringify(part)) - 2)));
}

const LIMITS = {
  argumentBytes: MOST_ARGUMENT_BYTES,
  argumentBytesPerTurn: 2 * MOST_ARGUMENT_BYTES,
  callsPerTurn: 3,
  resultBytes: 262_144,
};

function hostileTool() {
  const tool = {
    name: 'dump',
    title: `${'x'.repeat(300)}${ATTACK}`,
    description: ATTACK.repeat(500).slice(0, LONGEST_DESCRIPTION),
    inputSchema: { type: 'object', properties: { text: { type: 'string' }, [ATTACK]: { description: '' } } },
  };
  const room = MOST_DEFINITION_BYTES - 100 - Buffer.byteLength(JSON.stringify(tool));
  const property = { description: repeated(ATTACK, room) };
  return {
    ...tool,
    inputSchema: { ...tool.inputSchema, properties: { text: { type: 'string' }, [ATTACK]: property } },
  };
}

/** What the server lists now. */
const listed: object[] = [hostileTool()];
let raw: RawServer;
let pages: PagesWorld;

beforeAll(async () => {
  // oidc-provider says on the console that it runs on Node 20 and without a store.
  jest.spyOn(console, 'info').mockImplementation(() => undefined);
  jest.spyOn(console, 'warn').mockImplementation(() => undefined);
  raw = await startRawServer({
    era: 'modern',
    get pages() {
      return [listed];
    },
    onCall: acts((exchange) => exchange.text(repeated(JSON.stringify(exchange.arguments), 1_048_576))),
  });
  pages = await startPagesWorld({
    config: {
      servers: { raw: { url: raw.url, credentials: { kind: 'none' } } },
      catalog: { administrators: [{ ids: ['ann'], may: ['connect', 'loosen', 'tighten'] }] },
    },
  });
}, LONG_MS);
afterEach(async () => await pages.clear());
afterAll(async () => {
  await pages?.stop();
  await raw?.close();
}, LONG_MS);

/** What a page does that no page of ours does: it breaks its own rules, asks elsewhere, or runs what it shows. */
function watched(page: Page): readonly string[] {
  const seen: string[] = [];
  page.on('console', (message) => {
    if (message.type() === 'error') seen.push(message.text());
  });
  page.on('pageerror', (error) => seen.push(String(error)));
  page.on('dialog', (dialog) => {
    seen.push(dialog.message());
    void dialog.dismiss();
  });
  page.on('request', (request) => {
    if (!request.url().startsWith(`${pages.url}/`)) seen.push(request.url());
  });
  return seen;
}

/** Opens a page, and returns everything that is wrong with it. */
async function wrongAt(page: Page, path: string): Promise<readonly string[]> {
  const answer = await page.request.get(`${pages.url}${path}`);
  const { length } = await answer.body();
  const seen = watched(page);
  await page.goto(`${pages.url}${path}`);
  const faults = await faultsOf(page);
  const elements = await page.evaluate<number>("document.querySelectorAll('*').length");
  const isHacked = await page.evaluate<boolean>("'hacked' in window || document.querySelector('main img') !== null");
  page.removeAllListeners();
  return [
    ...faults,
    ...seen,
    ...(isHacked ? ['hacked'] : []),
    ...(length > MOST_PAGE_BYTES ? [`${length} bytes`] : []),
    ...(elements > MOST_ELEMENTS ? [`${elements} elements`] : []),
  ];
}

/** Starts a run that has a large result, and asks for a call with the largest arguments. */
async function largest(args: JsonObject, repeatedPart: string): Promise<{ run: RunHandle; path: string }> {
  const first = { tool: 'raw/dump', arguments: { text: repeatedPart } };
  const run = await pages.world.start(
    [{ calls: [first] }, { calls: [{ tool: 'raw/dump', arguments: args }] }, { text: 'done' }],
    { limits: LIMITS, servers: [{ name: 'raw' }] },
  );
  const [request] = await openRequests(run);
  await run.decide(decisionOn(request, 'ann'));
  await until(async () => (await run.requests())[0]?.callId === 't2.c0', { what: 'the second call' });
  return { run, path: `/runs/${run.runId}/requests/t2.c0` };
}

/** Fills arguments up to the byte. */
function filled(fill: (bytes: number) => string): JsonObject {
  const rest = MOST_ARGUMENT_BYTES - Buffer.byteLength(JSON.stringify({ last: 'in sight', text: '', values: [] }));
  // Half of it in one text, a quarter in many, and a quarter in values without a text.
  const texts = Array.from({ length: 300 }, () => fill(rest / 4 / 300 - 3));
  const values = [...texts, ...Array.from({ length: Math.floor(rest / 8) }, () => 1)];
  const args = { last: '', text: fill(rest / 2 - 100), values };
  const left = MOST_ARGUMENT_BYTES - Buffer.byteLength(JSON.stringify(args));
  return { ...args, last: 'in sight'.padEnd(left, '.') };
}

describe.each(Object.entries(FILLS))('the most that a call, a result and a definition may have, of %s,', (_, fill) => {
  test(
    'is shown, folds, does nothing, and leaves the pages usable by hand and by keys',
    async () => {
      const args = filled(fill);
      expect(Buffer.byteLength(JSON.stringify(args))).toBe(MOST_ARGUMENT_BYTES);
      const { run, path } = await largest(args, fill(300));
      const page = await pages.signedIn('ann', path, { viewport: PHONE, colorScheme: 'dark' });
      const desk = await pages.signedIn('ann', path, { viewport: DESK });
      const seen = [
        await wrongAt(page, path),
        await wrongAt(page, '/'),
        await wrongAt(page, `/runs/${run.runId}`),
        await wrongAt(desk, path),
        await wrongAt(desk, `${path}/json`),
        await wrongAt(desk, `${path}/edit`),
      ];
      expect(seen).toEqual(seen.map(() => []));

      // The result is on a page of its own, whole as far as the run has it.
      await desk.goto(`${pages.url}/runs/${run.runId}`);
      await desk.getByRole('link', { name: /succeeded t1\.c0/ }).click();
      await desk.waitForURL('**/messages/**');
      expect(await wrongAt(desk, new URL(desk.url()).pathname)).toEqual([]);
      const messages = await run.messages({ from: 0, to: 10 });
      const outcome = messages.flatMap((each) => (each.role === 'tool' ? each.results : []))[0]?.outcome;
      expect(JSON.parse(await desk.locator('pre.raw').innerText())).toEqual(outcome);
      expect(JSON.stringify(outcome).length).toBeGreaterThan(60_000);

      // So are the arguments, to the letter; the page of the request has each of them in sight or in a fold.
      await desk.goto(`${pages.url}${path}`);
      const region = desk.getByRole('region', { name: 'Arguments' });
      expect(await region.getByText(/^in sight/).isVisible()).toBe(true);
      await region.getByRole('link', { name: 'As JSON' }).click();
      expect(JSON.parse(await desk.locator('pre.raw').innerText())).toEqual(args);

      await page.goto(`${pages.url}${path}`);

      await page.keyboard.press('a');
      await page.keyboard.press('Enter');
      await done(page);
      await run.result();
      expect(raw.calls.at(-1)?.arguments).toEqual(args);
    },
    2 * LONG_MS,
  );
});

test(
  'arguments that are larger are refused, with both numbers: of the model in the run, of a person in the form',
  async () => {
    const over = { text: 'x'.repeat(MOST_ARGUMENT_BYTES) };
    const told = /Arguments have 262155 bytes; (262144 are allowed|no run allows more than 262144)/;
    const run = await pages.world.start(
      [
        { calls: [{ tool: 'raw/dump', arguments: over }] },
        { calls: [{ tool: 'raw/dump', arguments: { text: 'small' } }] },
        { text: 'done' },
      ],
      { limits: LIMITS, servers: [{ name: 'raw' }] },
    );
    const [request] = await openRequests(run);
    expect(request?.callId).toBe('t2.c0');
    const path = `/runs/${run.runId}/requests/t2.c0`;
    const page = await pages.signedIn('ann', path);
    const talk = page.getByRole('region', { name: 'The conversation so far' });
    await talk.getByText('denied', { exact: true }).click();
    expect(await talk.locator('pre.raw').first().innerText()).toMatch(told);
    await page.goto(`${pages.url}${path}/edit`);
    await page.getByText('Write them as JSON').click();
    await page.getByLabel('All arguments').fill(JSON.stringify(over));
    await page.getByRole('button', { name: 'Compare before approving' }).last().click();
    await page.getByRole('button', { name: 'Approve these arguments' }).click();
    expect(await page.getByRole('alert').innerText()).toMatch(told);
    expect(await page.getByRole('alert').innerText()).toContain('ARGUMENTS_TOO_LARGE');
    // What was written is there still.
    expect(await page.locator('textarea').first().inputValue()).toContain('x'.repeat(1_000));
    await run.stop({ by: 'ann', reason: 'seen' });
  },
  LONG_MS,
);

test.each([
  ['phone', PHONE],
  ['desk', DESK],
] as const)(
  'a catalog of the most tools that a server may list, and the largest definition, stay usable at %s width',
  async (name, viewport) => {
    const tools = Array.from({ length: 999 }, (_, at) => ({
      ...hostileTool(),
      name: `${'n'.repeat(120)}.${at}`,
      title: ATTACK,
      description: ATTACK,
      inputSchema: { type: 'object' },
    }));
    listed.splice(1, Infinity, ...tools);
    const catalog = pages.world.countersign.catalog('raw');
    const ann = { id: 'ann', groups: [] };
    const { refresh } = await catalog.connect({ by: ann, url: raw.url }, { anew: true });
    if (refresh !== undefined) await catalog.settled(refresh, { deadlineMs: 60_000 });
    const page = await pages.signedIn('ann', '/catalogs/raw', { viewport });
    expect(await wrongAt(page, '/catalogs/raw')).toEqual([]);
    await page.getByLabel('dump: deny').check();
    await page.getByRole('button', { name: 'Save the changes' }).press('Enter');
    await page.getByRole('link', { name: 'Denied 1' }).waitFor();

    await page.getByLabel('dump: deny').uncheck();
    await page.getByRole('button', { name: 'Save the changes' }).press('Enter');
    await page.getByRole('link', { name: 'Denied 0' }).waitFor();
    expect(await wrongAt(page, '/catalogs/raw/tool?name=dump')).toEqual([]);
  },
  2 * LONG_MS,
);

test('names without a space, where a form or a refusal has them, are no wider than a phone', async () => {
  const name = 'n'.repeat(200);
  const { run, path } = await pages.asking({ [name]: { [name]: name }, list: [name] });
  const page = await pages.signedIn('ann', `${path}/edit`, { viewport: PHONE });
  expect(await faultsOf(page)).toEqual([]);
  for (const at of [`/runs/${name}`, `/catalogs/${'n'.repeat(64)}`]) {
    await page.goto(`${pages.url}${at}`);
    expect(await faultsOf(page)).toEqual([]);
  }
  const stranger = await pages.signedIn(name, '/', { viewport: PHONE });
  expect(await faultsOf(stranger)).toEqual([]);
  await run.stop({ by: 'ann', reason: 'seen' });
});
