/** A server that wants another authorization than it got: people are asked, nothing is widened by itself (INV-S2, F13, F14). */
import { writeFile } from 'node:fs/promises';
import { join } from 'node:path';
import { afterAll, beforeAll, describe, expect, jest, test } from '@jest/globals';
import { decodeJwt } from 'jose';
import { stringify } from 'yaml';
import { createVaultDirectory } from '../../activities/vault/directory.ts';
import { Countersign, type RunHandle } from '../../client/index.ts';
import { compareWithHistory, readDeeds } from '../../client/ledger/history.ts';
import { VAULT_KEYS } from '../support/builders/vault.ts';
import { runCommand } from '../support/cli.ts';
import { startEngine } from '../support/engine.ts';
import { keepZoneKey, type KeptZoneKey } from '../support/signing/keys.ts';
import { type RawServer, startRawServer, succeedWith } from '../support/servers/raw-server.ts';
import { type RunningAuthorizationServer, startProvider } from '../support/oauth/provider.ts';
import { putTokenFor } from '../support/oauth/refresh-bench.ts';
import { type RefreshProvider, startRefreshProvider } from '../support/oauth/refresh-provider.ts';
import { factsOf, outcomes, refusalOf } from '../support/world/run-record.ts';
import { authorizationOf, wantedFor, wants } from '../support/scenes/authorizations.ts';
import { decisionOn, openRequests, startWorld, type World } from '../support/world/world.ts';

const CLIENT = { id: 'countersign', secret: 'client-secret-3a7f/19+c0=' };
let server: RawServer;
let provider: RunningAuthorizationServer;
let issuer: RefreshProvider;
let world: World;
let zone: KeptZoneKey;

beforeAll(async () => {
  // oidc-provider says on the console that it runs on Node 20 and without a store.
  jest.spyOn(console, 'info').mockImplementation(() => undefined);
  jest.spyOn(console, 'warn').mockImplementation(() => undefined);
  server = await startRawServer({
    era: 'modern',
    tools: {
      admin: wants('notes:admin'),
      gated: wants('notes:admin'),
      root: wants('notes:root'),
      plain: succeedWith('done'),
      never: (exchange) => exchange.status(401),
      fresh: (exchange, attempt) =>
        exchange.request.headers.authorization === 'Bearer fresh-token'
          ? succeedWith('done')(exchange, attempt)
          : exchange.status(401),
    },
  });
  const resources = { [server.url]: 'notes:read notes:admin notes:root' };
  provider = await startProvider({ clients: [CLIENT], resources });
  issuer = await startRefreshProvider({ client: CLIENT, resources });
  const client = { clientId: CLIENT.id, clientSecret: CLIENT.secret };
  const scopes = { discovery: ['notes:read'], default: ['notes:read'], consentable: ['notes:admin'] };
  const engine = await startEngine();
  zone = await keepZoneKey(engine.directory);
  world = await startWorld({
    engine,
    config: {
      servers: {
        notes: {
          url: server.url,
          credentials: { kind: 'client-credentials', issuer: provider.issuer, ...client, scopes },
        },
        mine: { url: server.url },
        kept: { url: server.url, credentials: { kind: 'refresh', issuer: issuer.issuer, ...client, scopes } },
      },
      grants: zone.grants,
      vault: { kind: 'directory', directory: 'vault', keys: VAULT_KEYS },
      policy: {
        approvers: { ids: ['bob'] },
        servers: {
          notes: { default: 'allow', tools: { gated: 'ask' } },
          mine: { default: 'allow' },
          kept: { default: 'allow' },
        },
      },
    },
  });
}, 120_000);
afterAll(async () => {
  await world?.stop();
  await world?.engine.stop();
  await Promise.all([server?.close(), provider?.close(), issuer?.close()]);
  jest.restoreAllMocks();
});

const END = { text: 'done' };
const notes = { servers: [{ name: 'notes' }] };

async function started(tools: readonly string[], over: object = notes): Promise<RunHandle> {
  return await world.start([...tools.map((tool) => ({ calls: [{ tool }] })), END], over);
}

