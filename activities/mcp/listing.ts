/**
 * Walks a server's tool list, and says which tools may be offered.
 *
 * 1. Pages are read raw: the SDK fails a whole page for one malformed tool.
 * 2. Discovery fails beyond 64 pages, 1,000 tools or 4 MiB of definitions: a part of a catalog, offered as the whole,
 *    would hide what is missing. Only listed tools that can be offered are held.
 */
import { type PriorDiscovery, SdkError, SdkErrorCode } from '@modelcontextprotocol/client';
import { defined } from '../../contracts/defined.ts';
import { CountersignError, type ErrorCode, type ErrorFacts } from '../../contracts/errors.ts';
import type { JsonObject, JsonValue } from '../../contracts/schemas/json.ts';
import type { RefusedTool, ToolDefinition } from '../../contracts/schemas/tool.ts';
import { byteLength } from '../../domain/text/canonical.ts';
import type { Egress } from '../egress/fetch.ts';
import { ENDLESS_NUMBER, holdsEndlessNumber, isJsonObject, MAX_NESTING, nestsTooDeeply } from '../kit/json.ts';
import { schemasIn } from '../kit/json-schema.ts';
import { nextTurn, type Scrubber, scrubbedBeginning } from '../scrubbing/scrubber.ts';
import { faultOf, NONCE_WANTED, reasonOf, refusalIn, whyStopped } from './classify-failure.ts';
import { quoted, scrubberFor, secretIds } from './classify-result.ts';
import type { KeptSessions } from './kept-sessions.ts';
import type { ServerConnection, ServerSign, ToolListing } from './port.ts';
import {
  ConnectFailure,
  type Failure,
  NEVER_MS,
  openSession,
  type Priors,
  type Session,
  type Stop,
  startWaiting,
  takesTasks,
  type Waiting,
} from './session.ts';

const MAX_PAGES = 64;
export const MAX_TOOLS = 1_000;
/** Bytes of the definitions that are kept: they are read and parsed for every run, and held for as long as it works. */
export const MAX_BYTES = 4_194_304;
/** Bytes of all pages as they come: content that is not kept is read too. */
const MAX_LISTED_BYTES = 33_554_432;
const TOO_MUCH = `its definitions have more than ${MAX_BYTES} bytes, the most of one server. Offer fewer tools or shorter schemas there, or make it two servers`;
const WALK_MS = 40_000;
const WHAT = 'the discovery';

/** The codes that `ToolServer.list` may throw; every other refusal is a failed discovery. */
const KEPT: ReadonlySet<ErrorCode> = new Set(['TOOL_UNAUTHORIZED', 'TOOL_FORBIDDEN', 'TOOL_INSUFFICIENT_SCOPE']);

export interface ListingRequest {
  readonly connection: ServerConnection;
  readonly signal: AbortSignal;
  readonly connectMs: number;
  readonly priors: Priors;
  readonly kept: KeptSessions;
  /** True if the remembered facts about the server may be used; else they are learned anew. */
  readonly known: boolean;
  readonly egress: Egress;
}

/** With the session's id among its secrets: calls may go on in that session. */
interface Listing extends ListingRequest {
  readonly scrub: Scrubber;
}

export async function listTools(request: ListingRequest): Promise<ToolListing> {
  const { connection, signal, known, priors } = request;
  const prior = known ? priors.recall(connection) : undefined;
  if (prior === undefined) return await listAs(request, undefined);
  try {
    return await listAs(request, prior);
  } catch (error) {
    // A server that was upgraded or went back fails like this. Its refusal of a token counts.
    if (signal.aborted || !(error instanceof CountersignError) || error.code !== 'DISCOVERY_FAILED') throw error;
    priors.forget(connection);
    return await listAs(request, undefined);
  }
}

