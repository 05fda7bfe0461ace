/**
 * A server that wants another authorization than it got: people are asked, nothing is widened by itself (INV-S2, D-5,
 * F13, F14). A grant that will not outlive the deadline of a request is said when the request opens.
 */
import { writeFile } from 'node:fs/promises';
import { join } from 'node:path';
import { beforeAll, describe, expect, test } from '@jest/globals';
import { decodeJwt } from 'jose';
import { stringify } from 'yaml';
import { createVaultDirectory } from '../../activities/vault/directory.ts';
import type { RunHandle } from '../../client/index.ts';
import { compareWithHistory, readDeeds } from '../../client/ledger/history.ts';
import { VAULT_KEYS } from '../support/builders/vault.ts';
import { commandsAt } from '../support/cli.ts';
import { startProvider } from '../support/oauth/provider.ts';
import { putTokenFor } from '../support/oauth/refresh-bench.ts';
import { startRefreshProvider } from '../support/oauth/refresh-provider.ts';
import { factsOf, outcomes, outcomesAtEnd, refusalOf } from '../support/world/run-record.ts';
import { authorizationOf, wantedFor, wants, wantsFreshToken } from '../support/scenes/authorizations.ts';
import { startRawServer, succeedWith } from '../support/servers/raw-server.ts';
import { zoneKey } from '../support/signing/keys.ts';
import { decideNext, decisionOn, openRequests, useWorld } from '../support/world/world.ts';
import { silenceProvider } from '../conformance/tokens.suite.ts';
import { beforehand, during } from '../support/world/during.ts';

const CLIENT = { id: 'countersign', secret: 'client-secret-3a7f/19+c0=' };

silenceProvider();
const server = during(() =>
  startRawServer({
    era: 'modern',
    tools: {
      admin: wants('notes:admin'),
      gated: wants('notes:admin'),
      root: wants('notes:root'),
      plain: succeedWith('done'),
      never: (exchange) => exchange.status(401),
      fresh: wantsFreshToken,
    },
  }),
);
const resourcesOf = () => ({ [server.url]: 'notes:read notes:admin notes:root' });
const provider = during(() => startProvider({ clients: [CLIENT], resources: resourcesOf() }));
const issuer = during(() => startRefreshProvider({ client: CLIENT, resources: resourcesOf() }));
const zone = beforehand(zoneKey);
const world = useWorld(() => {
  const client = { clientId: CLIENT.id, clientSecret: CLIENT.secret };
  const scopes = { discovery: ['notes:read'], default: ['notes:read'], consentable: ['notes:admin'] };
  return {
    zone,
    client: { servers: { mine: { url: server.url, key: zone.publicJwk } } },
    config: {
      servers: {
        notes: {
          url: server.url,
          credentials: { kind: 'client-credentials', issuer: provider.issuer, ...client, scopes },
        },
        mine: { url: server.url },
        kept: { url: server.url, credentials: { kind: 'refresh', issuer: issuer.issuer, ...client, scopes } },
      },
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
  };
});
beforeAll(async () => {
  const servers = { mine: { url: server.url } };
  await writeFile(join(world.engine.directory, 'countersign.yaml'), stringify({ servers }));
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
    .map(({ headers }) => decodeJwt(headers.authorization?.replace(/^(?:Bearer|DPoP) /, '') ?? '')['scope']);
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
    expect(await outcomesAtEnd(run)).toEqual({ 't1.c0': 'succeeded', 't2.c0': 'succeeded', 't3.c0': 'succeeded' });
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
    await decideNext(run, 'bob');
    const request = await wantedFor(run);
    expect(request.generation).toBe(2);
    await run.authorize(authorizationOf(request, 'bob', { kind: 'consent' }));
    expect(await outcomesAtEnd(run)).toEqual({ 't1.c0': 'succeeded' });
    expect(factsOf(await run.ledger(), 'decision.accepted')).toHaveLength(1);
  });

  test('that the operator does not let people consent to is not asked for', async () => {
    const run = await started(['notes/root']);
    expect(await outcomesAtEnd(run)).toEqual({ 't1.c0': 'failed' });
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
    expect(await outcomesAtEnd(run)).toEqual({ 't1.c0': 'rejected' });
    expect(scopesSeen(run)).toHaveLength(1);
  });

  test('is no reason to wait where policy says so', async () => {
    const run = await started(['notes/admin'], { ...notes, policy: { missingAuthorization: 'fail' } });
    expect(await outcomesAtEnd(run)).toEqual({ 't1.c0': 'failed' });
  });
});

test('on the command line: what is wanted, and each way of answering', async () => {
  const cli = async (...args: string[]) => await commandsAt(world.engine)(args);
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
  expect(await outcomesAtEnd(run)).toEqual({ 't1.c0': 'succeeded', 't2.c0': 'rejected', 't3.c0': 'rejected' });
  expect((await cli('ledger', run.runId)).out).toMatch(/authorization\.given +t1\.c0 +consent by bob.*: once/);
});