/** Scopes of the tokens with which calls of a run reached the server, in order. */
function scopesSeen(run: RunHandle): unknown[] {
  return server.seen
    .filter(({ headers }) => String(headers['idempotency-key']).startsWith(`${run.runId}/`))
    .map(({ headers }) => decodeJwt(headers.authorization?.replace(/^Bearer /, '') ?? '')['scope']);
}

describe('a scope that the token lacks', () => {
  test('is asked for by name; consent widens this call alone, and the next one is asked again', async () => {
    const run = await started(['notes/admin', 'notes/admin', 'notes/plain']);
    const request = await wantedFor(run);
    expect(request).toMatchObject({
      about: {
        kind: 'authorization',
        server: 'notes',
        reason: 'TOOL_INSUFFICIENT_SCOPE',
        wants: 'consent',
        scopes: ['notes:admin'],
      },
      approvers: { allOf: [{ layer: 'organisation', ids: ['bob'] }] },
    });
    expect(await run.state()).toMatchObject({ status: 'waiting', pending: 1 });
    const answer = authorizationOf(request, 'bob', { kind: 'consent' });
    const ack = await run.authorize(answer);
    expect(ack).toMatchObject({ answer: 'consent', decidedBy: 'bob' });
    // Sent again it gets its first answer (INV-D3).
    expect(await run.authorize(answer)).toEqual(ack);
    const second = await wantedFor(run, 't2.c0');
    await run.authorize(authorizationOf(second, 'bob', { kind: 'consent' }));
    await run.result();
    expect(await outcomes(run)).toEqual({ 't1.c0': 'succeeded', 't2.c0': 'succeeded', 't3.c0': 'succeeded' });
    const both = 'notes:read notes:admin';
    expect(scopesSeen(run)).toEqual(['notes:read', both, 'notes:read', both, 'notes:read']);
    expect(factsOf(await run.ledger(), 'authorization.given')).toMatchObject([
      { callId: 't1.c0', answer: 'consent', approver: { id: 'bob' } },
      { callId: 't2.c0', answer: 'consent' },
    ]);
    const [deeds, ledger] = [await readDeeds(world.client, run.runId), await run.ledger()];
    expect(compareWithHistory({ before: ledger, after: ledger }, deeds)).toEqual([]);
  });

  test('of a call that was approved keeps its approval: nobody is asked for that again', async () => {
    const run = await started(['notes/gated']);
    const [asked] = await openRequests(run);
    if (asked === undefined) throw new Error('no request');
    await run.decide(decisionOn(asked, 'bob'));
    const request = await wantedFor(run);
    expect(request.generation).toBe(2);
    await run.authorize(authorizationOf(request, 'bob', { kind: 'consent' }));
    await run.result();
    expect(await outcomes(run)).toEqual({ 't1.c0': 'succeeded' });
    expect(factsOf(await run.ledger(), 'decision.accepted')).toHaveLength(1);
  });

  test('that the operator does not let people consent to is not asked for', async () => {
    const run = await started(['notes/root']);
    await run.result();
    expect(await outcomes(run)).toEqual({ 't1.c0': 'failed' });
    expect(factsOf(await run.ledger(), 'request.opened')).toEqual([]);
  });

  test('is not given where the configuration says less by then (INV-S2)', async () => {
    const run = await started(['notes/admin']);
    const request = await wantedFor(run);
    const { credentials } = world.config.servers['notes'] ?? {};
    if (credentials?.kind !== 'client-credentials') throw new Error('no scopes');
    const before = credentials.scopes.consentable.splice(0);
    await run.authorize(authorizationOf(request, 'bob', { kind: 'consent' }));
    await run.result();
    credentials.scopes.consentable.push(...before);
    expect(await outcomes(run)).toEqual({ 't1.c0': 'failed' });
    expect(scopesSeen(run)).toEqual(['notes:read']);
  });

  test('is answered by whom policy names, by `authorize`, and with what was asked', async () => {
    const run = await started(['notes/admin']);
    const request = await wantedFor(run);
    const refused = async (code: string, promise: Promise<unknown>) =>
      expect(await refusalOf(promise)).toMatchObject({ code });
    await refused('DECISION_NOT_PERMITTED', run.decide(decisionOn(request, 'bob')));
    await refused('APPROVER_NOT_ENTITLED', run.authorize(authorizationOf(request, 'eve', { kind: 'consent' })));
    const grant = { server: 'notes', ref: 'x' };
    await refused('DECISION_NOT_PERMITTED', run.authorize(authorizationOf(request, 'bob', { kind: 'grant', grant })));
    const stale = { ...authorizationOf(request, 'bob', { kind: 'consent' }), digest: 'a'.repeat(64) };
    await refused('DIGEST_MISMATCH', run.authorize(stale));
    await run.authorize(authorizationOf(request, 'bob', { kind: 'decline', reason: 'too much' }));
    await run.result();
    expect(await outcomes(run)).toEqual({ 't1.c0': 'rejected' });
    expect(scopesSeen(run)).toHaveLength(1);
  });

  test('is no reason to wait where policy says so', async () => {
    const run = await started(['notes/admin'], { ...notes, policy: { missingAuthorization: 'fail' } });
    await run.result();
    expect(await outcomes(run)).toEqual({ 't1.c0': 'failed' });
  });
});

