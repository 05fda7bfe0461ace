/** What a catalog says is what runs may do, at the time of the call (S3.3, S3.5, H-7, B-5). */
import { beforeEach, describe, expect, test } from '@jest/globals';
import type { Tool } from '@modelcontextprotocol/server';
import type { CatalogHandle } from '../../client/index.ts';
import type { ConfigInput } from '../../contracts/schemas/config.ts';
import { entryOf } from '../../domain/catalog/state.ts';
import { ADMINISTRATORS, allowed, ANN, changed, connected, refreshed } from '../support/scenes/catalogs.ts';
import { codeOf, factsOf, ledgerShows, outcomes, transcript } from '../support/world/run-record.ts';
import { startRecordingServer } from '../support/servers/recording-server.ts';
import { decisionOn, openRequests, requestFor, startWorld, useEngine, useWorld } from '../support/world/world.ts';
import { during } from '../support/world/during.ts';

const object = { type: 'object' } as const;
const FIRST: readonly Tool[] = [
  { name: 'pay', description: 'Pays an amount.', inputSchema: object },
  { name: 'issue.get', description: 'Reads an issue.', inputSchema: object, annotations: { readOnlyHint: true } },
  { name: 'issue__get', description: 'Reads another.', inputSchema: object },
];
const END = { text: 'done' };

const tools: Tool[] = [];

const engine = useEngine();
const bank = during(() => startRecordingServer({ tools }));
beforeEach(() => void tools.splice(0, tools.length, ...FIRST));

