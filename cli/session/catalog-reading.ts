/** Reads a catalog for a command: its snapshot, the effective verdicts, and definitions if they are wanted. */
import {
  type EffectiveVerdict,
  effectiveVerdicts,
  type KnownDefinitions,
  needsAnnotations,
} from '../../client/catalog/list.ts';
import { Lanes } from '../../client/engine/engine.ts';
import type { CatalogHandle } from '../../client/index.ts';
import { CountersignError, type ErrorCode } from '../../contracts/errors.ts';
import type { CatalogAck, CatalogEntry, CatalogSnapshot } from '../../contracts/schemas/catalog.ts';
import { bounded, visible } from '../../domain/text/escape.ts';
import { nearNames } from '../../domain/text/match.ts';
import type { ClientSettings } from './session.ts';
import { usage } from './options.ts';

type Judging = Pick<ClientSettings, 'policy' | 'trusted' | 'isSigned'>;

export interface CatalogReading {
  readonly snapshot: CatalogSnapshot;
  /** Empty if verdicts depend on definitions that could not be read after a change; the change itself was made. */
  readonly verdicts: ReadonlyMap<string, EffectiveVerdict>;
  /** Empty if definitions were not wanted and no verdict needs them. */
  readonly definitions: ReadonlyMap<string, KnownDefinitions>;
}

export async function readCatalog(
  handle: CatalogHandle,
  settings: Judging,
  { withDefinitions = false }: { readonly withDefinitions?: boolean } = {},
): Promise<CatalogReading> {
  const snapshot = await handle.snapshot();
  const { policy, trusted, isSigned } = settings;
  const configuredTrust = Object.hasOwn(trusted, handle.server) ? trusted[handle.server] : undefined;
  const surroundings = { policy, configuredTrust, isSigned };
  const isWanted = withDefinitions || needsAnnotations(snapshot, surroundings);
  const definitions = isWanted ? await handle.definitions(snapshot) : new Map<string, KnownDefinitions>();
  return { snapshot, definitions, verdicts: effectiveVerdicts(snapshot, definitions, surroundings) };
}

/**
 * Reads the catalog after a change. The change is reported even if definitions cannot be read here.
 * @param taken the catalog's answer to the change; absent if there was nothing to change
 * @throws CountersignError that says, too, that the change was taken
 */
export async function readChanged(
  handle: CatalogHandle,
  settings: Judging,
  taken: Pick<CatalogAck, 'status' | 'policyVersion'> | undefined,
): Promise<CatalogReading> {
  try {
    return await readCatalog(handle, settings).catch(async (error: unknown) => {
      if (!(error instanceof CountersignError) || !OF_DEFINITIONS.includes(error.code)) throw error;
      return { snapshot: await handle.snapshot(), verdicts: new Map(), definitions: new Map() };
    });
  } catch (error) {
    if (!(error instanceof CountersignError) || taken === undefined) throw error;
    const { status, policyVersion: version } = taken;
    const message = `The catalog has taken it (${status}, version ${version}): do not send it again. What is there now cannot be shown: ${error.message}`;
    throw new CountersignError(error.code, message, { ...error.facts, status, version }, { cause: error });
  }
}

/** Definitions stand in the artifact store, and nothing else of a catalog does. */
const OF_DEFINITIONS: readonly ErrorCode[] = ['ARTIFACT_MISSING', 'ARTIFACT_CORRUPT'];

export async function snapshotIfAny(handle: Pick<CatalogHandle, 'snapshot'>): Promise<CatalogSnapshot | undefined> {
  try {
    return await handle.snapshot();
  } catch (error) {
    if (error instanceof CountersignError && error.code === 'CATALOG_NOT_FOUND') return undefined;
    throw error;
  }
}

/** @throws CountersignError `TOOL_UNKNOWN` with similar names that exist */
export function entryNamed(
  { server, entries }: Pick<CatalogSnapshot, 'server' | 'entries'>,
  tool: string,
): CatalogEntry {
  const entry = entries.find(({ name }) => name === tool);
  if (entry !== undefined) return entry;
  const near = nearNames(
    tool,
    entries.map(({ name }) => name),
  );
  const hint =
    near.length > 0 ? ` Did you mean ${near.map(visible).join(', ')}?` : ` See: countersign catalog list ${server}`;
  throw new CountersignError('TOOL_UNKNOWN', `${server} has no tool ${bounded(visible(tool), 128)}.${hint}`, {
    server,
  });
}

/**
 * Reads several catalogs, in their order, without those that nobody has connected. One that fails hides no other.
 * @throws CountersignError if none can be read
 */
export async function readCatalogs(handles: readonly Pick<CatalogHandle, 'server' | 'snapshot'>[]) {
  const lanes = new Lanes(8);
  const answers = await Promise.all(
    handles.map(async (handle) => await lanes.run('', async () => await snapshotIfAny(handle).catch(asAnswer))),
  );
  const faults = answers.filter((each) => each instanceof CountersignError);
  const snapshots = answers.flatMap((each) => (each === undefined || each instanceof CountersignError ? [] : [each]));
  if (snapshots.length === 0 && faults[0] !== undefined) throw faults[0];
  return {
    snapshots,
    unread: handles.filter((_, index) => answers[index] instanceof CountersignError).map(({ server }) => server),
  };
}

function asAnswer(error: unknown): CountersignError {
  if (error instanceof CountersignError) return error;
  throw error;
}

/** Returns the entries of the named tools, or of all tools. @throws CountersignError `USAGE`, `TOOL_UNKNOWN` */
export function chosenEntries(
  snapshot: Pick<CatalogSnapshot, 'server' | 'entries'>,
  tools: readonly string[],
  all = false,
): readonly CatalogEntry[] {
  if (all && tools.length > 0) throw usage('Name tools, or say --all; not both.');
  if (all) return snapshot.entries;
  if (tools.length === 0) throw usage('Name a tool. See --help.');
  return [...new Set(tools)].map((tool) => entryNamed(snapshot, tool));
}