test('on the command line: what is wanted, and each way of answering', async () => {
  const { directory, server: engine } = world.engine;
  await writeFile(join(directory, 'countersign.yaml'), stringify({ servers: { mine: { url: server.url } } }));
  const cli = async (...args: string[]) =>
    await runCommand([...args, '--address', engine.address, '--namespace', engine.namespace], { directory });
  const run = await started(['notes/admin', 'notes/never', 'notes/admin']);
  await wantedFor(run);
  const answer = async (callId: string, ...args: string[]) =>
    (await cli('authorize', run.runId, callId, '--as', 'bob', ...args, '--json')).exitCode;
  expect((await cli('requests', run.runId)).out).toMatch(/consent to notes:admin for this call/);
  for (const wrong of [[], ['--again'], ['--scope', 'notes:root'], ['--scope', 'notes:admin', '--decline', 'x']])
    expect(await answer('t1.c0', ...wrong)).toBe(2);
  expect(await answer('t9.c0', '--again')).toBe(5);
  expect(await answer('t1.c0', '--ref', 'x')).toBe(3);
  expect(await answer('t1.c0', '--scope', 'notes:admin', '--digest', 'a'.repeat(64))).toBe(5);
  const consent = ['t1.c0', '--scope', 'notes:admin', '--comment', 'once', '--decision-id', 'mine'] as const;
  expect(await answer(...consent)).toBe(0);
  await wantedFor(run, 't2.c0');
  expect(await answer(...consent)).toBe(0);
  expect(await answer('t2.c0', '--decline', 'mend it first')).toBe(0);
  await wantedFor(run, 't3.c0');
  expect(await answer('t3.c0', '--decline', 'enough')).toBe(0);
  await run.result();
  expect(await outcomes(run)).toEqual({ 't1.c0': 'succeeded', 't2.c0': 'rejected', 't3.c0': 'rejected' });
  expect((await cli('ledger', run.runId)).out).toMatch(/authorization\.given +t1\.c0 +consent by bob.*: once/);
});

test('a server that is never content is tried three times more, by somebody’s word each time, and not for ever', async () => {
  const run = await started(['notes/never']);
  for (const round of [1, 2, 3]) {
    const request = await wantedFor(run, 't1.c0', round);
    expect(request.about).toMatchObject({ reason: 'TOOL_UNAUTHORIZED', wants: 'consent' });
    await run.authorize(authorizationOf(request, 'bob', { kind: 'consent' }));
  }
  await run.result();
  expect(await outcomes(run)).toEqual({ 't1.c0': 'failed' });
});

