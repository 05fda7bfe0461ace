/**
 * Says which tools MCP clients are offered: those that the catalogs of their tenant let agents use.
 *
 * 1. A tool is offered as runs offer it to their models: with the definition of its server's last list, in which
 *    nothing is hidden. Its `outputSchema` stands in `_meta`: a client would refuse the answer that a call waits, which
 *    has no such shape.
 * 2. Names are lossless: at the address of one server they are the server's own, at that of all servers they are those
 *    that models see (`domain/run/toolset.ts`).
 * 3. An offer is no right: the call is judged when it is made.
 */
import type { Tool } from '@modelcontextprotocol/server';
import { z } from 'zod';
import { defined } from '../../contracts/defined.ts';
import { CountersignError } from '../../contracts/errors.ts';
import type { CatalogSnapshot } from '../../contracts/schemas/catalog.ts';
import type { ToolDefinition } from '../../contracts/schemas/tool.ts';
import { isOffered } from '../../domain/catalog/layer.ts';
import { catalogId } from '../../domain/catalog/state.ts';
import { trustsServer } from '../../domain/policy/judge.ts';
import { assembleToolset } from '../../domain/run/toolset.ts';
import { visible } from '../../domain/text/escape.ts';
import { inertSchema, inertText } from '../../domain/views/inert-definition.ts';
import type { Catalogs } from '../catalog/catalogs.ts';
import { OneAnswer } from '../cache/one-answer.ts';
import { RESULT_TOOL } from './replies.ts';

export interface Offer {
  readonly name: string;
  readonly server: string;
  readonly definition: ToolDefinition;
  /** True if the server's annotations are believed. */
  readonly isTrusted: boolean;
}

const OUTPUT_META = 'countersign/outputSchema';

export type OfferedCatalogs = Pick<Catalogs, 'connectedIn' | 'definitionsIn' | 'isTrusted'>;

/** The definitions of one catalog may take a tenth of it. */
const MOST_KEPT_BYTES = 134_217_728;

export class Offers {
  readonly #catalogs: OfferedCatalogs;
  readonly #servers: readonly string[] | undefined;
  /** Holds only the newest state of each catalog: every refresh makes another one. */
  readonly #definitions = new OneAnswer<readonly ToolDefinition[]>(MOST_KEPT_BYTES, Number.POSITIVE_INFINITY);

  /** @param servers that are offered at all; absent: all that stand in catalogs */
  constructor(catalogs: OfferedCatalogs, servers: readonly string[] | undefined) {
    this.#catalogs = catalogs;
    this.#servers = servers;
  }

  /**
   * Lists what a tenant's clients are offered, by server and name.
   * @param server at the address of this server alone
   * @throws CountersignError `ENGINE_UNAVAILABLE`, `ARTIFACT_…` if a catalog cannot be read
   */
  async of(tenant: string, server?: string): Promise<readonly Offer[]> {
    const { snapshots, unread } = await this.#catalogs.connectedIn(tenant, this.#wanted(server));
    // Names depend on which tools stand side by side: of an incomplete list a name could mean another server's tool.
    if (unread.length > 0) throw unreadable(unread, server === undefined);
    const read = await Promise.all(snapshots.map(async (snapshot) => await this.#part(snapshot)));
    const trusted = new Map(read.map((part) => [part.tools.server, part.isTrusted]));
    return assembleToolset(read).map(({ modelName, server: of, definition }) => ({
      name: server === undefined ? modelName : definition.name,
      server: of,
      definition,
      isTrusted: trusted.get(of) === true,
    }));
  }

  #wanted(server: string | undefined): readonly string[] | undefined {
    if (server === undefined) return this.#servers;
    return this.#servers === undefined || this.#servers.includes(server) ? [server] : [];
  }

  async #part(snapshot: CatalogSnapshot) {
    const { server, connection, mark } = snapshot;
    const read = async () => await this.#catalogs.definitionsIn(snapshot);
    const definitions = await this.#definitions.get(catalogId(snapshot), read, { mark });
    const tools = definitions
      .filter(({ name }) => isOffered(snapshot, name) && !isDenied(snapshot, name))
      .map((definition) => ({ definition, hash: '' }));
    const isTrusted = trustsServer(snapshot, this.#catalogs.isTrusted(server));
    return { tools: { server, serverUrl: connection?.url ?? '', tools }, isTrusted };
  }
}

/** @param isOfAll true at the address of all servers */
function unreadable(servers: readonly string[], isOfAll: boolean): CountersignError {
  const other = isOfAll ? ', or use the address of another server alone' : '';
  const message = `The catalogs of ${servers.map(visible).join(', ')} cannot be read now, and this request ran nothing. Try again${other}. With its reference, ${RESULT_TOOL} says what became of an earlier call.`;
  return new CountersignError('ENGINE_UNAVAILABLE', message);
}

function isDenied({ entries }: Pick<CatalogSnapshot, 'entries'>, tool: string): boolean {
  return entries.find(({ name }) => name === tool)?.setting.denied === true;
}

export function listedTool({ name, server, definition }: Offer): Tool {
  const { title, description, inputSchema, outputSchema, annotations } = definition;
  return {
    name,
    ...defined({
      title: title === undefined ? undefined : inertText(title),
      description: description === undefined ? undefined : inertText(description),
      annotations: hintsIn(annotations),
    }),
    // Sound: discovery takes no tool whose input schema is not one of an object, and an object stays one.
    inputSchema: inertSchema(inputSchema) as Tool['inputSchema'],
    // MCP 2025-11-25; 2026-07-28 has no such field, and the SDK leaves it out there.
    execution: { taskSupport: 'optional' },
    _meta: {
      'countersign/tool': `${server}/${definition.name}`,
      ...(outputSchema !== undefined && { [OUTPUT_META]: inertSchema(outputSchema) }),
    },
  };
}

const Hint = z.boolean().optional().catch(undefined);
const Hints = z.object({
  title: z.string().transform(inertText).optional().catch(undefined),
  readOnlyHint: Hint,
  destructiveHint: Hint,
  idempotentHint: Hint,
  openWorldHint: Hint,
});

/** Clients refuse a whole list in which one hint has another type than the protocol says. */
function hintsIn(annotations: ToolDefinition['annotations']): Tool['annotations'] {
  return annotations === undefined ? undefined : defined(Hints.parse(annotations));
}