test('a server that is never content is tried three times more, by somebody’s word each time, and not for ever', async () => {
  const run = await started(['notes/never']);
  for (const round of [1, 2, 3]) {
    const request = await wantedFor(run, 't1.c0', round);
    expect(request.about).toMatchObject({ reason: 'TOOL_UNAUTHORIZED', wants: 'consent' });
    await run.authorize(authorizationOf(request, 'bob', { kind: 'consent' }));
  }
  expect(await outcomesAtEnd(run)).toEqual({ 't1.c0': 'failed' });
});

describe('a grant that is no longer good', () => {
  test('is replaced by whose it was alone, for this call and the later ones of the run', async () => {
    const target = { url: server.url, key: zone.publicJwk };
    const steps = [{ calls: [{ tool: 'mine/fresh' }] }, { calls: [{ tool: 'mine/fresh' }] }, END];
    const servers = [{ name: 'mine' }];
    const stale = await world.start(steps, { servers }, { authorizations: { mine: 'stale-token' } });
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
    expect(await outcomesAtEnd(stale)).toEqual({ 't1.c0': 'succeeded', 't2.c0': 'succeeded' });
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
    issuer.next('lose');
    await run.decide(decisionOn(asked, 'ann'));
    const request = await wantedFor(run);
    expect(request.about).toMatchObject({ reason: 'GRANT_LOST', wants: 'grant', server: 'kept' });
    await put();
    await run.authorize(authorizationOf(request, 'ann', { kind: 'grant', grant: { server: 'kept', ref: 'ann-kept' } }));
    await decideNext(run, 'ann');
    expect(await outcomesAtEnd(run)).toEqual({ 't1.c0': 'succeeded', 't2.c0': 'succeeded' });
    expect(new Set(issuer.used.map(({ token }) => token)).size).toBe(issuer.used.length);
  });
});

test('D-5: consent of somebody whom it asks no more widens no token: those whom it asks now are asked, and one of them gives it', async () => {
  const run = await started(['notes/admin']);
  const first = await wantedFor(run);
  const before = world.config.policy;
  world.config.policy = { ...before, approvers: { ids: ['eve'], groups: [] } };
  try {
    await run.authorize(authorizationOf(first, 'bob', { kind: 'consent' }));
    const second = await wantedFor(run, 't1.c0', 2);
    expect(second.approvers).toMatchObject({ allOf: [{ ids: ['eve'] }] });
    await run.authorize(authorizationOf(second, 'eve', { kind: 'consent' }));
    await run.result();
  } finally {
    world.config.policy = before;
  }
  expect(await outcomes(run)).toEqual({ 't1.c0': 'succeeded' });
  expect(scopesSeen(run)).toEqual(['notes:read', 'notes:read', 'notes:read notes:admin']);
  expect(factsOf(await run.ledger(), 'authorization.given')).toMatchObject([
    { approver: { id: 'bob' } },
    { approver: { id: 'eve' } },
  ]);
});

describe('a grant that ends, where people look (F13)', () => {
  /** The client seals for as long as the run may take. */
  const GRANT_SECONDS = 3_600;

  test.each([
    ['that ends first', 2 * GRANT_SECONDS, true],
    ['that lasts longer', GRANT_SECONDS / 2, false],
  ] as const)('of a grant %s', async (_, deadlineSeconds, isTold) => {
    const over = {
      servers: [{ name: 'mine' }],
      limits: { wallClockSeconds: GRANT_SECONDS },
      policy: { deadlineSeconds, approvers: { ids: ['ann'] }, servers: { mine: { default: 'ask' as const } } },
    };
    const before = Date.now();
    const run = await world.start([{ calls: [{ tool: 'mine/plain' }] }, END], over, {
      authorizations: { mine: 'token' },
    });
    const [request] = await openRequests(run);
    const cli = commandsAt(world.engine);
    const ends = { request: request.grantExpiresAt, state: (await run.state()).grantEnds };
    const facts = factsOf(await run.ledger(), 'request.opened');
    const texts = await Promise.all(
      ['show', 'requests', 'ledger'].map(async (verb) => (await cli([verb, run.runId])).out),
    );
    if (isTold) {
      const at = request.grantExpiresAt ?? '';
      // A moment at the issuer of the grant, which is the client.
      expect(Date.parse(at)).toBeGreaterThanOrEqual(Math.floor(before / 1_000) * 1_000 + GRANT_SECONDS * 1_000 - 1_000);
      expect(Date.parse(at)).toBeLessThan(Date.parse(request.deadline));
      expect(ends.state).toEqual([{ callId: 't1.c0', server: 'mine', at }]);
      expect(facts).toMatchObject([{ callId: 't1.c0', grantExpiresAt: at }]);
      for (const text of texts) expect(text).toMatch(/grant ends/);
    } else {
      expect(ends).toEqual({ request: undefined, state: undefined });
      expect(facts.map((fact) => fact.grantExpiresAt)).toEqual([undefined]);
      for (const text of texts) expect(text).not.toMatch(/grant ends/);
    }
    await run.decide(decisionOn(request, 'ann'));
    await run.result();
  });
});
