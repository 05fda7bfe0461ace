/**
 * The workflow of the tools of one server for one tenant: refreshing, and handing over.
 *
 * 1. A refresh takes effect in one workflow task, or not at all: no reader sees a mixture.
 * 2. A catalog that was never connected ends by itself. A disconnected one stays, and its policy with it.
 */
import { allHandlersFinished, CancellationScope, makeContinueAsNewFunc, workflowInfo } from '@temporalio/workflow';
import { defined } from '../../contracts/defined.ts';
import { codedFailureIn } from '../../contracts/failure.ts';
import type { CatalogConnection } from '../../contracts/schemas/catalog.ts';
import type { ToolActivities } from '../../contracts/wire/activities.ts';
import type { CatalogBeginning } from '../../contracts/wire/catalog.ts';
import { CATALOG_CARRY_VERSION, type CatalogCarry } from '../../domain/catalog/carry.ts';
import { discovered, refreshFailed } from '../../domain/catalog/discovery.ts';
import { catalogId } from '../../domain/catalog/state.ts';
import { isIdentifier, isName } from '../../domain/shapes/inputs.ts';
import { assertBegun } from '../entity/beginning.ts';
import { answered, assertFailure } from '../entity/unread.ts';
import { isChecking, provenActivities } from '../interceptors/zone.ts';
import { registerCatalogHandlers } from './handlers.ts';
import { LiveCatalog } from './live-catalog.ts';
import { onCurrentBuild, storeOnce, untilAnswered } from '../entity/roll.ts';
import { condition } from '../interceptors/condition.ts';

const UNUSED_MS = 60_000;

/** Attempts to find a moment without messages; after them a sender whose answer is lost asks again. */
const MOST_QUIET_TRIES = 10;

/** @param carry state of the previous execution; only continue-as-new passes it */
export async function toolCatalog(identity: CatalogBeginning, carry?: CatalogCarry | null): Promise<void> {
  assertBegun(identity, carry, {
    code: 'CATALOG_INVALID',
    input: 'What the catalog was started with',
    alone: 'A catalog is started with one argument',
    versions: [CATALOG_CARRY_VERSION],
    refuse: () => (isBegunAs(identity) ? undefined : MISNAMED),
  });
  const live = new LiveCatalog(identity, carry ?? undefined);
  registerCatalogHandlers(live);
  // A click on "cancel" must not discard the operators' settings; an operator who wants that disconnects or terminates.
  await CancellationScope.nonCancellable(async () => await keep(live));
}

const MISNAMED = {
  path: 'args[0]',
  message:
    'A catalog is started with {tenant, server} under the id catalog/<tenant>/<server>: use connect of the client library or command line.',
};

function isBegunAs(identity: CatalogBeginning): boolean {
  const { workflowId, cronSchedule = '' } = workflowInfo();
  const isNamed = isIdentifier(identity?.tenant) && isName(identity?.server) && catalogId(identity) === workflowId;
  return isNamed && cronSchedule === '';
}

async function keep(live: LiveCatalog): Promise<void> {
  if (live.catalog.status === 'new') {
    const isUsed = await condition(() => live.catalog.status !== 'new', UNUSED_MS, {
      summary: 'waits for a connection',
    });
    if (!isUsed) {
      await condition(allHandlersFinished);
      // A message that was still under way may have connected it.
      if (live.catalog.status === 'new') return;
    }
  }
  for (;;) {
    await condition(() => live.wantsRefresh || live.reasonToRoll !== undefined);
    if (live.wantsRefresh) await refresh(live);
    if (live.reasonToRoll !== undefined) await roll(live);
  }
}

async function refresh(live: LiveCatalog): Promise<void> {
  const { tenant, server, connection, refreshes } = live.catalog;
  // Sound: `wantsRefresh` is true only if there is a connection.
  if (connection === undefined) return;
  const listing = live.beginListing();
  const isWanted = (): boolean => live.catalog.status === 'connected' && live.catalog.connection === connection;
  try {
    const found = await listing.run(() =>
      listingActivities(server, connection).discoverCatalog({ tenant, server, connection }),
    );
    const discovery = { ...answered(live, 'discoverCatalog', found), refresh: refreshes };
    if (isWanted()) live.commit(discovered(live.catalog, discovery, new Date().toISOString()));
  } catch (error) {
    assertFailure(error);
    // The server is reached differently by now: a failure at an earlier address says nothing about it.
    if (!isWanted()) return;
    const coded = codedFailureIn(error) ?? {
      code: 'DISCOVERY_FAILED',
      message: `The tools of ${server} could not be listed. Does a worker serve the queue of the server?`,
    };
    live.commit(refreshFailed(live.catalog, refreshes, coded, new Date().toISOString()));
  }
}

/** Options for refreshing a catalog. An operator waits and may ask again, so the retries last about a minute. */
function listingActivities(server: string, { taskQueue }: CatalogConnection) {
  return provenActivities<Pick<ToolActivities, 'discoverCatalog'>>({
    ...defined({ taskQueue }),
    startToCloseTimeout: '60s',
    // If no worker serves the queue, the refresh fails and says so.
    scheduleToStartTimeout: '60s',
    retry: { initialInterval: '1s', backoffCoefficient: 2, maximumInterval: '10s', maximumAttempts: 4 },
    summary: `list tools of ${server}`,
  });
}

async function roll(live: LiveCatalog): Promise<never> {
  live.handOver();
  let stored = await storeOnce(live);
  // If more has come than can be carried, nothing else is taken: storing once more is enough.
  for (let tries = 0; tries < MOST_QUIET_TRIES || live.isOverfull; tries += 1) {
    await untilAnswered();
    if (!allHandlersFinished()) continue;
    if (!live.isOverfull) break;
    live.isClosed = true;
    stored = await storeOnce(live);
    live.storedTo = stored.ledgerLength;
  }
  const { tenant, server } = live.catalog;
  const next = makeContinueAsNewFunc<typeof toolCatalog>(onCurrentBuild());
  const identity = { tenant, server, ...(isChecking() ? { signed: true as const } : {}) };
  return await next(identity, live.carry(live.journal.head(stored.segment, stored.ledgerLength)));
}
