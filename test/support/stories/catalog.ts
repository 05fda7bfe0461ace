/**
 * Models a catalog independently of the product: what a server lists in each round, what operators change,
 * and what must result.
 *
 * 1. The model uses none of the product's rules, only the specification.
 */
import type { Tool } from '@modelcontextprotocol/server';
import type { ToolChange, ToolSetting } from '../../../contracts/schemas/catalog.ts';

const TOOLS = 12;
const NAMES = Array.from({ length: TOOLS }, (_, index) => `tool-${String(index).padStart(2, '0')}`);

interface ModelTool {
  readonly name: string;
  status: 'available' | 'missing';
  setting: ToolSetting;
  /** Number of the refresh that found the current definition. */
  refresh: number;
  current: string;
  acknowledged: string;
}

/** Returns the listing of a round, from 0. Tools vanish, come back, and change their definitions. */
export function listedIn(round: number): Tool[] {
  return NAMES.flatMap((name, index) =>
    isListed(index, round) ? [{ name, description: textOf(index, round), inputSchema: { type: 'object' } }] : [],
  );
}

function isListed(index: number, round: number): boolean {
  return round < 2 || (round + index) % 5 !== 0;
}

function textOf(index: number, round: number): string {
  return `Does ${index} since ${Math.floor((round + index) / 7)}.`;
}

/** Returns the change with this number, from 1; it always changes something. */
export function changeNumber(number: number): ToolChange {
  const tool = NAMES[number % TOOLS] ?? '';
  const approvers = { ids: [`approver-${number % 9}`], groups: [] };
  return {
    tool,
    deadlineSeconds: 60 + number,
    ...(number % 3 === 0 ? { enabled: number % 2 === 0 } : {}),
    ...(number % 4 === 0 ? { denied: number % 8 === 0 } : {}),
    ...(number % 5 === 0 ? { requiresApproval: number % 10 === 0 } : {}),
    ...(number % 7 === 0 ? { approvers: number % 14 === 0 ? null : approvers } : {}),
  };
}

export class CatalogModel {
  /** Connecting makes version 1. */
  policyVersion = 1;
  readonly refreshes: {
    readonly refresh: number;
    readonly added: readonly string[];
    readonly missing: readonly string[];
    readonly returned: readonly string[];
    readonly changed: readonly string[];
  }[] = [];
  readonly edits: { readonly tool: string; readonly before: ToolSetting; readonly after: ToolSetting }[] = [];
  readonly #tools = new Map<string, ModelTool>();

  /** Applies the refresh of a round; the first refresh is round 0. */
  refresh(round: number): void {
    const [added, missing, returned, changed]: string[][] = [[], [], [], []];
    for (const [index, name] of NAMES.entries()) {
      const tool = this.#tools.get(name);
      const text = textOf(index, round);
      if (!isListed(index, round)) {
        if (tool?.status === 'available') missing?.push(name);
        if (tool !== undefined) tool.status = 'missing';
      } else if (tool === undefined) {
        added?.push(name);
        const setting = { enabled: true, requiresApproval: true, denied: false };
        const known = { refresh: round + 1, current: text, acknowledged: text };
        this.#tools.set(name, { name, status: 'available', setting, ...known });
      } else {
        if (tool.status === 'missing') returned?.push(name);
        tool.status = 'available';
        if (tool.current !== text) {
          changed?.push(name);
          Object.assign(tool, { refresh: round + 1, current: text });
        }
      }
    }
    this.refreshes.push({
      refresh: round + 1,
      added: added ?? [],
      missing: missing ?? [],
      returned: returned ?? [],
      changed: changed ?? [],
    });
  }

  change(changes: readonly ToolChange[]): void {
    this.policyVersion += 1;
    for (const { tool: name, acknowledge, ...over } of changes) {
      const tool = this.#tools.get(name);
      if (tool === undefined) throw new Error(`there is no ${name}`);
      const before = tool.setting;
      const after = Object.fromEntries(Object.entries({ ...before, ...over }).filter(([, value]) => value !== null));
      // Sound: the result is a setting with some fields replaced; only fields that may be absent can be null.
      tool.setting = after as ToolSetting;
      if (acknowledge !== undefined) tool.acknowledged = tool.current;
      this.edits.push({ tool: name, before, after: tool.setting });
    }
  }

  /** Returns the tools, sorted by name. */
  tools(): readonly ModelTool[] {
    return NAMES.flatMap((name) => this.#tools.get(name) ?? []);
  }
}
