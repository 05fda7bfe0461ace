/**
 * Tools as a server lists them, made into definitions that can be pinned, or refused by name with the reason.
 *
 * Pure. Owns what may be offered. Does not own names for models (`domain/toolset.ts`).
 *
 * 1. One bad tool never hides the others.
 * 2. A name means one tool: where a server lists it twice, none of the two is offered.
 * 3. Annotations are kept as sent, whatever their type: policy looks at the type too (INV-G4).
 */
import type { JsonObject, JsonValue } from '../../contracts/schemas/json.ts';
import type { RefusedTool, ToolDefinition } from '../../contracts/schemas/tool.ts';
import { byteLength } from '../../domain/canonical.ts';
import { MAX_NESTING, nestsTooDeeply } from './nesting.ts';
import { paramHeaderFault } from './param-headers.ts';
import type { ToolListing } from './port.ts';
import type { Scrubber } from './scrub.ts';

/** MCP 2025-11-25, server/tools "Tool Names", and `/` of SEP-986, which servers use. */
const NAME = /^[A-Za-z0-9_.\-/]{1,128}$/;
const MAX_NAME_CHARACTERS = 128;
const MAX_DEFINITION_BYTES = 65_536;
const MAX_DESCRIPTION_CHARACTERS = 16_384;
const CUT = ' […]';
/** `forbidden` is what a tool is that says nothing. */
const TASK_SUPPORT = ['required', 'optional'] as const;

/** @param takesTasks does the server, in this session, take calls as tasks? */
export function readDefinitions(listed: readonly unknown[], scrub: Scrubber, takesTasks = false): ToolListing {
  const tools: ToolDefinition[] = [];
  const refused: RefusedTool[] = [];
  const times = new Map<string, number>();
  for (const tool of listed) {
    const name = nameOf(tool);
    times.set(name, (times.get(name) ?? 0) + 1);
  }
  const doubled = new Set<string>();
  for (const tool of listed) {
    const name = nameOf(tool);
    if (name !== '' && (times.get(name) ?? 0) > 1) {
      if (!doubled.has(name)) refused.push(refusal(scrub, name, 'the server lists this name more than once'));
      doubled.add(name);
      continue;
    }
    const read = definitionOf(tool, scrub, takesTasks);
    if (typeof read === 'string') refused.push(refusal(scrub, name, read));
    else tools.push(read);
  }
  return { tools, refused };
}

/** The definition, or why there can be none. */
function definitionOf(tool: unknown, scrub: Scrubber, takesTasks: boolean): ToolDefinition | string {
  if (!isObject(tool)) return 'it is not an object';
  const { name, title, description, inputSchema, outputSchema, annotations, execution } = tool;
  if (nestsTooDeeply(tool)) return `it nests deeper than ${MAX_NESTING} levels`;
  if (typeof name !== 'string' || name === '') return 'it has no name';
  if (name.length > MAX_NAME_CHARACTERS) return `its name is longer than ${MAX_NAME_CHARACTERS} characters`;
  if (!NAME.test(name)) return 'its name has characters other than A-Z a-z 0-9 _ . - /';
  // No record can hold it as a key of its own, so no policy could name it.
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
  const fields = { name, title, description, inputSchema, outputSchema, annotations };
  const bytes = byteLength(JSON.stringify(fields));
  if (bytes > MAX_DEFINITION_BYTES) return `its definition has ${bytes} bytes, more than ${MAX_DEFINITION_BYTES}`;
  const fault = paramHeaderFault(inputSchema);
  if (fault !== undefined) return fault;
  const clean = scrub.text(name);
  if (clean !== name) return 'its name holds a secret';
  return {
    name,
    ...(title === undefined ? {} : { title: bounded(scrub.text(title)) }),
    ...(description === undefined ? {} : { description: bounded(scrub.text(description)) }),
    inputSchema: scrubbed(scrub, inputSchema),
    ...(outputSchema === undefined ? {} : { outputSchema: scrubbed(scrub, outputSchema) }),
    ...(annotations === undefined ? {} : { annotations: scrubbed(scrub, annotations) }),
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

function scrubbed(scrub: Scrubber, value: JsonObject): JsonObject {
  // Sound: scrubbing gives an object for an object.
  return scrub.value(value) as JsonObject;
}

/** What was parsed from JSON and is an object holds JSON values. */
function isObject(value: unknown): value is Readonly<Record<string, JsonValue>> {
  return typeof value === 'object' && value !== null && !Array.isArray(value);
}
