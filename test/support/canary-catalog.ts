/**
 * Connects catalogs whose server leaks the credentials that they name, in listings and in refused listings.
 */
import type { CanaryScene } from './canary-scene.ts';
import { CANARY_TOOLS } from './canary-server.ts';
import { failedPiece, type Piece, piecesOfCatalog } from './canary-stores.ts';
import { allowed, ANN, connected, refreshed } from './catalogs.ts';

/**
 * The catalog whose server gets the secrets. The other one gets no token, only an error that quotes the token request.
 */
export const LISTED = 'listed';
export const REJECTED = 'rejected';

/** Connects the catalogs, refreshes them with success and failure, and allows every tool. */
export async function catalogPieces({ world, servers, secrets }: CanaryScene): Promise<readonly Piece[]> {
  const pieces: Piece[] = [];
  const catalog = world.countersign.catalog(LISTED);
  const { url } = servers.listed;
  const first = await connected(catalog, url, { credentials: 'named' });
  const names = first.entries.map((entry) => entry.name);
  pieces.push(...(await piecesOfCatalog(world, LISTED, names)));

  servers.listed.refuseListing(true);
  const failed = await refreshed(catalog);
  if (failed.lastRefresh?.ok !== false) throw new Error('the refresh has not failed');
  pieces.push(...(await piecesOfCatalog(world, LISTED)));
  servers.listed.refuseListing(false);
  await refreshed(catalog);
  await allowed(catalog, ...Object.keys(CANARY_TOOLS), 'held');
  pieces.push(...(await piecesOfCatalog(world, LISTED)));

  const rejected = await connected(world.countersign.catalog(REJECTED), url, { credentials: 'rejected' });
  if (rejected.lastRefresh?.ok !== false) throw new Error('the refresh has not failed');
  pieces.push(...(await piecesOfCatalog(world, REJECTED)));

  const misplaced = { by: ANN, url: `${url}?access_token=${secrets.GIVEN}` };
  pieces.push(await failedPiece('a catalog with a token in its address', catalog.connect(misplaced)));
  return pieces;
}
