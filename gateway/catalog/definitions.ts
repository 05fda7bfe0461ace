/**
 * Finds the definition of a requested tool, and the one that was approved before it, where somebody has kept them: the
 * list of the run, and the catalog of the server.
 *
 * 1. A definition is told only under the hash that the request's digest covers.
 * 2. What is read serves all who look; memory is bounded.
 * 3. A store or a catalog that does not answer hides no request: its page then shows what the request itself says.
 */
import type { Countersign } from '../../client/countersign.ts';
import { defined } from '../../contracts/defined.ts';
import type { ApprovalRequest } from '../../contracts/schemas/request.ts';
import type { ServerTools, ToolDefinition } from '../../contracts/schemas/tool.ts';
import { OneAnswer } from '../cache/one-answer.ts';
import type { Catalogs, SeenDefinitions } from './catalogs.ts';

type Listed = ServerTools['tools'][number];

export interface KnownTool {
  /** The definition that the request is about; absent if nobody has kept it, or it cannot be read now. */
  readonly definition?: ToolDefinition;
  /** An earlier definition, where the request is about another. */
  readonly earlier?: EarlierTool;
  /** True if an operator has acknowledged the definition that the request is about. */
  readonly isAcknowledged?: true;
}

export interface EarlierTool {
  readonly definition: ToolDefinition;
  /** `catalog`: an operator acknowledged it. `run`: the run has listed it. */
  readonly of: 'catalog' | 'run';
}

type Asked = Pick<ApprovalRequest, 'workflowId' | 'tenant' | 'server' | 'tool' | 'definitionHash'>;

const MOST_KEPT_BYTES = 33_554_432;
/** An answer of a catalog serves everybody for this long, also that there is none, or that nobody answers. */
const FRESH_MS = 10_000;
/** A run pins its list: a form that was begun by it is read by it, also while the store is away. */
const freshMs = (list: ServerTools | undefined): number => (list === undefined ? FRESH_MS : Number.POSITIVE_INFINITY);

export class Definitions {
  readonly #countersign: Pick<Countersign, 'run'>;
  readonly #catalogs: Pick<Catalogs, 'definitionsOf'>;
  readonly #ofRuns = new OneAnswer<ServerTools | undefined>(MOST_KEPT_BYTES, FRESH_MS);
  readonly #inCatalogs = new OneAnswer<SeenDefinitions | undefined>(MOST_KEPT_BYTES, FRESH_MS);

  constructor(countersign: Pick<Countersign, 'run'>, catalogs: Pick<Catalogs, 'definitionsOf'>) {
    this.#countersign = countersign;
    this.#catalogs = catalogs;
  }

  /** Never throws. */
  async of(asked: Asked): Promise<KnownTool> {
    const { workflowId, server, tool, definitionHash } = asked;
    const [list, seen] = await Promise.all([this.#listOf(workflowId, server), this.#inCatalog(asked)]);
    const pinned = list?.tools.find(({ definition: { name } }) => name === tool);
    const known: readonly (readonly [string | undefined, ToolDefinition | undefined])[] = [
      [pinned?.hash, pinned?.definition],
      [seen?.hash, seen?.current],
      [seen?.acknowledgedHash, seen?.acknowledged],
    ];
    const definition = known.find(([hash]) => hash === definitionHash)?.[1];
    if (seen?.acknowledgedHash === definitionHash) return { ...defined({ definition }), isAcknowledged: true };
    const earlier = earlierThan(definitionHash, pinned, seen);
    return defined({ definition, earlier });
  }

  async #inCatalog({ tenant, server, tool }: Asked): Promise<SeenDefinitions | undefined> {
    const read = async () => await this.#catalogs.definitionsOf(tenant, server, tool).catch(() => undefined);
    return await this.#inCatalogs.get(JSON.stringify([tenant, server, tool]), read);
  }

  async #listOf(runId: string, server: string): Promise<ServerTools | undefined> {
    const read = async () =>
      await this.#countersign
        .run(runId)
        .tools(server)
        .catch(() => undefined);
    return await this.#ofRuns.get(JSON.stringify([runId, server]), read, { freshMs });
  }
}

/** What an operator has acknowledged counts before what the run has listed. */
function earlierThan(
  hash: string,
  pinned: Listed | undefined,
  seen: SeenDefinitions | undefined,
): EarlierTool | undefined {
  if (seen?.acknowledged !== undefined) return { definition: seen.acknowledged, of: 'catalog' };
  return pinned === undefined || pinned.hash === hash ? undefined : { definition: pinned.definition, of: 'run' };
}
