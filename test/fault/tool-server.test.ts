/**
 * Every way in which a tool server fails, through the whole run: what it executed by its own log, what the model is
 * told on the wire, what the ledger says (F7–F10, F12–F15; INV-X1, INV-X2, INV-G3).
 */
import { createHash } from 'node:crypto';
import { afterAll, beforeAll, describe, expect, test } from '@jest/globals';
import type { RunHandle } from '../../client/index.ts';
import { defined } from '../../contracts/defined.ts';
import type { LedgerEntry } from '../../contracts/schemas/ledger.ts';
import { startEngine } from '../support/engine.ts';
import { executionsOf, expectSound } from '../support/faults/oracle.ts';
import { type Fault, faultsOf, LARGE_BYTES } from '../support/faults/table.ts';
import { type FaultRoute, startFaultRoute } from '../support/faults/world.ts';
import { answered } from '../support/models/bench.ts';
import { chatDialect } from '../support/models/chat.ts';
import { said } from '../support/models/dialect.ts';
import { type ModelProvider, startModelProvider } from '../support/models/provider.ts';
import { type Era, type RawServer, startRawServer, succeedWith } from '../support/servers/raw-server.ts';
import { keepZoneKey } from '../support/signing/keys.ts';
import { until } from '../support/until.ts';
import { factsOf, replayOwn, results } from '../support/world/run-record.ts';
import { decisionOn, openRequests, startWorld, type World } from '../support/world/world.ts';

const LONG_MS = 180_000;
const TOKEN = 'tok-canary-4f0c1d9e7b6a52838190aabbccddeeff';

const EXPECTED = faultsOf('');
const names = Object.keys(EXPECTED);
const toolOf = (name: string): string => name.replaceAll(/[^a-z0-9]+/gi, '-').replaceAll(/^-|-$/g, '');

