/**
 * Finds the definition of a requested tool: what its server said of it when the run listed it.
 *
 * 1. A definition is told only under the hash that the request's digest covers.
 * 2. The list of a run does not change, so it is read once for all who look; memory is bounded.
 * 3. A store that does not answer hides no request: its page then shows what the request itself says.
 */
import { LRUCache } from 'lru-cache';
import type { Countersign } from '../../client/countersign.ts';
import type { ApprovalRequest } from '../../contracts/schemas/request.ts';
import type { ServerTools, ToolDefinition } from '../../contracts/schemas/tool.ts';

/** A definition with its hash. */
type Listed = ServerTools['tools'][number];

export interface KnownTool {
  /** The definition that the request is about; absent if nobody has kept it, or it cannot be read now. */
  readonly definition?: ToolDefinition;
  /** The definition that the run had before, where the request is about another. */
  readonly pinned?: ToolDefinition;
}

type Asked = Pick<ApprovalRequest, 'workflowId' | 'server' | 'tool' | 'definitionHash'>;

const MOST_KEPT_BYTES = 33_554_432;
const FAILED_MS = 5_000;

export class Definitions {
  readonly #countersign: Pick<Countersign, 'run'>;
  /** Pair of run and server → its tools by name. */
  readonly #kept = new LRUCache<string, ReadonlyMap<string, Listed>>({
    maxSize: MOST_KEPT_BYTES,
    sizeCalculation: (tools) => 256 + JSON.stringify([...tools.values()]).length,
  });
  readonly #asking = new Map<string, Promise<ReadonlyMap<string, Listed>>>();
  readonly #failed = new LRUCache<string, true>({ max: 10_000, ttl: FAILED_MS });

  constructor(countersign: Pick<Countersign, 'run'>) {
    this.#countersign = countersign;
  }

  async of({ workflowId, server, tool, definitionHash }: Asked): Promise<KnownTool> {
    const listed = (await this.#toolsOf(workflowId, server)).get(tool);
    if (listed === undefined) return {};
    return listed.hash === definitionHash ? { definition: listed.definition } : { pinned: listed.definition };
  }

  async #toolsOf(runId: string, server: string): Promise<ReadonlyMap<string, Listed>> {
    const key = JSON.stringify([runId, server]);
    const kept = this.#kept.get(key);
    if (kept !== undefined || this.#failed.has(key)) return kept ?? NONE;
    const asking = this.#asking.get(key) ?? this.#read(key, runId, server);
    this.#asking.set(key, asking);
    try {
      return await asking;
    } finally {
      this.#asking.delete(key);
    }
  }

  async #read(key: string, runId: string, server: string): Promise<ReadonlyMap<string, Listed>> {
    try {
      const list = await this.#countersign.run(runId).tools(server);
      if (list === undefined) return NONE;
      const tools = new Map(list.tools.map((each) => [each.definition.name, each]));
      this.#kept.set(key, tools);
      return tools;
    } catch {
      this.#failed.set(key, true);
      return NONE;
    }
  }
}

const NONE: ReadonlyMap<string, Listed> = new Map();