async function listAs(request: ListingRequest, prior: PriorDiscovery | undefined): Promise<ToolListing> {
  const { connection, signal, connectMs, priors, kept, egress } = request;
  const within = (sessionId: string | undefined): Listing => {
    return { ...request, scrub: scrubberFor(connection, secretIds(sessionId)) };
  };
  let session: Session;
  let isWhole = false;
  try {
    const asks = connection.asks === true ? 'declared' : undefined;
    session = await openSession({ connection, signal, connectMs, egress, asks, ...defined({ prior }) });
  } catch (error) {
    if (!(error instanceof ConnectFailure)) throw error;
    throw failure(within(error.sessionId), error.trace, 'the protocol could not be agreed on');
  }
  try {
    if (prior === undefined) priors.learn(connection, session);
    const { tools, resources } = session.client.getServerCapabilities() ?? {};
    const linked = resources === undefined ? {} : { resources: true as const };
    if (tools === undefined) return { tools: [], refused: [], ...linked };
    const listing = within(session.transport.sessionId);
    const listed = new ListedTools(listing.scrub, takesTasks(session));
    await walk(session, listing, listed);
    isWhole = !signal.aborted;
    return { ...(await listed.listing()), ...linked };
  } finally {
    await (isWhole ? kept.keepOrEnd(connection, session) : session.close());
  }
}

async function walk(session: Session, request: Listing, listed: ListedTools): Promise<void> {
  const { transport, wire } = session;
  const ending = new AbortController();
  const end = (why: Stop): void => ending.abort(new SdkError(SdkErrorCode.RequestTimeout, whyStopped(why, WHAT)));
  const waiting = startWaiting(transport, request.signal, end, { atMostMs: WALK_MS });
  try {
    const cursors = new Set<string>();
    let count = 0;
    let bytes = 0;
    for (let cursor: string | undefined; ;) {
      const page = await pageAt(session, cursor, ending.signal);
      if ('error' in page) throw unread(request, page.error, session, waiting);
      const { tools, nextCursor } = page.result;
      if (!Array.isArray(tools)) throw failed(request, 'the answer has no list of tools');
      count += tools.length;
      if (count > MAX_TOOLS) throw failed(request, `it lists more than ${MAX_TOOLS} tools`);
      // The received bytes are counted: a tool may nest too deeply to be written again.
      bytes += wire.exchange().received ?? 0;
      if (bytes > MAX_LISTED_BYTES) throw failed(request, `it lists more than ${MAX_LISTED_BYTES} bytes`);
      for (const tool of tools as readonly unknown[]) {
        await listed.add(tool);
        // Other work had its turn: the time may be over, or nobody wants the list any more.
        if (waiting.stopped() !== undefined) throw unread(request, undefined, session, waiting);
      }
      if (listed.bytes > MAX_BYTES) throw failed(request, TOO_MUCH);
      // The spec leaves it out at the end; servers whose language writes absent texts as empty ones do not.
      if (typeof nextCursor !== 'string' || nextCursor === '') return;
      if (cursors.has(nextCursor) || cursors.size + 1 >= MAX_PAGES)
        throw failed(request, `its list does not end within ${MAX_PAGES} pages`);
      cursors.add(nextCursor);
      cursor = nextCursor;
    }
  } finally {
    waiting.over();
  }
}

function unread(request: Listing, error: unknown, { wire }: Session, { stopped }: Waiting): CountersignError {
  return failure(request, { error, exchange: wire.exchange(), stopped: stopped() }, 'the answer could not be read');
}

type Page = { readonly result: Readonly<Record<string, unknown>> } | { readonly error: unknown };

async function pageAt({ client, transport }: Session, cursor: string | undefined, signal: AbortSignal): Promise<Page> {
  try {
    await client.request({ method: 'tools/list', params: defined({ cursor }) }, { signal, timeout: NEVER_MS });
  } catch (error) {
    if (transport.answer?.kind !== 'result') return { error };
  }
  return transport.answer?.kind === 'result' ? { result: transport.answer.result } : { error: undefined };
}

