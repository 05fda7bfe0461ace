/**
 * Clients that no one here wrote call through the gate, each with its own defaults. The judge is the MCP server behind
 * it: what nobody approved never arrives there, and what was approved arrives once (INV-S1, INV-X1).
 */
import { afterAll, afterEach, beforeAll, describe, expect, jest, test } from '@jest/globals';
import {
  type Arguments,
  type ForeignClient,
  foreignClients,
  INSTALL_MS,
  NAMES,
  type ForeignName,
} from '../support/foreign/clients.ts';
import { type ForeignWorld, startForeignWorld } from '../support/foreign/world.ts';
import { until } from '../support/until.ts';
import { replayOwn } from '../support/world/run-record.ts';

/** Each call starts a client, and over stdio a gate, on a machine that has more to do. */
const LIMIT_MS = 240_000;
jest.setTimeout(LIMIT_MS);

let clients: Readonly<Record<ForeignName, ForeignClient>>;
let scene: ForeignWorld;

beforeAll(async () => {
  clients = await foreignClients();
  scene = await startForeignWorld();
}, INSTALL_MS);
afterAll(async () => {
  await replayOwn(scene.world);
  await scene.stop();
});

/** Calls that Ben has approved. */
const approved = new Set<string>();
afterEach(() => {
  const asked = scene.bank.calls.filter(({ tool }) => tool === 'pay' || tool === 'odd');
  const purposes = asked.map(({ arguments: { purpose } }) => (typeof purpose === 'string' ? purpose : ''));
  expect(purposes.filter((purpose) => !approved.has(purpose))).toEqual([]);
});

async function approve(args: Arguments): Promise<void> {
  approved.add(args.purpose);
  await scene.decide('pay', args);
}

function referenceIn(text: string): string | undefined {
  return /gate-[0-9a-f-]{36}/.exec(text)?.[0];
}

/** What the tests of one client need. */
function callsOf(name: ForeignName) {
  return {
    purposeOf: (what: string): Arguments => ({ purpose: `${what}-${NAMES.indexOf(name)}` }),
    executions: ({ purpose }: Arguments): number => scene.bank.callsFor(purpose).length,
    call: async (hold: 'short' | 'long', tool: string, args: Arguments): Promise<string> =>
      await clients[name](scene, hold, tool, args).said,
  };
}

describe.each(NAMES)('%s', (name) => {
  const { purposeOf, executions, call } = callsOf(name);

  test('a call that needs nobody is made at once, and a denied one never', async () => {
    const args = purposeOf('allowed');
    expect(await call('long', 'lookup', args)).toContain(`lookup did {`);
    expect(executions(args)).toBe(1);
    const denied = purposeOf('denied');
    await call('long', 'bare', denied).catch(() => undefined);
    expect(executions(denied)).toBe(0);
  });

  test('a call that waits is found by the same call, before the decision and after it', async () => {
    const args = purposeOf('later');
    // A busy machine may not have asked anybody by the end of a short call.
    const waiting = await until(
      async () => {
        const said = await call('short', 'pay', args);
        return said.includes('has not run') ? said : undefined;
      },
      { what: 'a call that waits', withinMs: LIMIT_MS / 2 },
    );
    const again = await call('short', 'pay', args);
    expect(referenceIn(again)).toBe(referenceIn(waiting));
    expect(executions(args)).toBe(0);
    await approve(args);
    expect(await call('long', 'pay', args)).toContain('pay did {');
    expect(executions(args)).toBe(1);
  });
});

/** One client of each family: each of these tests starts several programs, which takes seconds. */
const FAMILIES = [
  'MCP Inspector, stdio',
  'TypeScript SDK 1, http',
  'TypeScript client 2, http',
  'Python SDK',
  'LangChain for Python',
  'LangChain for JavaScript',
] as const;

/** Another program over the same transport: over stdio and over HTTP a name in a key means two clients. */
const TWIN = {
  'MCP Inspector, stdio': 'TypeScript client 2, stdio',
  'TypeScript SDK 1, http': 'TypeScript client 2, http',
  'TypeScript client 2, http': 'TypeScript SDK 1, http',
  'Python SDK': 'TypeScript client 2, http',
  'LangChain for Python': 'TypeScript client 2, http',
  'LangChain for JavaScript': 'TypeScript client 2, http',
} as const satisfies Record<(typeof FAMILIES)[number], ForeignName>;

describe.each(FAMILIES)('%s, in every case', (name) => {
  const { purposeOf, executions, call } = callsOf(name);

  test('a call that is approved while it is held is answered with what the server said', async () => {
    const args = purposeOf('in-time');
    const calling = call('long', 'pay', args);
    await approve(args);
    expect(await calling).toContain('pay did {');
    expect(executions(args)).toBe(1);
  });

  test('a rejected call, and one that nobody decides, never arrive at the server, and the client is told why', async () => {
    const args = purposeOf('rejected');
    const calling = call('long', 'pay', args);
    await scene.decide('pay', args, 'reject');
    expect(await calling).toContain('a person rejected this call');
    const late = purposeOf('expired');
    expect(await call('long', 'odd', late)).toContain('nobody decided before');
    expect([executions(args), executions(late)]).toEqual([0, 0]);
  });

  test('a client that crashes while its call runs gets the outcome of that call when it is back', async () => {
    const args = purposeOf('gone');
    const lost = clients[name](scene, 'long', 'slow', args);
    await scene.bank.held(args.purpose);
    await lost.leave();
    await expect(lost.said).rejects.toThrow();
    scene.bank.release(args.purpose);
    expect(await call('long', 'slow', args)).toContain('slow did {');
    expect(executions(args)).toBe(1);
  });

  test('two programs of one client that make the same call at once make one', async () => {
    const args = purposeOf('twice');
    const first = clients[name](scene, 'long', 'pay', args);
    const second = clients[TWIN[name]](scene, 'long', 'pay', args);
    const run = await scene.runOf('pay', args);
    await approve(args);
    expect(await Promise.race([first.said, second.said])).toContain('pay did {');
    expect(executions(args)).toBe(1);
    expect(await run.result()).toMatchObject({ status: 'completed' });
    await Promise.all([first.leave(), second.leave()]);
  });
});

test('a call waits on while its worker is killed and its gateways are replaced, and another program of its client gets its outcome', async () => {
  const args = { purpose: 'killed' };
  const waiting = await clients['Python SDK'](scene, 'short', 'pay', args).said;
  await scene.worker.kill();
  await scene.restartGateways();
  scene.worker = await scene.world.startWorker();
  const again = await clients['LangChain for JavaScript'](scene, 'short', 'pay', args).said;
  expect(referenceIn(again)).toBe(referenceIn(waiting));
  const held = clients['MCP Inspector, http'](scene, 'long', 'pay', args);
  await approve(args);
  expect(await held.said).toContain('pay did {');
  expect(scene.bank.callsFor('killed')).toHaveLength(1);
});

test('a client that gives up a silent connection after five seconds is told that its call waits, after forty', async () => {
  // The guide's program has an HTTP client of its own, without limits: httpx then takes five seconds.
  const args = { purpose: 'silent' };
  expect(await clients['Python SDK'](scene, 'long', 'pay', args).said).toContain('has not run');
  expect(scene.bank.callsFor('silent')).toEqual([]);
});
