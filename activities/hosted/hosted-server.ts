/**
 * The `ToolServer` whose calls are made by a model's provider (docs/adr/0080). A list and a call are one request each
 * to the provider's Responses API; a call that continues a stored answer reads it before.
 *
 * It does not own when a call may leave: the gate does, as for every server.
 * 1. Only a request of `call` carries `approve: true`, for one call, once (INV-X1). It states the pinned definition and
 *    the provider's own request for approval, or continues the stored answer that has the request.
 * 2. The ending is the `mcp_call` item. Without it, with one of another call, or with more than one, the outcome is
 *    unknown. An answer is read to its end: what the provider does unasked may come last.
 * 3. The token is in the tool of this one request, and in nothing that is returned (INV-S1).
 * 4. A provider that has made a call unasked, or another one than was approved, is asked nothing more, as long as this
 *    worker lives.
 * 5. The provider executes what its stored answer says, and the workflow names that answer. So it is read first: unless
 *    it asks for this call, under this id alone, nothing is approved (INV-G1). A failure to read proves that nothing
 *    was sent.
 * 6. A stored answer with several requests is continued once for each: one is approved, and the others are refused, in
 *    that branch alone (INV-G3).
 *
 * One file, because a request and what its answer proves are read together.
 */
import { defined } from '../../contracts/defined.ts';
import { CountersignError } from '../../contracts/errors.ts';
import type { JsonObject, JsonValue } from '../../contracts/schemas/json.ts';
import type { ToolDefinition } from '../../contracts/schemas/tool.ts';
import { canonicalJson } from '../../domain/text/canonical.ts';
import type { ArtifactStore } from '../artifacts/port.ts';
import { type Egress, egressRefusalIn } from '../egress/fetch.ts';
import { endingOfError, type Names, refused, unknown } from '../mcp/classify-failure.ts';
import { executed, namesOf, quoted, scrubberFor } from '../mcp/classify-result.ts';
import { ListedTools, ListingFailure, MAX_BYTES, MAX_TOOLS } from '../mcp/listing.ts';
import type { CallEnding, ServerConnection, ToolCall, ToolListing, ToolServer } from '../mcp/port.ts';
import { startPulse } from '../mcp/pulse.ts';
import { IDEMPOTENCY_HEADER } from '../mcp/session.ts';
import {
  argumentsIn,
  createResponsesApi,
  createStoredAnswers,
  isAnswerId,
  mcpList,
  mcpTool,
  type ResponsesApi,
  type ResponsesAsk,
  ResponsesRefusal,
  type StoredAnswers,
  toldCalls,
} from '../models/responses-api.ts';
import type { ProviderConfig } from '../models/provider.ts';
import { isWholly } from '../../domain/text/written-json.ts';
import { fieldsOf, objectsOf, textOf } from '../kit/json.ts';
import { networkReasonOf, neverConnected, retryAfterOf } from '../kit/network.ts';
import type { Scrubber } from '../scrubbing/scrubber.ts';
import { deadlineIn } from '../kit/time-limit.ts';

/** The least that the API takes: what the model writes is dropped. */
const LEAST_TOKENS = 16;
const LIST_MS = 40_000;
const READ_MS = 20_000;

const BOUND =
  'its credentials require tokens that are bound to a key (senderConstrained), which a provider cannot show';

export interface HostingModel {
  readonly ask: ResponsesApi;
  readonly stored: StoredAnswers;
  readonly apiKey?: string | undefined;
}

export function createHostingModel(name: string, config: ProviderConfig, egress: Egress): HostingModel {
  const ask = createResponsesApi(name, config, egress);
  return { ask, stored: createStoredAnswers(name, config, egress), apiKey: config.apiKey };
}

export interface HostedServerParts {
  readonly artifacts: ArtifactStore;
  readonly models: (name: string) => HostingModel | undefined;
}

export function createChoosingServer(local: ToolServer, hosted: ToolServer): ToolServer {
  const of = ({ hosted: by }: ServerConnection): ToolServer => (by === undefined ? local : hosted);
  return {
    list: (connection, ...asked) => of(connection).list(connection, ...asked),
    call: (connection, call) => of(connection).call(connection, call),
    close: async () => await local.close?.(),
  };
}

