/**
 * The worker and the Temporal server are killed (SIGKILL) while a catalog is refreshed and changed (S3.2, S3.6;
 * INV-D3): whoever reads it sees what was before or what is after, and a change that is sent again counts once.
 */
import { afterAll, beforeAll, describe, expect, jest, test } from '@jest/globals';
import { updateIdOf } from '../../client/engine/engine.ts';
import {
  assertIntact,
  type CatalogAck,
  type CatalogHandle,
  type CatalogSnapshot,
  CountersignError,
} from '../../client/index.ts';
import { SetToolPolicies, type SetToolPoliciesInput } from '../../contracts/schemas/catalog.ts';
import { type FaultWorld, startFaultWorld } from '../support/faults/world.ts';
import { updateStage } from '../support/world/world.ts';
import { ADMINISTRATORS, ANN, connected, statusesIn } from '../support/scenes/catalogs.ts';
import { type ListingServer, startListingServer } from '../support/servers/raw-server.ts';
import { Hopeless, until } from '../support/until.ts';
import { factsOf, replayOwn } from '../support/world/run-record.ts';
import type { WorkerProcess } from '../support/world/worker-process.ts';

/** A discovery that died with its worker is noticed after its 60 s. */
const LONG_MS = 240_000;
jest.setTimeout(LONG_MS);
const MANY_CHANGES = 40;

const KEPT = Array.from({ length: 30 }, (_, index) => `tool-${index}`);
const BEFORE = [...KEPT, 'going'];
const AFTER = [...KEPT, 'coming'];

type Change = SetToolPoliciesInput & { readonly requestId: string };

let server: ListingServer;
let world: FaultWorld;
let worker: WorkerProcess;

beforeAll(async () => {
  server = await startListingServer();
  server.lists(BEFORE, 'before');
  world = await startFaultWorld({
    beside: [server],
    config: {
      catalog: { administrators: ADMINISTRATORS, origins: [new URL(server.url).origin] },
      // A listing that is held keeps everything else from being asked: that is how a change is met half done.
      worker: { maxConcurrentActivities: 1 },
    },
  });
  worker = await world.startWorker();
});

afterAll(async () => world?.stop());

/** All tools at once, so that a half of it could be seen. */
function change(requestId: string, expectedVersion = 1, deadlineSeconds = 77): Change {
  const changes = BEFORE.map((tool) => ({ tool, denied: true, deadlineSeconds }));
  return { requestId, by: ANN, expectedVersion, changes };
}

/** As a careful sender does: the same message again, until it is answered. */
async function sendSurely(catalog: CatalogHandle, message: Change): Promise<CatalogAck> {
  return await until(
    async () => {
      try {
        return await catalog.setToolPolicies(message);
      } catch (error) {
        if (error instanceof CountersignError && error.traits.retryable) return undefined;
        throw new Hopeless(`${message.requestId} was refused`, { cause: error });
      }
    },
    { what: `an answer to ${message.requestId}`, withinMs: 120_000 },
  );
}

/** Temporal has written down that the catalog took the update, and it is not done. */
async function accepted({ workflowId }: CatalogHandle, updateId: string): Promise<void> {
  await until(async () => (await updateStage(world.client, workflowId, updateId)) === 'accepted', {
    what: `${updateId} accepted`,
  });
}

/** The two parts of a snapshot, each of which must be old or new as a whole. */
function partsOf({ policyVersion, lastRefresh, entries }: CatalogSnapshot): { policy: string; found: string } {
  const settings = entries.flatMap(({ name, setting }) => (BEFORE.includes(name) ? [[name, setting]] : []));
  const seen = entries.map(({ name, status, definition }) => [name, status, definition.hash]);
  return {
    policy: JSON.stringify([policyVersion, settings]),
    found: JSON.stringify([lastRefresh?.refresh, lastRefresh?.ok, seen]),
  };
}

/** Reads the catalog again and again, until told to end; gives all that was ever seen. */
function watched(catalog: CatalogHandle) {
  const seen = { policy: new Set<string>(), found: new Set<string>() };
  const over = new AbortController();
  const watching = until(
    async () => {
      const isLast = over.signal.aborted;
      const { policy, found } = partsOf(await catalog.snapshot());
      seen.policy.add(policy);
      seen.found.add(found);
      return isLast;
    },
    { what: 'the end of the watch', withinMs: LONG_MS },
  );
  return async () => {
    over.abort();
    await watching;
    return { policy: [...seen.policy], found: [...seen.found] };
  };
}

