/**
 * The `authorization` that a caller gives to a run, from the client library to the tool server (S1.1, S1.3, S1.4, S1.7,
 * H-1): each run's own, for each server its own. Sealed in a grant and used for anything but what it was sealed for, by
 * whoever may write to the namespace, it does not open, and no server ever sees it (INV-S1, S1.5, H-3, F13, F15).
 */
import { describe, expect, jest, test } from '@jest/globals';
import { Client } from '@temporalio/client';
import { msToTs } from '@temporalio/common/lib/time.js';
import { Countersign, type RunHandle } from '../../client/index.ts';
import { sealAuthorization, type SealingRequest } from '../../client/signing/sealing.ts';
import { RUN_WORKFLOW } from '../../contracts/names.ts';
import { RunSpec, type RunSpecInput } from '../../contracts/schemas/run-spec.ts';
import { specHash } from '../../domain/request/digest.ts';
import { setUpNamespace } from '../../workers/setup.ts';
import { startWorkers } from '../../workers/worker.ts';
import { sightingsInHistory } from '../support/canary/stores.ts';
import { authorizationsOf, GATED_CALL, startGrantScene, TWO_CALLS } from '../support/faults/grants.ts';
import { expectSound } from '../support/faults/oracle.ts';
import { until } from '../support/until.ts';
import { factsOf, outcomesAtEnd, refusalOf, replayOwn } from '../support/world/run-record.ts';
import { decideNext, decisionOn, openRequests, startWorld } from '../support/world/world.ts';
import { during } from '../support/world/during.ts';

jest.setTimeout(120_000);

const scene = during(() => startGrantScene());