export function createHostedServer({ artifacts, models }: HostedServerParts): ToolServer {
  const breached = new Set<string>();
  return {
    list: async (connection, signal) => {
      const hosting = hostingOf(models, breached, connection);
      if (typeof hosting === 'string') throw new CountersignError('HOSTED_UNSUPPORTED', hosting);
      const scrub = scrubberOf(connection, hosting);
      const ended = AbortSignal.any([signal, deadlineIn(LIST_MS)]);
      if (connection.binding !== undefined) throw failed(connection, BOUND);
      try {
        const onEvent = (event: JsonObject): void => {
          if (toldCalls(event).length === 0) return;
          breached.add(hosting.name);
          throw calledInList(connection);
        };
        const question = bodyOf(connection, {}, [{ role: 'user', content: 'Say which tools you have.' }]);
        const body = { ...question, tool_choice: 'none' };
        const { items, response } = await hosting.ask({ body, signal: ended, onEvent });
        if (response === undefined) throw failed(connection, 'the provider broke off its answer');
        return await listed(items, connection, scrub);
      } catch (error) {
        throw notListed(error, connection, scrub);
      }
    },

    call: async (connection, call) => await called({ artifacts, models, breached }, connection, call),
  };
}

async function called(
  { artifacts, models, breached }: HostedServerParts & { readonly breached: Set<string> },
  connection: ServerConnection,
  call: ToolCall,
): Promise<CallEnding> {
  const hosting = hostingOf(models, breached, connection);
  // An error thrown here would be taken for a call that may have left.
  if (typeof hosting === 'string') return { kind: 'refused', code: 'HOSTED_UNSUPPORTED', message: hosting };
  const scrub = scrubberOf(connection, hosting);
  const names = namesOf(connection, call, (text) => quoted(scrub, text));
  const request = call.approvalRequestId;
  if (request === undefined) return refused(names, { code: 'TOOL_REFUSED', reason: 'its provider has not asked' });
  if (connection.binding !== undefined) return refused(names, { code: 'TOKEN_UNBOUND', reason: BOUND });
  const pulse = startPulse(call);
  const deadline = deadlineIn(call.timeoutMs);
  const signal = AbortSignal.any([call.signal, deadline]);
  const asked: Asked = { hosting, connection, call, request, names, scrub, artifacts, signal };
  const seen: SeenCalls = { answered: false, ids: new Set(), done: [] };
  const isOurs = (item: JsonObject): boolean => item['server_label'] === connection.name;
  const hasOthers = (): boolean => seen.done.length > 1 || seen.ids.size > 1;
  try {
    const approving = await approvalOf(asked);
    if ('ending' in approving) return approving.ending;
    if (signal.aborted) return notSent(names, call.signal.aborted ? 'the call was cancelled' : 'its time was over');
    pulse.say({ phase: 'sent', sentAt: new Date().toISOString() });
    await hosting.ask({ body: approving.body, signal, ...watching(seen) });
  } catch (error) {
    // An item that is done stays done, whatever became of the stream.
    if (!seen.done.some(isOurs)) {
      const { answered } = seen;
      return endingOf(error, names, { answered, cancelled: call.signal.aborted, late: deadline.aborted });
    }
  } finally {
    pulse.stop();
    const isApproved = seen.done.every((item) => isOurs(item) && isThisCall(item, call, request));
    if (hasOthers() || !isApproved) breached.add(hosting.name);
  }
  pulse.say({ phase: 'answered' });
  const made = seen.done.find(isOurs);
  if (made === undefined) return unknown(names, 'the provider tells of no call, in an answer that has ended');
  if (hasOthers()) return unknown(names, 'the provider made other calls beside the one that was approved');
  return await meaningOf(made, asked);
}

function hostingOf(
  models: HostedServerParts['models'],
  breached: ReadonlySet<string>,
  { name: server, hosted }: ServerConnection,
): (HostingModel & { readonly name: string }) | string {
  const found = hosted === undefined ? undefined : models(hosted.model);
  if (hosted === undefined || found === undefined)
    return `This worker has no model whose provider calls server "${server}".`;
  const { model: name } = hosted;
  if (breached.has(name))
    return `The provider of model ${name} has made a call unasked before, so this worker asks it for nothing of server "${server}". Do not use this provider for hosted tools: set asksBeforeCalls: false for the model, or execute: local for its servers.`;
  return { ...found, name };
}