/** A catalog whose refresh is held, with a change of it that waits behind. */
async function halfDone(name: string) {
  server.lists(BEFORE, 'before');
  const catalog = world.countersign.catalog(name);
  const before = await connected(catalog, server.url);
  server.lists(AFTER, 'after', true);
  const { refresh = 0 } = await catalog.refresh({ by: ANN });
  await server.held();
  const message = change(`${name}-change`);
  // Lost with what is killed, or answered afterwards.
  const first = catalog.setToolPolicies(message).catch((error: unknown) => error);
  const updateId = updateIdOf('setToolPolicies', SetToolPolicies.parse(message), message.requestId);
  await accepted(catalog, updateId);
  expect(partsOf(await catalog.snapshot())).toEqual(partsOf(before));
  return { catalog, before, refresh, message, first };
}

/** What must be true afterwards, whatever was killed. */
async function expectDone(
  { catalog, before, refresh, message, first }: Awaited<ReturnType<typeof halfDone>>,
  stopWatching: ReturnType<typeof watched>,
): Promise<void> {
  const ack = await sendSurely(catalog, message);
  expect(ack).toEqual({ requestId: message.requestId, status: 'applied', policyVersion: 2 });
  expect(await catalog.settled(refresh, { deadlineMs: 180_000 })).toMatchObject({ ok: true, refresh });
  expect(await catalog.setToolPolicies(message)).toEqual(ack);
  const answer = await first;
  if (!(answer instanceof CountersignError)) expect(answer).toEqual(ack);

  const after = await catalog.snapshot();
  const [old, now] = [partsOf(before), partsOf(after)];
  const seen = await stopWatching();
  // Not a third thing, at any moment: each is what was there before, or what is there now.
  expect(seen.policy.filter((policy) => ![old.policy, now.policy].includes(policy))).toEqual([]);
  expect(seen.found.filter((found) => ![old.found, now.found].includes(found))).toEqual([]);
  expect(after).toMatchObject({ policyVersion: 2, refreshes: refresh });
  expect(statusesIn(after)).toEqual(
    Object.fromEntries([...AFTER, 'going'].map((tool) => [tool, tool === 'going' ? 'missing' : 'available'])),
  );
  const definitions = await catalog.definitions(after);
  expect(AFTER.map((tool) => definitions.get(tool)?.current.description)).toEqual(AFTER.map((tool) => `${tool} after`));
  expect(new Set(after.entries.map(({ name, setting }) => `${name === 'coming'} ${setting.deadlineSeconds}`))).toEqual(
    new Set(['false 77', 'true undefined']),
  );
  const ledger = await catalog.ledger();
  assertIntact(ledger, catalog.workflowId);
  expect(factsOf(ledger, 'catalog.policy')).toMatchObject([{ policyVersion: 2 }]);
  expect(factsOf(ledger, 'catalog.refreshed').map((fact) => fact.refresh)).toEqual([1, 2]);
}

describe('kill -9 in the middle of a refresh and of a change', () => {
  test('of the worker: the next one ends both, and nobody sees a mixture', async () => {
    const half = await halfDone('worker-killed');
    const stopWatching = watched(half.catalog);
    await worker.kill();
    server.release();
    worker = await world.startWorker();
    await expectDone(half, stopWatching);
  });

  test('of the Temporal server, while the listing ends: both end when it is back, and nobody sees a mixture', async () => {
    const half = await halfDone('server-killed');
    const stopWatching = watched(half.catalog);
    await world.engine.kill();
    server.release();
    await world.engine.restart();
    await expectDone(half, stopWatching);
  });
});

test('killed again and again while changes are sent: each counts once, in its order', async () => {
  server.lists(BEFORE, 'before');
  const catalog = world.countersign.catalog('often');
  await connected(catalog, server.url);
  const answered: CatalogAck[] = [];
  const sending = (async () => {
    for (let number = 1; number <= MANY_CHANGES; number += 1) {
      const message = change(`often-${number}`, number, 60 + number);
      answered.push(await sendSurely(catalog, message));
    }
  })();
  for (const [turn, what] of (['worker', 'server', 'worker', 'server'] as const).entries()) {
    const share = ((turn + 0.5) / 4) * MANY_CHANGES;
    await until(() => answered.length >= share, { what: `${share} answers`, withinMs: 120_000 });
    if (what === 'server') {
      await world.engine.kill();
      await world.engine.restart();
    } else {
      await worker.kill();
      worker = await world.startWorker();
    }
  }
  await sending;
  expect(answered.map((ack) => ack.policyVersion)).toEqual(
    Array.from({ length: MANY_CHANGES }, (_, index) => index + 2),
  );
  const { policyVersion, entries } = await catalog.snapshot();
  expect(policyVersion).toBe(MANY_CHANGES + 1);
  expect(new Set(entries.map(({ setting }) => setting.deadlineSeconds))).toEqual(new Set([60 + MANY_CHANGES]));
  const ledger = await catalog.ledger();
  assertIntact(ledger, catalog.workflowId);
  expect(factsOf(ledger, 'catalog.policy').map((fact) => fact.policyVersion)).toEqual(
    Array.from({ length: MANY_CHANGES }, (_, index) => index + 2),
  );
});

test('all that was recorded replays', async () => {
  await replayOwn(world);
});
