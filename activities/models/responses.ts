/**
 * Asks OpenAI's Responses API for a model step with hosted tools: tools of MCP servers that the provider calls itself
 * (docs/adr/0080). The AI SDK serves all other steps: it drops requests for approval when nothing is stored.
 *
 * 1. A step executes nothing: it never carries `approve: true`. A call that was made is told as `mcp_call`; any other
 *    as request and refusal.
 * 2. A step needs no token of a server: the pinned list stands in the conversation, and is not fetched again.
 * 3. A provider that has called without asking is a breach: the step fails for good as soon as an event tells of the
 *    call, and says what was called. To ask again might call again, so the provider is asked nothing more with hosted
 *    tools, as long as this worker lives.
 * 4. With `storesAnswers` the provider keeps the answer, and a call continues it. Steps state the conversation all the
 *    same: a step may be repeated.
 */
import { defined } from '../../contracts/defined.ts';
import { CountersignError } from '../../contracts/errors.ts';
import type { JsonObject, JsonValue } from '../../contracts/schemas/json.ts';
import type { AssistantPart, CallResult, Message } from '../../contracts/schemas/transcript.ts';
import { canonicalJson, hashOf } from '../../domain/text/canonical.ts';
import { visible } from '../../domain/text/escape.ts';
import { resultOf } from '../../domain/views/model-text.ts';
import type { Egress } from '../egress/fetch.ts';
import { fieldsOf, holdsEndlessNumber, nestsTooDeeply, objectsOf, textOf } from '../kit/json.ts';
import { argumentsOf, askedInTime, CUT_OFF_WORDS, openingOf, unavailable, usageOf } from './ai-sdk.ts';
import type { HostedTool, Model, ModelAnswer, ModelPart, ModelRequest, ModelTool } from './port.ts';
import type { ProviderConfig } from './provider.ts';
import type { Subject } from './refusal.ts';
import {
  argumentsIn,
  createResponsesApi,
  isAnswerId,
  mcpList,
  mcpTool,
  type ResponsesApi,
  toldCalls,
} from './responses-api.ts';

const MOST_ID_CHARACTERS = 200;

/** The name of this adapter's provider data. */
const KEPT = 'responses';

export function createResponsesModel(name: string, config: ProviderConfig, egress: Egress): Model {
  const api = createResponsesApi(name, config, egress);
  let breach: { readonly error: CountersignError; readonly conversation: string } | undefined;
  return askedInTime(name, config, async (request, subject) => {
    if (breach !== undefined)
      // Only the run whose step made the call is told what was called.
      throw breach.conversation === hashOf(request.messages) ? breach.error : breached(subject);
    try {
      return await ask(api, subject, config, request);
    } catch (error) {
      if (error instanceof CountersignError && error.code === 'HOSTED_UNSUPPORTED')
        breach = { error, conversation: hashOf(request.messages) };
      throw error;
    }
  });
}

async function ask(
  api: ResponsesApi,
  subject: Subject,
  { maxOutputTokens, storesAnswers = false }: Pick<ProviderConfig, 'maxOutputTokens' | 'storesAnswers'>,
  request: ModelRequest,
): Promise<ModelAnswer> {
  const { messages, tools, output, signal } = request;
  const { items, response } = await api({
    body: {
      input: inputOf(messages, tools, output),
      tools: statedTools(tools),
      include: ['reasoning.encrypted_content'],
      // The least that the API takes.
      max_output_tokens: Math.max(16, maxOutputTokens),
      ...(storesAnswers ? { store: true } : {}),
    },
    signal,
    onEvent: (event) => assertAsks(event, subject),
  });
  if (response === undefined) throw unavailable(subject, 'broke off its answer');
  // A provider that keeps nothing, as an organisation may have it, says so.
  const isStored = storesAnswers && response['store'] !== false;
  return answerOf(items, response, request, isStored ? textOf(response['id']) : undefined);
}

function assertAsks(event: JsonObject, subject: Subject): void {
  const [called] = toldCalls(event);
  if (called !== undefined) throw ungated(called, subject);
}

function ungated(item: JsonObject, { name, provider }: Subject): CountersignError {
  const [tool, server] = [item['name'], item['server_label']].map((text) => JSON.stringify(visible(textOf(text))));
  const called = textOf(item['name']) === '' ? 'a hosted tool' : `tool ${tool} of server ${server}`;
  const message = `Model ${name} (${provider}) has called ${called} without asking, though it must ask before every call. Find out at the server what was done, and do not use this provider for hosted tools.`;
  return new CountersignError('HOSTED_UNSUPPORTED', message);
}

