/**
 * Turns the tools that a server lists into definitions that can be pinned, or refuses them by name with the reason.
 *
 * It owns which tools may be offered. It does not own names for models (`domain/run/toolset.ts`).
 * 1. One bad tool never hides the others.
 * 2. A name means one tool: if a server lists it twice, neither of the two is offered.
 * 3. Annotations are kept as sent, whatever their type: policy looks at the type too (INV-G4).
 */
import { defined } from '../../contracts/defined.ts';
import type { JsonObject, JsonValue } from '../../contracts/schemas/json.ts';
import type { RefusedTool, ToolDefinition } from '../../contracts/schemas/tool.ts';
import { byteLength } from '../../domain/text/canonical.ts';
import { MAX_NESTING, nestsTooDeeply } from '../kit/json.ts';
import type { Scrubber } from '../scrubbing/scrubber.ts';
import type { ToolListing } from './port.ts';
import { paramHeaderFault } from './transport.ts';

/** MCP 2025-11-25, server/tools "Tool Names", and `/` of SEP-986, which servers use. */
const NAME = /^[A-Za-z0-9_.\-/]{1,128}$/;
const MAX_NAME_CHARACTERS = 128;
const MAX_DEFINITION_BYTES = 65_536;
const MAX_DESCRIPTION_CHARACTERS = 16_384;
const CUT = ' […]';
/** A tool without this field counts as `forbidden`. */
const TASK_SUPPORT = ['required', 'optional'] as const;

const TWICE = 'the server lists this name more than once';

interface Listed {
  readonly name: string;
  /** The definition, or why there can be none. */
  read: ToolDefinition | string;
  bytes: number;
}

/** Reads a server's tools as they come; it never holds a tool that cannot be offered. */
export class ListedTools {
  readonly #scrub: Scrubber;
  readonly #takesTasks: boolean;
  readonly #listed: Listed[] = [];
  readonly #named = new Map<string, Listed>();
  #bytes = 0;

  /** @param takesTasks true if the server takes calls as tasks in this session */
  constructor(scrub: Scrubber, takesTasks: boolean) {
    this.#scrub = scrub;
    this.#takesTasks = takesTasks;
  }

  /** Size of all definitions that can be offered, as JSON. */
  get bytes(): number {
    return this.#bytes;
  }