function scrubberOf(connection: ServerConnection, { apiKey }: HostingModel): Scrubber {
  return scrubberFor(connection, apiKey === undefined ? [] : [apiKey]);
}

interface Asked {
  readonly hosting: HostingModel & { readonly name: string };
  readonly connection: ServerConnection;
  readonly call: ToolCall;
  readonly request: string;
  readonly names: Names;
  readonly scrub: Scrubber;
  readonly artifacts: ArtifactStore;
  readonly signal: AbortSignal;
}

async function approvalOf(asking: Asked): Promise<{ readonly body: JsonObject } | { readonly ending: CallEnding }> {
  const { hosting, connection, call, request, names, signal } = asking;
  const { name } = call.definition;
  const approval = { type: 'mcp_approval_response', approval_request_id: request, approve: true };
  const bodyWith = (input: readonly JsonObject[]): JsonObject => {
    const headers = { ...connection.headers, [IDEMPOTENCY_HEADER]: call.idempotencyKey };
    return bodyOf({ ...connection, headers }, { allowed_tools: [name] }, input);
  };
  if (call.storedAnswerId === undefined) {
    const asked = { id: request, server_label: connection.name, name, arguments: canonicalJson(call.arguments) };
    return {
      body: bodyWith([
        { role: 'user', content: 'Make the call that is approved.' },
        mcpList(connection.name, [listedTool(call.definition)]),
        { type: 'mcp_approval_request', ...asked },
        approval,
      ]),
    };
  }
  const { storedAnswerId: id } = call;
  if (!isAnswerId(id)) return { ending: otherwise(names, 'what is said to name that answer is no id') };
  let answer: JsonObject;
  try {
    answer = await hosting.stored(id, AbortSignal.any([signal, deadlineIn(READ_MS)]));
  } catch (error) {
    return { ending: unreadable(error, hosting.name, names) };
  }
  const output = objectsOf(answer['output']);
  const [asked, ...same] = output.filter((item) => item['type'] === 'mcp_approval_request' && item['id'] === request);
  if (asked === undefined) return { ending: otherwise(names, 'that answer has no such request') };
  if (same.length > 0 || asked['server_label'] !== connection.name || !isOfTool(asked, call))
    return { ending: otherwise(names, 'that answer asks for another call') };
  return { body: { ...bodyWith([approval, ...othersIn(output, request)]), previous_response_id: id } };
}

/** The API continues an answer only if everything in it that waits for something is answered. */
function othersIn(output: readonly JsonObject[], request: string): JsonObject[] {
  const apart = 'It is answered apart from this.';
  return output.flatMap(({ type, id = '', call_id = '' }): JsonObject[] => {
    if (type === 'function_call') return [{ type: 'function_call_output', call_id, output: apart }];
    if (type !== 'mcp_approval_request' || id === request) return [];
    return [{ type: 'mcp_approval_response', approval_request_id: id, approve: false, reason: apart }];
  });
}

function bodyOf(connection: ServerConnection, more: JsonObject, input: readonly JsonObject[]): JsonObject {
  const { name: server, url, headers, accessToken, hosted } = connection;
  const authority = {
    ...defined({ authorization: accessToken }),
    ...(Object.keys(headers).length === 0 ? {} : { headers }),
  };
  const tool = mcpTool({ server, url, connectorId: hosted?.connectorId }, { ...authority, ...more });
  return { max_output_tokens: LEAST_TOKENS, tools: [tool], input };
}

export function listedTool({ name, description, inputSchema, annotations }: ToolDefinition): JsonObject {
  return { name, input_schema: inputSchema, ...defined({ description, annotations }) };
}

interface SeenCalls {
  answered: boolean;
  readonly ids: Set<string>;
  /** Items of those that are done, which may come without an id. */
  readonly done: JsonObject[];
}

function watching(seen: SeenCalls): Pick<ResponsesAsk, 'onAnswer' | 'onEvent' | 'onItem'> {
  return {
    onAnswer: () => (seen.answered = true),
    onEvent: (event) => {
      for (const { id } of toldCalls(event)) if (textOf(id) !== '') seen.ids.add(textOf(id));
    },
    onItem: (item) => {
      if (item['type'] === 'mcp_call') seen.done.push(item);
    },
  };
}

