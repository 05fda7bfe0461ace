/** Holds steps that many tests of catalogs share. */
import type { CatalogHandle } from '../../../client/index.ts';
import {
  type CatalogConnectInput,
  CatalogRight,
  type CatalogSnapshot,
  type ToolChange,
} from '../../../contracts/schemas/catalog.ts';
import { entryOf } from '../../../domain/catalog/state.ts';

export const ANN = { id: 'ann' };
export const BEN = { id: 'ben' };

/** An administrator rule with every right. */
export const ADMINISTRATOR = { ids: ['ann', 'ben'], may: [...CatalogRight.options] };
export const ADMINISTRATORS = [ADMINISTRATOR];

/** Connects a server and waits for its tools. */
export async function connected(
  catalog: CatalogHandle,
  url: string,
  over: Partial<CatalogConnectInput> = {},
): Promise<CatalogSnapshot> {
  const expectedVersion = await catalog.snapshot().then(
    (snapshot) => snapshot.policyVersion,
    () => 0,
  );
  const { refresh = 0 } = await catalog.connect({ by: ANN, url, expectedVersion, ...over });
  await catalog.settled(refresh);
  return await catalog.snapshot();
}

export async function refreshed(catalog: CatalogHandle): Promise<CatalogSnapshot> {
  const { refresh = 0 } = await catalog.refresh({ by: ANN });
  await catalog.settled(refresh);
  return await catalog.snapshot();
}

/** Changes tools in the catalog's current version. */
export async function changed(catalog: CatalogHandle, ...changes: readonly ToolChange[]): Promise<CatalogSnapshot> {
  const { policyVersion } = await catalog.snapshot();
  await catalog.setToolPolicies({ by: ANN, expectedVersion: policyVersion, changes: [...changes] });
  return await catalog.snapshot();
}

/** Allows tools as a person does who has looked at them: the catalog asks for nothing any more. */
export async function allowed(catalog: CatalogHandle, ...tools: readonly string[]): Promise<CatalogSnapshot> {
  const snapshot = await catalog.snapshot();
  return await changed(
    catalog,
    ...tools.map((tool) => ({
      tool,
      requiresApproval: false,
      denied: false,
      acknowledge: entryOf(snapshot, tool)?.definition.hash ?? '',
    })),
  );
}

export function statusesIn({ entries }: CatalogSnapshot): Readonly<Record<string, string>> {
  return Object.fromEntries(entries.map(({ name, status }) => [name, status]));
}