function breached({ name, provider }: Subject): CountersignError {
  const message = `Model ${name} (${provider}) has called a hosted tool without asking before, so this worker asks it for nothing with hosted tools. Do not use this provider for hosted tools: set asksBeforeCalls: false for the model, or execute: local for its servers.`;
  return new CountersignError('HOSTED_UNSUPPORTED', message);
}

function statedTools(tools: readonly ModelTool[]): JsonObject[] {
  const local = tools.flatMap(({ hosted, name, description, inputSchema }) =>
    hosted === undefined
      ? [{ type: 'function', name, parameters: inputSchema, strict: false, ...defined({ description }) }]
      : [],
  );
  const hosted = [...byServer(tools)].map(([server, [first, ...others]]) => {
    const { serverUrl: url, connectorId } = first.hosted;
    const allowed = [first, ...others].map((tool) => tool.hosted.tool);
    return mcpTool({ server, url, connectorId }, { allowed_tools: allowed });
  });
  return [...local, ...hosted];
}

type Hosted = ModelTool & { readonly hosted: HostedTool };

function byServer(tools: readonly ModelTool[]): Map<string, [Hosted, ...Hosted[]]> {
  const servers = new Map<string, [Hosted, ...Hosted[]]>();
  for (const { hosted, ...tool } of tools) {
    if (hosted === undefined) continue;
    const known = servers.get(hosted.server);
    if (known === undefined) servers.set(hosted.server, [{ ...tool, hosted }]);
    else known.push({ ...tool, hosted });
  }
  return servers;
}

export function inputOf(
  transcript: readonly Message[],
  tools: readonly ModelTool[],
  output?: JsonObject,
): JsonObject[] {
  const { system, said } = openingOf(transcript, output);
  const lists = [...byServer(tools)].map(([server, offered]) =>
    mcpList(
      server,
      offered.map(({ hosted, description, inputSchema }) => ({
        name: hosted.tool,
        input_schema: inputSchema,
        ...defined({ description }),
      })),
    ),
  );
  const names = new Map(tools.map((tool) => [tool.name, tool]));
  return [...system, ...lists, ...said.flatMap((message, index) => itemsOf(message, said[index + 1], names))];
}

function itemsOf(message: Message, next: Message | undefined, names: ReadonlyMap<string, ModelTool>): JsonObject[] {
  switch (message.role) {
    case 'system':
    case 'user':
      return message.text === '' ? [] : [{ role: 'user', content: message.text }];
    case 'assistant': {
      const results = next?.role === 'tool' ? next.results : [];
      return message.parts.flatMap((part) => assistantItems(part, results, names));
    }
    case 'tool':
      return message.results.flatMap(resultItems);
  }
}

function assistantItems(
  part: AssistantPart,
  results: readonly CallResult[],
  names: ReadonlyMap<string, ModelTool>,
): JsonObject[] {
  const kept = fieldsOf(part.provider?.[KEPT]);
  switch (part.type) {
    case 'reasoning':
      // Reasoning of another adapter cannot be read back.
      return kept['type'] === 'reasoning' ? [kept] : [];
    case 'text':
      return part.text === '' ? [] : [{ role: 'assistant', content: part.text, ...kept }];
    case 'call': {
      const result = results.find(({ callId }) => callId === part.callId);
      if (result === undefined) {
        const message = `The transcript has no result of call ${part.callId}.`;
        throw new CountersignError('INTERNAL', message, { callId: part.callId });
      }
      const { approvalRequestId, name } = part;
      const args = canonicalJson(part.arguments);
      if (approvalRequestId === undefined)
        return [{ type: 'function_call', call_id: wireId('call', part), name, arguments: args }];
      return [hostedItem(part, names.get(name)?.hosted, args, result)];
    }
  }
}

function hostedItem(
  part: Pick<CallResult, 'callId' | 'name'>,
  hosted: HostedTool | undefined,
  args: string,
  result: CallResult,
): JsonObject {
  // A tool that is not offered has its two names in one (`requested`).
  const [label = '', ...tool] = part.name.split('/');
  const said = { server_label: hosted?.server ?? label, name: hosted?.tool ?? tool.join('/'), arguments: args };
  if (result.approvalResponse?.approve !== true)
    return { type: 'mcp_approval_request', id: wireId('mcpr', part), ...said };
  const { text, isError } = resultOf(result);
  return {
    type: 'mcp_call',
    id: wireId('mcp', part),
    ...said,
    output: text,
    status: isError ? 'failed' : 'completed',
  };
}

function resultItems(result: CallResult): JsonObject[] {
  const { text } = resultOf(result);
  const { approvalResponse } = result;
  if (approvalResponse === undefined)
    return [{ type: 'function_call_output', call_id: wireId('call', result), output: text }];
  // A call that was made is told where it was proposed.
  if (approvalResponse.approve) return [];
  return [{ type: 'mcp_approval_response', approval_request_id: wireId('mcpr', result), approve: false, reason: text }];
}