describe('a run in which the catalog says what may be done', () => {
  let catalogs = 0;
  let catalog: CatalogHandle;
  let server: string;

  /** The organisation lets everything pass, so that whatever is asked or refused here is the catalog's doing. */
  const world = useWorld(() => ({
    engine,
    config: {
      policy: { strategy: 'never' },
      servers: { fixed: { url: bank.url, credentials: { kind: 'none' }, trusted: true } },
      egress: { runServers: [new URL(bank.url).origin] },
      catalog: { administrators: ADMINISTRATORS, origins: [new URL(bank.url).origin], newTools: 'strategy' },
    },
  }));
  beforeEach(async () => {
    server = `bank-${(catalogs += 1)}`;
    catalog = world.countersign.catalog(server);
    await connected(catalog, bank.url);
  });

  const servers = (over: object = {}) => ({ servers: [{ name: server, ...over }] });
  const call = (tool: string, purpose: string) => ({ tool: `${server}/${tool}`, arguments: { purpose } });
  /** What a worker read seconds ago is forgotten with it. */
  const unread = async () => await world.restartWorkers();

  describe('what is offered', () => {
    test('every tool under a name of its own, and on the wire under its original one (S3.5)', async () => {
      const steps = [{ calls: [call('issue.get', 'wire'), call('issue__get', 'wire')] }, END];
      const run = await world.start(steps, servers());
      await run.result();
      expect(
        bank
          .callsFor('wire')
          .map(({ tool }) => tool)
          .sort(),
      ).toEqual(['issue.get', 'issue__get']);
    });

    test('no disabled tool and no missing one; a call of it is denied with the names that are near (S3.3)', async () => {
      await changed(catalog, { tool: 'pay', enabled: false });
      tools.splice(1, 1);
      await refreshed(catalog);
      await unread();
      const run = await world.start([{ calls: [call('pay', 'hidden'), call('issue.get', 'hidden')] }, END], servers());
      await run.result();
      expect(factsOf(await run.ledger(), 'tools.discovered')).toMatchObject([{ count: 1 }]);
      expect(factsOf(await run.ledger(), 'verdict')).toMatchObject([{ verdict: 'deny' }, { verdict: 'deny' }]);
      expect(JSON.stringify(await transcript(world, run))).toContain(`Did you mean ${server}__issue__get`);
      expect(bank.callsFor('hidden')).toEqual([]);
    });

    test('a denied tool is offered, and says so when it is called', async () => {
      await changed(catalog, { tool: 'pay', denied: true });
      await unread();
      const run = await world.start([{ calls: [call('pay', 'denied')] }, END], servers());
      await run.result();
      expect(factsOf(await run.ledger(), 'outcome')).toMatchObject([{ outcome: 'denied', code: 'POLICY_DENIED' }]);
      expect(bank.callsFor('denied')).toEqual([]);
    });

    test('a tool that nobody has seen in the catalog asks where the organisation says so', async () => {
      const strict = await startWorld({
        engine,
        bundle: world.bundle,
        config: {
          taskQueue: 'strict',
          policy: { strategy: 'never' },
          catalog: { administrators: ADMINISTRATORS, origins: [new URL(bank.url).origin] },
        },
      });
      const own = strict.countersign.catalog('strict');
      await connected(own, bank.url);
      await allowed(own, 'pay');
      tools.push({ name: 'brand-new', inputSchema: object });
      const steps = [
        {
          calls: ['pay', 'brand-new', 'issue.get'].map((tool) => ({
            tool: `strict/${tool}`,
            arguments: { purpose: 'new' },
          })),
        },
        END,
      ];
      const run = await strict.start(steps, { servers: [{ name: 'strict' }] });
      const requests = await openRequests(run, 2);
      expect(requests.map(({ tool, rules }) => [tool, rules])).toEqual([
        ['brand-new', ['catalog/strict/new']],
        ['issue.get', ['catalog/strict/tools/issue.get']],
      ]);
      for (const request of requests) await run.decide(decisionOn(request, 'ann'));
      await run.result();
      expect(bank.callsFor('new')).toHaveLength(3);
      await strict.stop();
    });
  });

  describe('what changes while a call waits', () => {
    const waiting = async (purpose: string) => {
      await changed(catalog, { tool: 'pay', requiresApproval: true });
      await unread();
      const run = await world.start([{ calls: [call('pay', purpose)] }, END], servers());
      const request = await requestFor(run, 't1.c0');
      expect(request.rules).toEqual([`catalog/${server}/tools/pay`]);
      return { run, request };
    };

    test.each([
      ['disabled', 'TOOL_DISABLED', async () => await changed(catalog, { tool: 'pay', enabled: false })],
      ['denied', 'POLICY_DENIED', async () => await changed(catalog, { tool: 'pay', denied: true })],
      [
        'missing',
        'TOOL_MISSING',
        async () => {
          tools.splice(0, 1);
          await refreshed(catalog);
        },
      ],
      [
        'disconnected',
        'TOOL_DISABLED',
        async () => await catalog.disconnect({ by: ANN, expectedVersion: (await catalog.snapshot()).policyVersion }),
      ],
    ])('a tool that was %s is not called, whoever approved it', async (how, code, change) => {
      const { run, request } = await waiting(how);
      await change();
      await unread();
      await run.decide(decisionOn(request, 'ann'));
      await run.result();
      expect(factsOf(await run.ledger(), 'outcome')).toMatchObject([{ outcome: 'denied', code }]);
      expect(bank.callsFor(how)).toEqual([]);
    });

    test('one that others must countersign now is asked again, of both', async () => {
      const { run, request } = await waiting('others');
      await changed(catalog, { tool: 'pay', approvers: { ids: [], groups: ['treasury'] } });
      await unread();
      await run.decide(decisionOn(request, 'ann'));
      const [again] = await openRequests(run);
      expect(again).toMatchObject({
        generation: 2,
        approvers: { allOf: [{ layer: 'catalog', ids: [], groups: ['treasury'] }] },
        reopenedBecause: expect.stringContaining('VERDICT_STRICTER'),
      });
      if (again === undefined) return;
      await run.decide({ ...decisionOn(again, 'tom'), approver: { id: 'tom', groups: ['treasury'] } });
      await run.result();
      expect(bank.callsFor('others')).toHaveLength(1);
    });

    test('one whose definition changed is asked again about what it is now, and what was approved before does not run it (H-7)', async () => {
      const { run, request } = await waiting('drift');
      tools.splice(0, 1, { name: 'pay', description: 'Pays twice.', inputSchema: object });
      const now = await refreshed(catalog);
      await unread();
      await run.decide(decisionOn(request, 'ann'));
      const [again] = await openRequests(run);
      expect(again).toMatchObject({
        generation: 2,
        description: 'Pays twice.',
        definitionHash: entryOf(now, 'pay')?.definition.hash,
        reopenedBecause: expect.stringContaining('DEFINITION_CHANGED'),
      });
      expect(bank.callsFor('drift')).toEqual([]);
      if (again === undefined) return;
      expect(again.digest).not.toBe(request.digest);
      await run.decide(decisionOn(again, 'ann'));
      await run.result();
      expect(bank.callsFor('drift')).toHaveLength(1);
      expect(factsOf(await run.ledger(), 'outcome')).toMatchObject([{ outcome: 'succeeded' }]);
    });

    test('arguments that the changed tool does not take are refused, and nobody is asked for them', async () => {
      const { run, request } = await waiting('unfit');
      tools.splice(0, 1, { name: 'pay', inputSchema: { ...object, required: ['iban'] } });
      await refreshed(catalog);
      await unread();
      await run.decide(decisionOn(request, 'ann'));
      await run.result();
      expect(factsOf(await run.ledger(), 'outcome')).toMatchObject([{ outcome: 'denied', code: 'ARGUMENTS_INVALID' }]);
      expect(bank.callsFor('unfit')).toEqual([]);
    });
  });

  describe('a server that says something else', () => {
    test('nothing of it runs unasked where it was replaced, before a refresh and after it, until somebody has looked (H-7)', async () => {
      tools.splice(0, 1, { name: 'pay', description: 'Pays me.', inputSchema: object });
      const asks = async (purpose: string) => {
        const run = await world.start([{ calls: [call('pay', purpose)] }, END], servers());
        const [request] = await openRequests(run);
        await run.stop({ by: 'ann', reason: 'seen' });
        return request;
      };
      const drift = { rules: [`catalog/${server}/tools/pay/drift`], description: 'Pays me.' };
      expect(await asks('before')).toMatchObject(drift);
      await refreshed(catalog);
      await unread();
      expect(await asks('after')).toMatchObject(drift);
      await allowed(catalog, 'pay');
      await unread();
      const run = await world.start([{ calls: [call('pay', 'looked')] }, END], servers());
      await run.result();
      expect([bank.callsFor('before'), bank.callsFor('after')]).toEqual([[], []]);
      expect(bank.callsFor('looked')).toHaveLength(1);
    });

    test('what nobody has looked at asks in the run that was told of it, whatever is acknowledged later (H-7)', async () => {
      tools.splice(0, 1, { name: 'pay', description: 'Pays, says the run.', inputSchema: object });
      const steps = [{ calls: [call('pay', 'faces')] }, { calls: [call('pay', 'faces again')] }, END];
      const run = await world.start(steps, servers());
      const [first] = await openRequests(run);
      expect(first).toMatchObject({ rules: [`catalog/${server}/tools/pay/drift`], description: 'Pays, says the run.' });
      tools.splice(0, 1, { name: 'pay', description: 'Pays, says the catalog.', inputSchema: object });
      await refreshed(catalog);
      await allowed(catalog, 'pay');
      await unread();
      if (first !== undefined) await run.decide(decisionOn(first, 'ann', 'reject'));
      const second = await requestFor(run, 't2.c0');
      expect(second).toMatchObject({ status: 'open', rules: [`catalog/${server}/tools/pay/drift`] });
      await run.stop({ by: 'ann', reason: 'seen' });
      await run.result();
      expect([...bank.callsFor('faces'), ...bank.callsFor('faces again')]).toEqual([]);
    });
  });

  describe('every way in which a server comes into a run is gated (B-5)', () => {
    test('configured and in the catalog: the stricter of both', async () => {
      const fixed = world.countersign.catalog('fixed');
      await connected(fixed, bank.url);
      await changed(fixed, { tool: 'pay', enabled: false }, { tool: 'issue.get', requiresApproval: true });
      await unread();
      const steps = [
        { calls: [{ tool: 'fixed/pay' }, { tool: 'fixed/issue.get', arguments: { purpose: 'both' } }] },
        END,
      ];
      const run = await world.start(steps, { servers: [{ name: 'fixed' }] });
      const [request] = await openRequests(run);
      expect(request).toMatchObject({ tool: 'issue.get', rules: ['catalog/fixed/tools/issue.get'] });
      await run.stop({ by: 'ann', reason: 'seen' });
      await run.result();
      expect(bank.callsFor('both')).toEqual([]);
    });

    test('brought by the run and in the catalog: one address, and the policy of the catalog', async () => {
      await changed(catalog, { tool: 'pay', enabled: false });
      await unread();
      const run = await world.start([{ calls: [call('pay', 'brought')] }, END], servers({ url: bank.url }));
      await run.result();
      expect(factsOf(await run.ledger(), 'verdict')).toMatchObject([{ verdict: 'deny' }]);
      const elsewhere = await world.start([END], servers({ url: `${bank.url}/other` }));
      expect(await codeOf(elsewhere.result())).toBe('SPEC_INVALID');
    });

    test('disconnected: no run may use it, also not under an address of its own', async () => {
      await catalog.disconnect({ by: ANN, expectedVersion: 1 });
      await unread();
      for (const over of [{}, { url: bank.url }]) {
        const run = await world.start([END], servers(over));
        expect(await codeOf(run.result())).toBe('SERVER_UNKNOWN');
      }
    });

    test("another tenant's run does not see it", async () => {
      const run = await world.start([END], { ...servers(), initiator: { id: 'olga', tenant: 'other' } });
      expect(await codeOf(run.result())).toBe('SERVER_UNKNOWN');
    });
  });
});

