/** Definitions of the updates and queries of a catalog, under the names that `contracts/names.ts` fixes. */
import { defineQuery, defineUpdate } from '@temporalio/workflow';
import { CATALOG_UPDATES, QUERIES } from '../../contracts/names.ts';
import type { CatalogAck, CatalogSnapshot, CatalogUnchanged } from '../../contracts/schemas/catalog.ts';

// Inputs are `unknown`: anyone who may write to the namespace may send anything, so each handler parses first.
export const connectUpdate = defineUpdate<CatalogAck, [unknown]>(CATALOG_UPDATES.connect);
export const refreshUpdate = defineUpdate<CatalogAck, [unknown]>(CATALOG_UPDATES.refresh);
export const policiesUpdate = defineUpdate<CatalogAck, [unknown]>(CATALOG_UPDATES.setToolPolicies);
export const disconnectUpdate = defineUpdate<CatalogAck, [unknown]>(CATALOG_UPDATES.disconnect);
export const decideChangeUpdate = defineUpdate<CatalogAck, [unknown]>(CATALOG_UPDATES.decide);
/** It has no content, so it is not signed. */
export const catalogTrustUpdate = defineUpdate<void, []>(CATALOG_UPDATES.refreshTrust);

export const snapshotQuery = defineQuery<CatalogSnapshot | CatalogUnchanged, [unknown?]>(QUERIES.snapshot);