function failure(request: Listing, trace: Failure, otherwise: string): CountersignError {
  const { error, exchange, stopped } = trace;
  if (exchange.forbidden !== undefined) return exchange.forbidden;
  if (exchange.nonceWanted === true) return failed(request, NONCE_WANTED);
  const refusal = refusalIn(error, exchange, (text) => quoted(request.scrub, text));
  if (refusal === undefined || !KEPT.has(refusal.code)) {
    const { retryAfterMs } = exchange;
    const asked = refusal && retryAfterMs !== undefined ? { code: refusal.code, ms: retryAfterMs } : undefined;
    const fault = faultOf(trace, 'asking');
    const health = fault === undefined ? (refusal === undefined ? 'neutral' : 'up') : 'down';
    const reason = refusal?.reason ?? reasonOf(error, stopped === undefined ? otherwise : whyStopped(stopped, WHAT));
    return failed(request, reason, retryAfterMs, { health, asked });
  }
  const { code, reason, requiredScope } = refusal;
  const message = `Server "${request.connection.name}" refused to list its tools: ${reason}`;
  return new ListingFailure(code, message, defined({ requiredScope }), { health: 'up' });
}

function failed(
  { connection }: ListingRequest,
  reason: string,
  retryAfterMs?: number,
  sign: ServerSign = { health: 'neutral' },
): CountersignError {
  const message = `The tools of server "${connection.name}" could not be listed: ${reason}`;
  return new ListingFailure('DISCOVERY_FAILED', message, defined({ retryAfterMs }), sign);
}

export class ListingFailure extends CountersignError {
  readonly sign: ServerSign;

  constructor(code: ErrorCode, message: string, facts: ErrorFacts, sign: ServerSign) {
    super(code, message, facts);
    this.sign = sign;
  }
}

/** An error that is not the server's word shows nothing of the server. */
export function signOfList(error: unknown): ServerSign {
  return error instanceof ListingFailure ? error.sign : { health: 'neutral' };
}

// Turns the tools that a server lists into definitions that can be pinned, or refuses them by name with the reason.
//
// 1. A name means one tool: if a server lists it twice, neither of the two is offered.
// 2. Annotations are kept as sent, whatever their type: policy looks at the type too (INV-G4).

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
  readonly read: ToolDefinition | string;
  readonly bytes: number;
}

/** Reads a server's tools as they come, with other work in between; it never holds a tool that cannot be offered. */
export class ListedTools {
  readonly #scrub: Scrubber;
  readonly #mayBeTasks: boolean;
  /** By name; a tool without one has a key of its own. */
  readonly #listed = new Map<unknown, Listed>();

  /** @param mayBeTasks true if the server takes calls as tasks in this session */
  constructor(scrub: Scrubber, mayBeTasks: boolean) {
    this.#scrub = scrub;
    this.#mayBeTasks = mayBeTasks;
  }