describe('a grant that is no longer good', () => {
  const startedWith = async (client: { servers: Record<string, { url: string; key: typeof zone.publicJwk }> }) => {
    const { countersign: _, client: connection, artifacts, config } = world;
    const countersign = new Countersign({ client: connection, artifacts, taskQueue: config.taskQueue, ...client });
    const calls = [{ calls: [{ tool: 'mine/fresh' }] }, { calls: [{ tool: 'mine/fresh' }] }, END];
    const spec = world.spec(calls, { servers: [{ name: 'mine' }] });
    return await countersign.startRun({
      runId: `regrant-${process.pid}`,
      spec,
      authorizations: { mine: 'stale-token' },
    });
  };

  test('is replaced by whose it was alone, for this call and the later ones of the run', async () => {
    const target = { url: server.url, key: zone.publicJwk };
    const client = { servers: { mine: target } };
    const stale = await startedWith(client);
    const request = await wantedFor(stale);
    expect(request).toMatchObject({
      about: { reason: 'TOOL_UNAUTHORIZED', wants: 'grant' },
      approvers: { allOf: [{ ids: ['ann'] }] },
    });
    const grant = await stale.sealGrant({ server: 'mine', authorization: 'fresh-token', target });
    expect(await refusalOf(stale.authorize(authorizationOf(request, 'bob', { kind: 'grant', grant })))).toMatchObject({
      code: 'APPROVER_NOT_ENTITLED',
    });
    const clear = { server: 'mine', jwe: 'fresh-token' };
    // Sound: what no schema lets through.
    const inClear = authorizationOf(request, 'ann', { kind: 'grant', grant: clear as unknown as typeof grant });
    expect(await refusalOf(stale.authorize(inClear))).toMatchObject({ code: 'DECISION_INVALID' });
    const foreign = { ...grant, server: 'notes' };
    expect(
      await refusalOf(stale.authorize(authorizationOf(request, 'ann', { kind: 'grant', grant: foreign }))),
    ).toMatchObject({
      code: 'DECISION_INVALID',
    });
    await stale.authorize(authorizationOf(request, 'ann', { kind: 'grant', grant }));
    await stale.result();
    expect(await outcomes(stale)).toEqual({ 't1.c0': 'succeeded', 't2.c0': 'succeeded' });
    expect(factsOf(await stale.ledger(), 'authorization.given')).toMatchObject([
      { answer: 'grant', approver: { id: 'ann' } },
    ]);
    const history = JSON.stringify(await world.client.workflow.getHandle(stale.runId).fetchHistory());
    expect(history).not.toContain('fresh-token');
    expect(history).not.toContain(Buffer.from('fresh-token').toString('base64').slice(0, 14));
  });

  test('F10: a renewal that was lost asks its owner, and goes on with what they put in its place', async () => {
    const vault = createVaultDirectory(join(world.engine.directory, 'vault'), VAULT_KEYS);
    const put = async () =>
      putTokenFor(vault, await issuer.grant('ann', 'notes:read', server.url), issuer.issuer, 'ann-kept', server.url);
    await put();
    const grants = [{ server: 'kept', ref: 'ann-kept' }];
    const run = await world.start([{ calls: [{ tool: 'kept/plain' }] }, { calls: [{ tool: 'kept/plain' }] }, END], {
      servers: [{ name: 'kept' }],
      grants,
      policy: { servers: { kept: { tools: { plain: 'ask' } } } },
    });
    const [asked] = await openRequests(run);
    if (asked === undefined) throw new Error('no request');
    issuer.next('lose');
    await run.decide(decisionOn(asked, 'ann'));
    const request = await wantedFor(run);
    expect(request.about).toMatchObject({ reason: 'GRANT_LOST', wants: 'grant', server: 'kept' });
    await put();
    await run.authorize(authorizationOf(request, 'ann', { kind: 'grant', grant: { server: 'kept', ref: 'ann-kept' } }));
    const [second] = await openRequests(run);
    if (second === undefined) throw new Error('no request');
    await run.decide(decisionOn(second, 'ann'));
    await run.result();
    expect(await outcomes(run)).toEqual({ 't1.c0': 'succeeded', 't2.c0': 'succeeded' });
    expect(new Set(issuer.used.map(({ token }) => token)).size).toBe(issuer.used.length);
  });
});