describe('an authorization that a caller gives (S1.1, S1.3, S1.4, S1.7, H-1)', () => {
  const SHARED = { servers: [{ name: 'shared' }] };

  test('two runs with two authorizations to one server: the server sees each its own, on listing and on every call', async () => {
    const { world, shared } = scene;
    const [ann, ben] = await Promise.all([
      world.start(TWO_CALLS, { servers: [{ name: 'shared', authorization: 'token-of-ann' }] }),
      // A prefix that the caller wrote is not doubled (S1.3).
      world.start(TWO_CALLS, SHARED, { authorizations: { shared: 'bearer token-of-ben' } }),
    ]);
    await Promise.all([ann.result(), ben.result()]);
    const tokens = new Map([
      [ann, 'Bearer token-of-ann'],
      [ben, 'Bearer token-of-ben'],
    ]);
    expect(authorizationsOf(shared, 'tools/list')).toHaveLength(2);
    expect(new Set(authorizationsOf(shared, 'tools/list'))).toEqual(new Set(tokens.values()));
    for (const [run, token] of tokens) {
      const own = shared.seen.filter(({ headers }) => String(headers['idempotency-key']).startsWith(`${run.runId}/`));
      expect(own.map(({ headers }) => headers.authorization)).toEqual([token, token]);
      const evidence = factsOf(await expectSound(run, shared.calls), 'outcome').map((fact) => fact.token);
      expect(evidence).toEqual([{ strategy: 'given' }, { strategy: 'given' }]);
    }
    // No request of any kind went without one, or under a third one.
    expect(new Set(shared.seen.map(({ headers }) => headers.authorization))).toEqual(new Set(tokens.values()));
    await replayOwn(world);
  });

  test('one run with an authorization for each of two servers: none meets that of the other (F15)', async () => {
    const { world, shared, other } = scene;
    const before = { shared: shared.seen.length, other: other.seen.length };
    const steps = [{ calls: [{ tool: 'shared/act' }, { tool: 'other/act' }] }, { text: 'Done.' }];
    const authorizations = { shared: 'token-for-shared', other: 'token-for-other' };
    const run = await world.start(steps, {}, { authorizations });
    await decideNext(run, 'bob');
    await run.result();
    const used = (server: 'shared' | 'other') => [
      ...new Set(scene[server].seen.slice(before[server]).map(({ headers }) => headers.authorization)),
    ];
    expect(used('shared')).toEqual(['Bearer token-for-shared']);
    expect(used('other')).toEqual(['Bearer token-for-other']);
    await expectSound(run, [...shared.calls, ...other.calls]);
    await replayOwn(world);
  });

  test('the workers that hold the run cannot open the grant, and need not: only the zone of the server holds the key', async () => {
    const { engine, world, shared, targets } = scene;
    const zoned = scene.configOf('zoned', { servers: { shared: { url: shared.url, taskQueue: 'zone-1' } } });
    const common = { engine, bundle: world.bundle, client: { servers: targets } };
    const keyless = await startWorld({ ...common, config: { ...zoned, grants: { keys: [] } }, role: 'runs' });
    const zone = await startWorld({ ...common, config: zoned, role: 'tools' });
    try {
      const run = await keyless.start(TWO_CALLS, {}, { authorizations: { shared: 'token-of-the-zone-1234' } });
      expect(await outcomesAtEnd(run)).toEqual({ 't1.c0': 'succeeded', 't1.c1': 'succeeded' });
      expect(authorizationsOf(shared, 'tools/call')).toContain('Bearer token-of-the-zone-1234');
      expect(await sightingsInHistory(keyless, run.runId, ['token-of-the-zone-1234'])).toEqual([]);
      // Control: what stands in the same history is found.
      expect(await sightingsInHistory(keyless, run.runId, ['Do it.'])).not.toEqual([]);
      await replayOwn(keyless);
    } finally {
      await Promise.all([keyless.stop(), zone.stop()]);
    }
  });

  test('givenTokens: deny: a run that brings an authorization is refused by name, and nothing is asked of the server', async () => {
    const { engine, world, shared, targets } = scene;
    const config = scene.configOf('strict', { policy: { givenTokens: 'deny' } });
    const strict = await startWorld({ engine, bundle: world.bundle, config, client: { servers: targets } });
    try {
      const seen = shared.seen.length;
      const run = await strict.start(TWO_CALLS, SHARED, { authorizations: { shared: 'token-not-wanted' } });
      expect(await refusalOf(run.result())).toMatchObject({ code: 'GRANT_FORBIDDEN', facts: { path: 'grants[0]' } });
      // Without one the server, which takes only given tokens, gets none in its place (S1.4).
      const bare = await strict.start(TWO_CALLS, SHARED);
      expect(await refusalOf(bare.result())).toMatchObject({ code: 'GRANT_FORBIDDEN' });
      expect(shared.seen).toHaveLength(seen);
      await replayOwn(strict);
    } finally {
      await strict.stop();
    }
  });
});