async function listed(
  items: readonly JsonObject[],
  connection: ServerConnection,
  scrub: Scrubber,
): Promise<ToolListing> {
  const item = items.find(({ type, server_label: server }) => type === 'mcp_list_tools' && server === connection.name);
  if (item === undefined) throw failed(connection, 'the provider gave no list');
  const { error } = item;
  if (error !== undefined && error !== null) throw failed(connection, quoted(scrub, wordsOf(error)));
  if (!Array.isArray(item['tools'])) throw failed(connection, 'the answer has no list of tools');
  const tools = objectsOf(item['tools']);
  const read = new ListedTools(scrub, false);
  for (const tool of tools.slice(0, MAX_TOOLS + 1)) {
    const { name, description, input_schema: inputSchema, annotations } = tool;
    // The API writes null where a server says nothing.
    await read.add(
      defined({ name, description: description ?? undefined, inputSchema, annotations: annotations ?? undefined }),
    );
  }
  if (tools.length > MAX_TOOLS || read.bytes > MAX_BYTES) throw failed(connection, 'it lists more than one server may');
  return await read.listing();
}

function failed({ name, hosted }: ServerConnection, reason: string): CountersignError {
  const message = `The tools of server "${name}" could not be listed by the provider of model ${hosted?.model ?? ''}: ${reason}`;
  return new ListingFailure('DISCOVERY_FAILED', message, {}, { health: 'neutral' });
}

function calledInList({ name, hosted }: ServerConnection): CountersignError {
  const message = `The provider of model ${hosted?.model ?? ''} has called a tool of server "${name}" when it was asked for a list of its tools. Find out at the server what was done, and do not use this provider for hosted tools.`;
  return new CountersignError('HOSTED_UNSUPPORTED', message);
}

function notListed(error: unknown, connection: ServerConnection, scrub: Scrubber): unknown {
  if (error instanceof CountersignError) return error;
  const reason =
    error instanceof ResponsesRefusal
      ? quoted(scrub, `${error.message}, ${wordsOf(error.body)}`)
      : (networkReasonOf(error) ?? 'no complete answer came');
  return failed(connection, reason);
}

/** Error bodies are `{error: {message}}`, `{message}` or text. */
function wordsOf(value: JsonValue): string {
  if (typeof value === 'string') return value;
  const outer = fieldsOf(value);
  const { message, code } = outer['error'] === undefined ? outer : fieldsOf(outer['error']);
  return textOf(message) || textOf(code) || 'no reason given';
}

/** Statuses that are decided before anything is done. 401 and 403 are about the key of the model. */
const REFUSING = new Set([400, 401, 402, 403, 404, 405, 413, 415, 422, 429]);

function endingOf(
  error: unknown,
  names: Names,
  { answered, cancelled, late }: { answered: boolean; cancelled: boolean; late: boolean },
): CallEnding {
  const forbidden = answered ? undefined : forbiddenBy(error);
  if (forbidden !== undefined) return forbidden;
  // Once the provider answers, no error of the network proves that nothing was sent.
  if (!answered && neverConnected(error)) return notSent(names, networkReasonOf(error) ?? 'no connection');
  if (cancelled) return unknown(names, 'the call was cancelled after it was sent');
  if (late) return unknown(names, 'no answer came before the deadline');
  if (!(error instanceof ResponsesRefusal))
    return unknown(names, networkReasonOf(error) ?? 'the connection ended without an answer');
  const reason = names.quote(`the provider answered ${error.message}, ${wordsOf(error.body)}`);
  return refusedBy(error, names, reason) ?? unknown(names, reason);
}

function forbiddenBy(error: unknown): CallEnding | undefined {
  const refusal = egressRefusalIn(error);
  return refusal && { kind: 'refused', code: refusal.code, message: refusal.message };
}

/** Returns undefined if the status does not prove that nothing was done. */
function refusedBy({ status, body, headers }: ResponsesRefusal, names: Names, reason: string): CallEnding | undefined {
  if (status === undefined || !REFUSING.has(status)) return undefined;
  const isGone = fieldsOf(body['error'])['code'] === 'previous_response_not_found';
  const code = status === 429 ? 'TOOL_RATE_LIMITED' : isGone ? 'STORED_ANSWER_GONE' : 'MODEL_REJECTED';
  return refused(names, {
    code,
    reason,
    ...defined({ retryAfterMs: retryAfterOf({ headers: new Headers(headers) }) }),
  });
}