  /** Size of all definitions that can be offered, as JSON. */
  get bytes(): number {
    return [...this.#listed.values()].reduce((sum, { bytes }) => sum + bytes, 0);
  }

  async add(tool: unknown): Promise<void> {
    const name = nameOf(tool);
    if (this.#listed.has(name)) {
      this.#listed.set(name, { name, read: TWICE, bytes: 0 });
      return;
    }
    const read = definitionOf(tool, this.#scrub, this.#mayBeTasks);
    const bytes = typeof read === 'string' ? 0 : byteLength(JSON.stringify(read));
    this.#listed.set(name === '' ? Symbol() : name, { name, read, bytes });
    await nextTurn();
  }

  async listing(): Promise<ToolListing> {
    const tools: ToolDefinition[] = [];
    const refused: RefusedTool[] = [];
    for (const { name, read } of this.#listed.values()) {
      if (typeof read !== 'string') {
        tools.push(read);
        continue;
      }
      refused.push(refusedAs(this.#scrub, name, read));
      await nextTurn();
    }
    return { tools, refused };
  }
}

function definitionOf(tool: unknown, scrub: Scrubber, mayBeTask: boolean): ToolDefinition | string {
  if (!isJsonObject(tool)) return 'it is not an object';
  const { name, title, description, inputSchema, outputSchema, annotations, execution } = tool;
  if (nestsTooDeeply(tool)) return `it nests deeper than ${MAX_NESTING} levels`;
  if (typeof name !== 'string' || name === '') return 'it has no name';
  if (name.length > MAX_NAME_CHARACTERS) return `its name is longer than ${MAX_NAME_CHARACTERS} characters`;
  if (!NAME.test(name)) return 'its name has characters other than A-Z a-z 0-9 _ . - /';
  // No record can hold this name as a key of its own, so no policy could name the tool.
  if (name === '__proto__') return 'its name is __proto__, which policy cannot name';
  if (title !== undefined && typeof title !== 'string') return 'its title is no string';
  if (description !== undefined && typeof description !== 'string') return 'its description is no string';
  if (!isJsonObject(inputSchema) || inputSchema['type'] !== 'object') return 'its inputSchema is not of type "object"';
  if (outputSchema !== undefined && !isJsonObject(outputSchema)) return 'its outputSchema is no object';
  if (annotations !== undefined && !isJsonObject(annotations)) return 'its annotations are no object';
  // MCP 2025-11-25, "Tool-Level Negotiation" of tasks: such a tool answers a plain call with an error.
  const taskSupport = isJsonObject(execution)
    ? TASK_SUPPORT.find((each) => each === execution['taskSupport'])
    : undefined;
  if (taskSupport === 'required' && !mayBeTask)
    return 'it can only be called as a task, and its server takes none (MCP 2025-11-25, tasks.requests.tools.call)';
  const kept = { inputSchema, outputSchema, annotations };
  if (holdsEndlessNumber(kept)) return `it holds ${ENDLESS_NUMBER}`;
  const bytes = byteLength(JSON.stringify({ name, title, description, ...kept }));
  if (bytes > MAX_DEFINITION_BYTES) return `its definition has ${bytes} bytes, more than ${MAX_DEFINITION_BYTES}`;
  const fault = paramHeaderFault(inputSchema);
  if (fault !== undefined) return fault;
  // They are scrubbed together, since a secret may begin in one and go on in another. Sound: scrubbing turns a string
  // into a string and an object into an object.
  const clean = scrub.value({ name, title, description, ...kept }) as Omit<ToolDefinition, 'taskSupport'>;
  if (clean.name !== name) return 'its name holds a secret';
  return {
    name,
    ...defined({ title: clean.title && bounded(clean.title) }),
    ...defined({ description: clean.description && bounded(clean.description) }),
    inputSchema: clean.inputSchema,
    ...defined({ outputSchema: clean.outputSchema, annotations: clean.annotations }),
    ...defined({ taskSupport: mayBeTask ? taskSupport : undefined }),
  };
}

function nameOf(tool: unknown): string {
  const name = isJsonObject(tool) ? tool['name'] : undefined;
  return typeof name === 'string' ? name : '';
}

function refusedAs(scrub: Scrubber, name: string, reason: string): RefusedTool {
  const shown = scrubbedBeginning(scrub, name);
  return {
    name: shown.length > MAX_NAME_CHARACTERS ? `${shown.slice(0, MAX_NAME_CHARACTERS)}${CUT}` : shown,
    reason: scrub.text(reason),
  };
}

function bounded(text: string): string {
  return text.length > MAX_DESCRIPTION_CHARACTERS ? `${text.slice(0, MAX_DESCRIPTION_CHARACTERS)}${CUT}` : text;
}

// A client MUST leave out a tool whose `x-mcp-header` declarations are not legal (MCP 2026-07-28, Streamable HTTP
// "Schema Extension"; SEP-2243): its calls could not carry the headers that the server asks for. The SDK applies the
// rule only inside its own `listTools`, which fails as a whole on one malformed tool.

const KEY = 'x-mcp-header';

/** RFC 9110 §5.6.2. */
const TOKEN = /^[!#$%&'*+\-.^_`|~0-9A-Za-z]+$/;

const PRIMITIVES: readonly (JsonValue | undefined)[] = ['string', 'integer', 'boolean'];

export function paramHeaderFault(inputSchema: JsonObject): string | undefined {
  const seen = new Set<string>();
  for (const [{ [KEY]: declared, type }, place] of schemasIn(inputSchema)) {
    if (declared === undefined) continue;
    if (place !== 'property') return `${KEY} stands where no chain of properties leads`;
    if (typeof declared !== 'string' || !TOKEN.test(declared)) return `${KEY} is no HTTP token`;
    if (!PRIMITIVES.includes(type)) return `${KEY} "${declared}" is not on a string, integer or boolean`;
    const name = declared.toLowerCase();
    if (seen.has(name)) return `${KEY} "${declared}" is declared twice`;
    seen.add(name);
  }
  return undefined;
}