/** Ids within one request. They are ours: a provider's may be empty, or come twice. */
function wireId(prefix: string, { callId }: { readonly callId: string }): string {
  return `${prefix}_${callId.replaceAll('.', '_')}`;
}

function answerOf(
  items: readonly JsonObject[],
  response: JsonObject,
  request: Pick<ModelRequest, 'messages' | 'tools'>,
  storedId: string | undefined,
): ModelAnswer {
  const reason = textOf(fieldsOf(response['incomplete_details'])['reason']);
  const refused = reason === 'content_filter';
  const parts = items
    .flatMap((item) => partsOf(item, request.tools, storedId))
    .filter(({ type }) => !(refused && type === 'call'));
  const usage = fieldsOf(response['usage']);
  const proposes = parts.some(({ type }) => type === 'call');
  // A refusal in words is whole, unless the answer was cut.
  const ended =
    refused || (reason === '' && items.some(refusesInWords))
      ? 'refused'
      : reason === 'max_output_tokens'
        ? 'length'
        : 'stop';
  return {
    parts,
    usage: usageOf({ inputTokens: usage['input_tokens'], outputTokens: usage['output_tokens'] }, request, parts),
    finish: proposes ? 'calls' : ended,
  };
}

function refusesInWords(item: JsonObject): boolean {
  return item['type'] === 'message' && objectsOf(item['content']).some(({ type }) => type === 'refusal');
}

/** States of a function call that was not complete when the answer ended. */
const CUT_OFF: readonly JsonValue[] = ['incomplete', 'in_progress'];

function partsOf(item: JsonObject, tools: readonly ModelTool[], storedId: string | undefined): ModelPart[] {
  switch (item['type']) {
    case 'reasoning': {
      const text = objectsOf(item['summary'])
        .map((part) => textOf(part['text']))
        .join('');
      const { id = '', summary = [], encrypted_content: sealed } = item;
      const echo = { type: 'reasoning', id, summary, ...defined({ encrypted_content: sealed }) };
      // An item that cannot be kept is not sent again.
      if (nestsTooDeeply(echo) || holdsEndlessNumber(echo)) return text === '' ? [] : [{ type: 'reasoning', text }];
      return [{ type: 'reasoning', text, provider: { [KEPT]: echo } }];
    }
    case 'message': {
      const said = objectsOf(item['content']).map((part) => textOf(part['text']) || textOf(part['refusal']));
      const { phase } = item;
      const echo = typeof phase === 'string' ? { provider: { [KEPT]: { phase } } } : {};
      return said.flatMap((text) => (text === '' ? [] : [{ type: 'text', text, ...echo }]));
    }
    case 'function_call':
      return [
        {
          type: 'call',
          providerCallId: textOf(item['call_id']),
          name: textOf(item['name']),
          ...(CUT_OFF.includes(item['status'] ?? null)
            ? { arguments: {}, malformed: CUT_OFF_WORDS }
            : parsedArguments(item)),
        },
      ];
    case 'mcp_approval_request':
      return [requested(item, tools, storedId)];
    default:
      return [];
  }
}

function requested(item: JsonObject, tools: readonly ModelTool[], storedId: string | undefined): ModelPart {
  const [server, tool] = [textOf(item['server_label']), textOf(item['name'])];
  const offered = tools.find(({ hosted }) => hosted?.server === server && hosted.tool === tool);
  const id = textOf(item['id']);
  return {
    type: 'call',
    providerCallId: '',
    // The judge refuses a name that is not offered.
    name: offered?.name ?? `${server}/${tool}`,
    ...parsedArguments(item),
    ...namelessness(id, storedId),
    approvalRequestId: id.slice(0, MOST_ID_CHARACTERS),
    ...(storedId !== undefined && isAnswerId(storedId) ? { storedAnswerId: storedId } : {}),
  };
}

/** Without ids there is nothing to approve: the call is refused, and the provider is told so. */
function namelessness(
  id: string,
  storedId: string | undefined,
): { readonly arguments: JsonObject; readonly malformed: string } | undefined {
  if (id === '' || id.length > MOST_ID_CHARACTERS)
    return { arguments: {}, malformed: `the request for approval has no id of 1 to ${MOST_ID_CHARACTERS} characters` };
  if (storedId === undefined || isAnswerId(storedId)) return undefined;
  return { arguments: {}, malformed: 'the answer that asks for it was stored, and has no id by which it can be found' };
}

function parsedArguments(item: JsonObject): ReturnType<typeof argumentsOf> {
  const given = argumentsIn(item);
  if (given === undefined || typeof given === 'string')
    return { arguments: {}, malformed: 'the arguments are not a JSON object in a text' };
  return argumentsOf(given, textOf(item['arguments']));
}