/** Nothing was approved. */
function unreadable(error: unknown, model: string, names: Names): CallEnding {
  const forbidden = forbiddenBy(error);
  if (forbidden !== undefined) return forbidden;
  if (!(error instanceof ResponsesRefusal))
    return notSent(names, networkReasonOf(error) ?? 'the answer in which it asks could not be read');
  const told = names.quote(`the provider answered ${error.message}, ${wordsOf(error.body)}`);
  const reason = `the stored answer that asks for it could not be read, ${told}`;
  if (error.status === 404)
    return refused(names, {
      code: 'STORED_ANSWER_GONE',
      reason: `${reason}. It is gone. The operator can set models.${model}.storesAnswers: false, so that calls need none`,
    });
  return refusedBy(error, names, reason) ?? notSent(names, reason);
}

function otherwise({ server, tool }: Names, reason: string): CallEnding {
  const message = `Tool "${tool}" of server "${server}" was not called. The provider would execute what its stored answer asks for, and ${reason}.`;
  return { kind: 'refused', code: 'DISPATCH_FORBIDDEN', message };
}

function notSent({ server, tool }: Names, reason: string): CallEnding {
  const message = `The provider that calls server "${server}" was not reached (${reason}); tool "${tool}" was not called.`;
  return { kind: 'not-sent', code: 'TOOL_UNAVAILABLE', message };
}

async function meaningOf(item: JsonObject, { call, request, names, scrub, artifacts }: Asked): Promise<CallEnding> {
  if (!isThisCall(item, call, request)) return unknown(names, 'the provider tells of another call than was approved');
  const parts = { artifacts, scrub, names };
  const ran = async (text: string, isError: boolean): Promise<CallEnding> =>
    await executed({ content: [{ type: 'text', text }], isError }, call, parts);
  const { error, output } = item;
  const status = item['status'] ?? 'completed';
  // A call that is not over has no ending, whatever stands beside it.
  if (status !== 'completed' && status !== 'failed')
    return unknown(names, names.quote(`the provider tells of a call that is ${textOf(status) || 'in no known state'}`));
  if (error === undefined || error === null) {
    if (typeof output === 'string' && status === 'completed') return await ran(output, false);
    return unknown(names, 'the provider tells neither a result nor an error');
  }
  // An error in words may be the tool's own, or tell that the tool's answer was lost: it proves neither.
  if (typeof error === 'string')
    return unknown(names, names.quote(`the provider tells of an error in words alone: ${error}`));
  const { type, code, message, content } = fieldsOf(error);
  if (type === 'mcp_tool_execution_error') return await ran(contentText(content), true);
  if (type === 'mcp_protocol_error' && typeof code === 'number')
    return endingOfError({ kind: 'error', code, message: textOf(message) }, names);
  // No status of the server is proof, 401 and 403 included: the provider may have sent the call before.
  const said = [textOf(type), typeof code === 'number' ? String(code) : textOf(code), textOf(message)];
  const words = said.filter((word) => word !== '').join(' ');
  return unknown(names, names.quote(`the provider tells of an error: ${words}`));
}

function isThisCall(item: JsonObject, call: ToolCall, request: string): boolean {
  const { approval_request_id: approved } = item;
  return (typeof approved !== 'string' || approved === request) && isOfTool(item, call);
}

/** True if any reader finds the tool and the arguments of the call. */
function isOfTool(item: JsonObject, { definition, arguments: args }: ToolCall): boolean {
  if (item['name'] !== definition.name) return false;
  const given = argumentsIn(item);
  try {
    return given !== undefined && canonicalJson(given) === canonicalJson(args) && isWholly(textOf(item['arguments']));
  } catch {
    // It nests too deeply to be compared.
    return false;
  }
}

function contentText(content: JsonValue | undefined): string {
  if (typeof content === 'string') return content;
  if (!Array.isArray(content)) return 'The provider gave no text.';
  return content.map((part: JsonValue) => textOf(fieldsOf(part)['text'])).join('\n');
}