describe('a grant used for something else (INV-S1, S1.5, H-3)', () => {
  const TOKEN = 'token-that-must-not-move';

  function specFor(server = 'shared', steps: typeof TWO_CALLS | typeof GATED_CALL = TWO_CALLS): RunSpecInput {
    return scene.world.spec(steps, { servers: [{ name: server }] });
  }

  /** The spec with a grant for its server that was sealed for `shared` and this run. */
  async function sealed(
    workflowId: string,
    spec: RunSpecInput,
    over: Partial<SealingRequest> = {},
  ): Promise<RunSpecInput> {
    const servers = (spec.servers ?? []).map(({ name }) => ({ server: name }));
    const binding = {
      namespace: scene.engine.server.namespace,
      workflowId,
      specHash: specHash({ ...RunSpec.parse(spec), grants: servers }),
    };
    const request = {
      authorization: TOKEN,
      serverUrl: scene.shared.url,
      binding,
      key: scene.zone.publicJwk,
      expiresInSeconds: 3_600,
    };
    const jwe = await sealAuthorization({ ...request, ...over });
    return { ...spec, grants: servers.map(({ server }) => ({ server, jwe })) };
  }

  /** Without the client library. */
  async function startRaw(workflowId: string, spec: RunSpecInput, client = scene.world.client): Promise<RunHandle> {
    await client.workflow.start(RUN_WORKFLOW, { workflowId, taskQueue: scene.world.config.taskQueue, args: [spec] });
    return new Countersign({ client }).run(workflowId);
  }

  async function expectUnopened(run: RunHandle, code: string, because: RegExp): Promise<void> {
    const refusal = await refusalOf(run.result());
    expect(refusal).toMatchObject({
      code,
      message: expect.stringMatching(because),
      facts: { server: expect.any(String) },
    });
    expect(JSON.stringify(refusal)).not.toContain(TOKEN);
    const seen = [...scene.shared.seen, ...scene.other.seen].map(({ headers }) => headers.authorization);
    expect(seen).not.toContain(`Bearer ${TOKEN}`);
  }

  test('a grant of another run does not open', async () => {
    const run = await startRaw('moved-run', await sealed('owner', specFor()));
    await expectUnopened(run, 'GRANT_INVALID', /another workflowId/);
    await replayOwn(scene.world, run.runId);
  });

  test('a grant for another server of the run does not open', async () => {
    const run = await startRaw('moved-server', await sealed('moved-server', specFor('other')));
    await expectUnopened(run, 'GRANT_INVALID', /another serverUrl/);
    await replayOwn(scene.world, run.runId);
  });

  test('a grant does not open once the spec was changed', async () => {
    const changed = { ...(await sealed('moved-spec', specFor())), input: 'Send it all to me.' };
    const run = await startRaw('moved-spec', changed);
    await expectUnopened(run, 'GRANT_INVALID', /another specHash/);
    await replayOwn(scene.world, run.runId);
  });

  test('a grant does not open in another namespace', async () => {
    const { world, engine } = scene;
    const { connection } = world.client;
    const namespace = 'elsewhere';
    await connection.workflowService.registerNamespace({
      namespace,
      workflowExecutionRetentionPeriod: msToTs('1 day'),
    });
    // A namespace is known everywhere in the server some seconds after it was registered.
    await until(async () => setUpNamespace(connection, namespace), { what: 'the second namespace' });
    const loaded = { config: world.config, baseDirectory: engine.directory, path: undefined };
    const workers = await startWorkers({
      loaded,
      connectionOptions: { address: engine.server.address },
      namespace,
      bundle: world.bundle,
    });
    try {
      const spec = await sealed('moved-namespace', specFor());
      const run = await startRaw('moved-namespace', spec, new Client({ connection, namespace }));
      await expectUnopened(run, 'GRANT_INVALID', /another namespace/);
    } finally {
      await workers.stop();
    }
  });

  test('a grant does not open after it has expired', async () => {
    const now = (): number => Date.now() - 7_200_000;
    const run = await startRaw('expired', await sealed('expired', specFor(), { now }));
    await expectUnopened(run, 'GRANT_EXPIRED', /expired at/);
    await replayOwn(scene.world, run.runId);
  });

  test('a grant that expires while its call waits: the decision counts, and the call fails without being sent (F13)', async () => {
    const expiresInSeconds = 12;
    const expiresAt = Date.now() + (expiresInSeconds + 1) * 1_000;
    const run = await startRaw(
      'expires-waiting',
      await sealed('expires-waiting', specFor('shared', GATED_CALL), { expiresInSeconds }),
    );
    const [request] = await openRequests(run);
    await until(() => Date.now() > expiresAt, { what: 'the expiry of the grant' });
    await run.decide(decisionOn(request, 'bob'));
    expect(await run.result()).toMatchObject({ status: 'completed' });
    const ledger = await expectSound(run, scene.shared.calls);
    expect(factsOf(ledger, 'outcome')).toMatchObject([{ outcome: 'failed', code: 'GRANT_EXPIRED' }]);
    await replayOwn(scene.world, run.runId);
  });

  test('control: for exactly that run, server, spec and namespace it opens', async () => {
    const run = await startRaw('owner-itself', await sealed('owner-itself', specFor()));
    expect(await run.result()).toMatchObject({ status: 'completed' });
    expect(authorizationsOf(scene.shared, 'tools/call')).toContain(`Bearer ${TOKEN}`);
    await replayOwn(scene.world, run.runId);
  });
});
