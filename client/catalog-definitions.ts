/**
 * Tool definitions of a catalog, read from where its refreshes stored them.
 *
 * 1. What is returned for a hash is what was stored under it; anything else is an error, never a gap.
 */
import { CountersignError } from '../contracts/errors.ts';
import type { CatalogSnapshot, SeenDefinition } from '../contracts/schemas/catalog.ts';
import { parseAs } from '../contracts/schemas/parse.ts';
import { ServerTools, type ToolDefinition } from '../contracts/schemas/tool.ts';
import { visible } from '../domain/escape.ts';
import type { ArtifactReader } from './ledger.ts';

export interface KnownDefinitions {
  /** What the server said last. */
  readonly current: ToolDefinition;
  /** What an operator has taken notice of; absent where nobody has. */
  readonly acknowledged?: ToolDefinition;
}

export async function readDefinitions(
  artifacts: ArtifactReader | undefined,
  { entries, listings }: Pick<CatalogSnapshot, 'entries' | 'listings'>,
): Promise<ReadonlyMap<string, KnownDefinitions>> {
  if (artifacts === undefined)
    throw new CountersignError(
      'ARTIFACT_MISSING',
      'Tool definitions stand in the artifact store. Give this client access to it.',
    );
  const read = new Map<string, ReadonlyMap<string, ToolDefinition>>();
  for (const [refresh, ref] of Object.entries(listings)) {
    const stored: unknown = JSON.parse(new TextDecoder().decode(await artifacts.get(ref)));
    const { tools } = parseAs(ServerTools, stored, 'ARTIFACT_CORRUPT', `listing of refresh ${refresh}`);
    // By name and hash: the name is part of what the hash covers.
    read.set(refresh, new Map(tools.map(({ definition, hash }) => [hash, definition])));
  }
  const find = (tool: string, { hash, refresh }: SeenDefinition): ToolDefinition => {
    const found = read.get(String(refresh))?.get(hash);
    if (found?.name === tool) return found;
    throw new CountersignError(
      'ARTIFACT_CORRUPT',
      `The listing of refresh ${refresh} does not hold ${visible(tool)} as the catalog knows it; restore the artifact store.`,
      { refresh },
    );
  };
  return new Map(
    entries.map(({ name, definition, acknowledged }) => [
      name,
      {
        current: find(name, definition),
        ...(acknowledged === undefined ? {} : { acknowledged: find(name, acknowledged) }),
      },
    ]),
  );
}
