/**
 * Gives the tools of a run the names that a model uses.
 *
 * 1. Lossless: a model name means exactly one (server, original tool name), whatever characters the original has.
 * 2. Deterministic: the same tools give the same names, in any order of servers.
 * 3. A name is `server__tool` if that is legal for every provider and means one tool; else it carries a hash.
 * 4. A tool that a server lists twice is offered once, as first listed.
 */
import type { ServerTools, ToolDefinition } from '../../contracts/schemas/tool.ts';
import { canonicalJson, hashOf } from '../text/canonical.ts';

export interface OfferedTool {
  /** The name that the model sees: `^[a-zA-Z0-9_-]{1,64}$`, the strictest of the providers. */
  readonly modelName: string;
  readonly server: string;
  readonly serverUrl: string;
  readonly definition: ToolDefinition;
  readonly hash: string;
  /** Number of refreshes of the server's catalog at the time of pinning; absent if there was no catalog. */
  readonly catalogRefreshes?: number;
}

export interface ToolsetPart {
  readonly tools: ServerTools;
  /** Original names; absent means all. */
  readonly allowedTools?: readonly string[];
}

const LEGAL = /^[a-zA-Z0-9_-]{1,64}$/;
/** Hex digits, 64 bits: enough that a server cannot search for a name that collides with one of another server. */
const HASH_LENGTH = 16;
const HASHED = new RegExp(`_[0-9a-f]{${HASH_LENGTH}}$`);

export function assembleToolset(parts: readonly ToolsetPart[]): OfferedTool[] {
  const listed = parts.flatMap(({ tools, allowedTools }) =>
    tools.tools
      .filter(({ definition }) => allowedTools === undefined || allowedTools.includes(definition.name))
      .map(({ definition, hash }) => ({
        server: tools.server,
        serverUrl: tools.serverUrl,
        definition,
        hash,
        ...(tools.catalogRefreshes === undefined ? {} : { catalogRefreshes: tools.catalogRefreshes }),
      })),
  );
  const seen = new Set<string>();
  const offered = listed.filter(({ server, definition }) => {
    const pair = canonicalJson([server, definition.name]);
    return !seen.has(pair) && seen.add(pair);
  });
  const uses = new Map<string, number>();
  for (const tool of offered) {
    const plain = plainName(tool.server, tool.definition.name);
    uses.set(plain, (uses.get(plain) ?? 0) + 1);
  }
  return offered.map((tool) => {
    const plain = plainName(tool.server, tool.definition.name);
    const usable = LEGAL.test(plain) && uses.get(plain) === 1 && !looksHashed(plain);
    return { ...tool, modelName: usable ? plain : hashedName(tool.server, tool.definition.name) };
  });
}

function plainName(server: string, tool: string): string {
  return `${server}__${tool}`;
}

/** A plain name that ends like a hashed one is hashed too, so that the two kinds never collide. */
function looksHashed(name: string): boolean {
  return HASHED.test(name);
}

function hashedName(server: string, tool: string): string {
  // JSON keeps pairs apart: two pairs never give the same text, whatever characters they have.
  const hash = hashOf([server, tool]).slice(0, HASH_LENGTH);
  const readable = plainName(server, tool).replaceAll(/[^a-zA-Z0-9_-]/g, '_');
  return `${readable.slice(0, 64 - HASH_LENGTH - 1)}_${hash}`;
}
