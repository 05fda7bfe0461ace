/**
 * A sealed grant used for anything but what it was sealed for, by whoever may write to the namespace (INV-S1, S1.5, H-3, F13,
 * F15): it does not open, and no server ever sees the token in it.
 */
import { afterAll, beforeAll, expect, test } from '@jest/globals';
import { Client } from '@temporalio/client';
import { msToTs } from '@temporalio/common/lib/time.js';
import { sealAuthorization, type SealingRequest } from '../../client/signing/sealing.ts';
import { Countersign, type RunHandle } from '../../client/index.ts';
import { RUN_WORKFLOW } from '../../contracts/names.ts';
import { RunSpec, type RunSpecInput } from '../../contracts/schemas/run-spec.ts';
import { specHash } from '../../domain/request/digest.ts';
import { setUpNamespace } from '../../workers/setup.ts';
import { startWorkers } from '../../workers/worker.ts';
import { expectSound } from '../support/faults/oracle.ts';
import { authorizationsOf, GATED_CALL, type GrantScene, startGrantScene, TWO_CALLS } from '../support/faults/grants.ts';
import { factsOf, refusalOf, replayOwn } from '../support/world/run-record.ts';
import { until } from '../support/until.ts';
import { decisionOn, openRequests } from '../support/world/world.ts';

const LONG_MS = 120_000;
const TOKEN = 'token-that-must-not-move';

let scene: GrantScene;

beforeAll(async () => {
  scene = await startGrantScene();
}, LONG_MS);

afterAll(async () => scene?.close());

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

test(
  'a grant does not open in another namespace',
  async () => {
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
  },
  LONG_MS,
);

test('a grant does not open after it has expired', async () => {
  const now = (): number => Date.now() - 7_200_000;
  const run = await startRaw('expired', await sealed('expired', specFor(), { now }));
  await expectUnopened(run, 'GRANT_EXPIRED', /expired at/);
  await replayOwn(scene.world, run.runId);
});

test('a grant that expires while its call waits: the decision counts, and the call fails without being sent (F13)', async () => {
  const expiresInSeconds = 8;
  const expiresAt = Date.now() + (expiresInSeconds + 1) * 1_000;
  const run = await startRaw(
    'expires-waiting',
    await sealed('expires-waiting', specFor('shared', GATED_CALL), { expiresInSeconds }),
  );
  const [request] = await openRequests(run);
  if (request === undefined) throw new Error('there is no request');
  await until(() => (Date.now() > expiresAt ? true : undefined), { what: 'the expiry of the grant' });
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