describe.each<Era>(['modern', 'legacy'])('a run of faults at a server of the %s era', (era) => {
  let server: RawServer;
  let calm: RawServer;
  /** Whoever the redirect names. */
  let elsewhere: RawServer;
  let provider: ModelProvider;
  let world: World;
  let run: RunHandle;
  let routes: Record<'back' | 'gone', FaultRoute>;
  let ledger: readonly LedgerEntry[];
  /** Call id → what the model was told, as the provider received it. */
  let told: ReadonlyMap<string, string>;

  beforeAll(async () => {
    elsewhere = await startRawServer({ era, tools: {} });
    const tools = Object.entries(faultsOf(elsewhere.url)).map(([name, { behave }]) => [toolOf(name), behave] as const);
    server = await startRawServer({ era, tools: Object.fromEntries(tools) });
    calm = await startRawServer({ era, tools: { act: succeedWith('done at last') } });
    routes = { back: await startFaultRoute(calm.url), gone: await startFaultRoute(calm.url) };
    provider = await startModelProvider(chatDialect.schema);
    const engine = await startEngine();
    const zone = await keepZoneKey(engine.directory);
    const none = { kind: 'none' } as const;
    world = await startWorld({
      engine,
      config: {
        servers: {
          faults: { url: server.url },
          back: { url: routes.back.url, credentials: none },
          gone: { url: routes.gone.url, credentials: none },
        },
        policy: {
          missingAuthorization: 'fail',
          unknownOutcomes: 'record',
          approvers: { ids: ['bob'] },
          servers: { faults: { default: 'allow' } },
        },
        models: { main: { provider: 'openai-compatible', model: chatDialect.model, baseUrl: provider.baseUrl } },
        grants: zone.grants,
      },
      client: { servers: { faults: { url: server.url, key: zone.publicJwk } } },
    });
    const call = (id: string, name: string) => ({ type: 'call', id, name, json: '{}' }) as const;
    const calls = [
      ...names.map((name) => call(name, `faults__${toolOf(name)}`)),
      call('back', 'back__act'),
      call('gone', 'gone__act'),
    ];
    provider.enqueue(
      answered(chatDialect.events(said(calls))),
      answered(chatDialect.events(said([{ type: 'text', text: 'Done.' }]))),
    );
    const agent = { name: 'clerk', model: 'main' };
    const limits = { callsPerTurn: 32, resultBytes: 16_384, callTimeoutSeconds: 5 };
    run = await world.start([{ text: '' }], { agent, limits }, { authorizations: { faults: TOKEN } });
    const requests = await openRequests(run, 2);
    await Promise.all([routes.back.cut(), routes.gone.cut()]);
    for (const request of requests) await run.decide(decisionOn(request, 'bob'));
    const back = requests.find((request) => request.server === 'back')?.callId ?? '';
    await until(async () => factsOf(await run.ledger(), 'dispatched', back).length > 1, {
      what: 'a second attempt',
    });
    await routes.back.mend();
    await run.result();
    ledger = await run.ledger();
    told = new Map(chatDialect.echo(provider.received[1]?.body ?? {}).results.map(({ id, text }) => [id, text]));
  }, LONG_MS);

  afterAll(async () => {
    await world?.stop();
    await world?.engine.stop();
    await Promise.all([...Object.values(routes ?? {}), elsewhere, server, calm, provider].map((part) => part?.close()));
  });

  function callIdOf(name: string): string {
    return `t1.c${[...names, 'back', 'gone'].indexOf(name)}`;
  }

  test.each(names)('%s', (name) => {
    // Sound: it is one of the keys.
    const { outcome, code, executions, told: expected, sent = 1 } = EXPECTED[name] as Fault;
    const callId = callIdOf(name);
    expect(executionsOf(server.calls, run, callId)).toBe(executions);
    expect(factsOf(ledger, 'outcome', callId)).toMatchObject([{ outcome, ...defined({ code }) }]);
    const attempts = factsOf(ledger, 'dispatched', callId).length;
    // What was held back for what another call of this server has heard comes back without having been sent.
    if (factsOf(ledger, 'held', callId).length > 0) expect(attempts).toBeGreaterThan(sent);
    else expect(attempts).toBe(sent);
    expect(told.get(name)).toMatch(expected);
  });

  test('a server that is away when a call is sent, and comes back: proven not sent, so it is sent again and runs once', () => {
    expect(executionsOf(calm.calls, run, callIdOf('back'))).toBe(1);
    expect(factsOf(ledger, 'outcome', callIdOf('back'))).toMatchObject([{ outcome: 'succeeded' }]);
    expect(told.get('back')).toBe('done at last');
  });

  test('a server that stays away: after five attempts the call has failed, and the model is told that it did not run', () => {
    expect(executionsOf(calm.calls, run, callIdOf('gone'))).toBe(0);
    expect(factsOf(ledger, 'dispatched', callIdOf('gone'))).toHaveLength(5);
    expect(factsOf(ledger, 'outcome', callIdOf('gone'))).toMatchObject([
      { outcome: 'failed', code: 'TOOL_UNAVAILABLE' },
    ]);
    expect(told.get('gone')).toMatch(/^Not executed \(TOOL_UNAVAILABLE\)/);
  });

  test('the whole of a large result is an artifact, and no event of the history is large (F12)', async () => {
    const found = (await results(world, run)).find(({ callId }) => callId === callIdOf('a result of 5 MB'));
    const full = found?.outcome.kind === 'succeeded' ? found.outcome.result.full : undefined;
    if (full === undefined) throw new Error('there is no artifact');
    const whole = JSON.stringify({ content: [{ type: 'text', text: 'x'.repeat(LARGE_BYTES) }] });
    expect(full).toMatchObject({ bytes: whole.length, sha256: createHash('sha256').update(whole).digest('hex') });
    expect(Buffer.from(await world.artifacts.get(full)).equals(Buffer.from(whole))).toBe(true);
    const { historySize } = await world.client.workflow.getHandle(run.runId).describe();
    expect(historySize).toBeLessThan(512 * 1024);
  });

  test('nobody but the server itself was ever asked, and the model was told each result in the order of its proposals', () => {
    expect(elsewhere.seen).toEqual([]);
    expect([...told.keys()]).toEqual([...names, 'back', 'gone']);
    expect(provider.received.flatMap(({ violations }) => violations)).toEqual([]);
  });

  test('what must be true of every run is true of it, and it replays', async () => {
    await expectSound(run, [...server.calls, ...calm.calls]);
    await replayOwn(world);
  });
});