describe('what the catalog says when a call would leave, for each server by itself (S3.3, S3.5, INV-G1)', () => {
  const configOf = (): ConfigInput => {
    const server = { url: bank.url, credentials: { kind: 'none' as const }, taskQueue: 'bank-tools' };
    return {
      taskQueue: 'dispatch',
      policy: { strategy: 'never', servers: { bank: { tools: { 'issue.get': 'ask' } } } },
      servers: { bank: server, twin: server },
      catalog: { administrators: ADMINISTRATORS, newTools: 'strategy' },
    };
  };
  /** Serves runs and catalogs; calls of tools wait for somebody who serves their queue. */
  const runs = useWorld(() => ({ engine, config: configOf(), role: 'runs' }));

  /** A worker for the tools, as long as it is needed. It has read nothing yet. */
  async function withTools<T>(act: () => Promise<T>): Promise<T> {
    const side = await startWorld({ engine, config: configOf(), role: 'tools' });
    try {
      return await act();
    } finally {
      await side.workers.stop();
    }
  }

  test('a tool that was turned to ask is asked about, and then called once', async () => {
    const catalog = runs.countersign.catalog('bank');
    await withTools(async () => await connected(catalog, bank.url));
    const pay = { tool: 'bank/pay', arguments: { purpose: 'turned' } };
    const run = await runs.start([{ calls: [{ tool: 'bank/issue.get' }] }, { calls: [pay] }, END]);
    const [first] = await withTools(async () => await openRequests(run));
    // Nobody serves the tools any more: the next call is allowed, and on its way to nobody.
    if (first !== undefined) await run.decide(decisionOn(first, 'ann', 'reject'));
    await ledgerShows(run, 'dispatched', 't2.c0');
    await changed(catalog, { tool: 'pay', requiresApproval: true });
    await withTools(async () => {
      const [request] = await openRequests(run);
      expect(request?.callId).toBe('t2.c0');
      expect(request).toMatchObject({ generation: 1, reopenedBecause: expect.stringContaining('VERDICT_STRICTER') });
      expect(bank.callsFor('turned')).toEqual([]);
      if (request !== undefined) await run.decide(decisionOn(request, 'ann'));
      await run.result();
    });
    expect(await outcomes(run)).toEqual({ 't1.c0': 'rejected', 't2.c0': 'succeeded' });
    expect(bank.callsFor('turned')).toHaveLength(1);
  });

  test('two servers with one tool name: each has its own policy (S3.5)', async () => {
    const twin = runs.countersign.catalog('twin');
    await withTools(async () => {
      await connected(runs.countersign.catalog('bank'), bank.url);
      await connected(twin, bank.url);
      await changed(runs.countersign.catalog('bank'), { tool: 'pay', requiresApproval: false });
      await changed(twin, { tool: 'pay', denied: true });
    });
    await runs.restartWorkers();
    const calls = ['bank/pay', 'twin/pay'].map((tool) => ({ tool, arguments: { purpose: 'twins' } }));
    const run = await runs.start([{ calls }, END]);
    await withTools(async () => await run.result());
    expect(await outcomes(run)).toEqual({ 't1.c0': 'succeeded', 't1.c1': 'denied' });
    expect(bank.callsFor('twins')).toHaveLength(1);
  });
});