  add(tool: unknown): void {
    const name = nameOf(tool);
    const twin = name === '' ? undefined : this.#named.get(name);
    if (twin !== undefined) {
      this.#bytes -= twin.bytes;
      twin.read = TWICE;
      twin.bytes = 0;
      return;
    }
    const read = definitionOf(tool, this.#scrub, this.#takesTasks);
    const bytes = typeof read === 'string' ? 0 : byteLength(JSON.stringify(read));
    const listed = { name, read, bytes };
    this.#bytes += bytes;
    this.#listed.push(listed);
    this.#named.set(name, listed);
  }

  listing(): ToolListing {
    const tools: ToolDefinition[] = [];
    const refused: RefusedTool[] = [];
    for (const { name, read } of this.#listed) {
      if (typeof read === 'string') refused.push(refusal(this.#scrub, name, read));
      else tools.push(read);
    }
    return { tools, refused };
  }
}

/** Returns the definition, or why there can be none. */
function definitionOf(tool: unknown, scrub: Scrubber, takesTasks: boolean): ToolDefinition | string {
  if (!isObject(tool)) return 'it is not an object';
  const { name, title, description, inputSchema, outputSchema, annotations, execution } = tool;
  if (nestsTooDeeply(tool)) return `it nests deeper than ${MAX_NESTING} levels`;
  if (typeof name !== 'string' || name === '') return 'it has no name';
  if (name.length > MAX_NAME_CHARACTERS) return `its name is longer than ${MAX_NAME_CHARACTERS} characters`;
  if (!NAME.test(name)) return 'its name has characters other than A-Z a-z 0-9 _ . - /';
  // No record can hold this name as a key of its own, so no policy could name the tool.
  if (name === '__proto__') return 'its name is __proto__, which policy cannot name';
  if (title !== undefined && typeof title !== 'string') return 'its title is no string';
  if (description !== undefined && typeof description !== 'string') return 'its description is no string';
  if (!isObject(inputSchema) || inputSchema['type'] !== 'object') return 'its inputSchema is not of type "object"';
  if (outputSchema !== undefined && !isObject(outputSchema)) return 'its outputSchema is no object';
  if (annotations !== undefined && !isObject(annotations)) return 'its annotations are no object';
  // MCP 2025-11-25, "Tool-Level Negotiation" of tasks: such a tool answers a plain call with an error.
  const taskSupport = isObject(execution) ? TASK_SUPPORT.find((each) => each === execution['taskSupport']) : undefined;
  if (taskSupport === 'required' && !takesTasks)
    return 'it can only be called as a task, and its server takes none (MCP 2025-11-25, tasks.requests.tools.call)';
  const kept = { inputSchema, outputSchema, annotations };
  if (holdsEndlessNumber(kept)) return `it holds ${ENDLESS_NUMBER}`;
  const bytes = byteLength(JSON.stringify({ name, title, description, ...kept }));
  if (bytes > MAX_DEFINITION_BYTES) return `its definition has ${bytes} bytes, more than ${MAX_DEFINITION_BYTES}`;
  const fault = paramHeaderFault(inputSchema);
  if (fault !== undefined) return fault;
  // They are scrubbed together, since a secret may begin in one and go on in another. Sound: scrubbing turns a string
  // into a string and an object into an object.
  const clean = scrub.value({ name, title, description, ...kept }) as {
    readonly name: string;
    readonly title?: string;
    readonly description?: string;
    readonly inputSchema: JsonObject;
    readonly outputSchema?: JsonObject;
    readonly annotations?: JsonObject;
  };
  if (clean.name !== name) return 'its name holds a secret';
  return {
    name,
    ...(clean.title === undefined ? {} : { title: bounded(clean.title) }),
    ...(clean.description === undefined ? {} : { description: bounded(clean.description) }),
    inputSchema: clean.inputSchema,
    ...defined({ outputSchema: clean.outputSchema, annotations: clean.annotations }),
    ...(taskSupport === undefined || !takesTasks ? {} : { taskSupport }),
  };
}

function nameOf(tool: unknown): string {
  const name = isObject(tool) ? tool['name'] : undefined;
  return typeof name === 'string' ? name : '';
}

function refusal(scrub: Scrubber, name: string, reason: string): RefusedTool {
  const shown = scrub.text(name);
  return {
    name: shown.length > MAX_NAME_CHARACTERS ? `${shown.slice(0, MAX_NAME_CHARACTERS)}${CUT}` : shown,
    reason: scrub.text(reason),
  };
}

function bounded(text: string): string {
  return text.length > MAX_DESCRIPTION_CHARACTERS ? `${text.slice(0, MAX_DESCRIPTION_CHARACTERS)}${CUT}` : text;
}

/** An object that was parsed from JSON holds JSON values. */
function isObject(value: unknown): value is Readonly<Record<string, JsonValue>> {
  return typeof value === 'object' && value !== null && !Array.isArray(value);
}

/**
 * Numbers of a server that JSON can write and this service cannot keep. `1e999` is read as infinity, which has no
 * canonical form (RFC 8785 §3.2.2.3) and so no hash, and is written as null.
 */
export const ENDLESS_NUMBER = 'a number beyond what can be kept (1e999, for instance)';

/** @param value nests no deeper than `activities/kit/json.ts` allows */
export function holdsEndlessNumber(value: unknown): boolean {
  if (typeof value === 'number') return !Number.isFinite(value);
  return typeof value === 'object' && value !== null && Object.values(value).some(holdsEndlessNumber);
}
