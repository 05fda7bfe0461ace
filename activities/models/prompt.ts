/**
 * Turns the run's conversation and its pinned tools into what the AI SDK takes.
 *
 * 1. Opaque provider data goes back with the part it came with (reasoning items, signatures).
 * 2. Every call of an assistant message has exactly one result in the next message. A transcript that breaks this is
 *    refused here, since providers answer it with an error nobody can act on.
 * 3. Ids sent to the provider are unique in the conversation, whatever the provider made of them.
 * 4. A server's description of its tool is data: a model reads no character that a person could not see. Characters
 *    that show nothing, or turn text around, stand as `\u{…}`; lines and tabs stay.
 * 5. Only `description` and `title` are changed, at any depth. Property names and the values of `enum`, `const` and
 *    `default` stay as the server stated them, since they say which arguments are valid.
 */
import type { AssistantModelMessage, ModelMessage, SystemModelMessage, ToolModelMessage } from 'ai';
import { CountersignError } from '../../contracts/errors.ts';
import type { JsonObject, JsonValue } from '../../contracts/schemas/json.ts';
import type { AssistantPart, CallResult, Message } from '../../contracts/schemas/transcript.ts';
import type { OfferedTool } from '../../domain/run/toolset.ts';
import { visible } from '../../domain/text/escape.ts';
import { resultOf } from '../../domain/views/model-text.ts';
import { jsonOf } from '../kit/json.ts';
import type { ModelTool } from './port.ts';

export interface Prompt {
  readonly system: SystemModelMessage[];
  readonly messages: ModelMessage[];
}

type Options = NonNullable<AssistantModelMessage['providerOptions']>;
type AssistantContent = Exclude<AssistantModelMessage['content'], string>;

/**
 * @param output JSON Schema of the final answer; described in words, since not every provider can combine it with tools
 */
export function promptOf(transcript: readonly Message[], output?: JsonObject): Prompt {
  const opening = transcript.findIndex(({ role }) => role !== 'system');
  const head = opening === -1 ? transcript : transcript.slice(0, opening);
  const system = head.flatMap((message) =>
    message.role === 'system' && message.text !== '' ? [systemMessage(message.text)] : [],
  );
  if (output !== undefined) system.push(systemMessage(outputInstruction(output)));
  const ids = new EchoedIds();
  const messages = transcript.slice(head.length).flatMap((message) => modelMessage(message, ids));
  ids.assertAnswered();
  return { system, messages };
}

function systemMessage(content: string): SystemModelMessage {
  return { role: 'system', content };
}

function outputInstruction(schema: JsonObject): string {
  return `When you give your final answer, reply with one JSON value and nothing else. It must fit this JSON Schema: ${JSON.stringify(schema)}`;
}

function modelMessage(message: Message, ids: EchoedIds): ModelMessage[] {
  if (message.role !== 'tool') ids.assertAnswered();
  switch (message.role) {
    // Only some providers know system messages between turns; all understand a user's.
    case 'system':
    case 'user':
      return message.text === '' ? [] : [{ role: 'user', content: message.text }];
    case 'assistant': {
      const content = message.parts.filter(isSaid).map((part) => assistantPart(part, ids));
      return content.length === 0 ? [] : [{ role: 'assistant', content }];
    }
    case 'tool': {
      const content = message.results.map((result) => toolResult(result, ids));
      ids.assertAnswered();
      return content.length === 0 ? [] : [{ role: 'tool', content }];
    }
  }
}

/** Drops empty texts, which providers refuse, unless provider data makes the text an item of its own. */
function isSaid(part: AssistantPart): boolean {
  return part.type === 'call' || part.text !== '' || part.provider !== undefined;
}

function assistantPart(part: AssistantPart, ids: EchoedIds): AssistantContent[number] {
  const echo = part.provider === undefined ? {} : { providerOptions: providerOptions(part.provider) };
  if (part.type !== 'call') return { type: part.type, text: part.text, ...echo };
  return {
    type: 'tool-call',
    toolCallId: ids.propose(part),
    toolName: part.name,
    input: jsonOf(part.arguments),
    ...echo,
  };
}

/** Images and audio stay in the artifact store: the model reads a reference to them, for now. */
function toolResult(result: CallResult, ids: EchoedIds): ToolModelMessage['content'][number] {
  const { text, isError } = resultOf(result);
  return {
    type: 'tool-result',
    toolCallId: ids.answer(result),
    toolName: result.name,
    output: { type: isError ? 'error-text' : 'text', value: text },
  };
}

function providerOptions(provider: JsonObject): Options {
  // Sound: `provider` is the `providerMetadata` of an earlier answer, which has this shape; the AI SDK checks it again.
  const options = jsonOf(provider) as Options;
  // Gemini behind the OpenAI-compatible API: the provider package writes the signature under its own name and reads it
  // under `google`.
  const signature = options['compatible']?.['thoughtSignature'];
  return signature === undefined ? options : { ...options, google: { thoughtSignature: signature } };
}

/** Makes the provider's call ids unique, and pairs them with results by our ids. */
class EchoedIds {
  readonly #used = new Set<string>();
  readonly #open = new Map<string, string>();

  propose({ callId, providerCallId }: { callId: string; providerCallId: string }): string {
    // Some servers give no ids, or count from zero in every answer. Providers allow letters, digits, `_` and `-` only.
    let id = providerCallId;
    if (id === '' || this.#used.has(id)) id = callId.replaceAll('.', '_');
    this.#used.add(id);
    this.#open.set(callId, id);
    return id;
  }

  answer({ callId }: CallResult): string {
    const id = this.#open.get(callId);
    if (id === undefined)
      throw new CountersignError(
        'INTERNAL',
        `The transcript has a result of call ${callId}, which was not proposed in the turn before it.`,
        { callId },
      );
    this.#open.delete(callId);
    return id;
  }

  assertAnswered(): void {
    const [callId] = this.#open.keys();
    if (callId !== undefined)
      throw new CountersignError('INTERNAL', `The transcript has no result of call ${callId}.`, { callId });
  }
}

/** A toolset stays in memory while it is in use, and is offered anew with every step. */
const made = new WeakMap<OfferedTool, ModelTool>();

export function modelTool(tool: OfferedTool): ModelTool {
  const known = made.get(tool);
  if (known !== undefined) return known;
  const { modelName, server, definition } = tool;
  const description = definition.description ?? definition.title;
  const offered = {
    name: modelName,
    qualifiedName: `${server}/${definition.name}`,
    ...(description === undefined ? {} : { description: words(description) }),
    // Sound: an object stays an object.
    inputSchema: inert(definition.inputSchema) as JsonObject,
  };
  made.set(tool, offered);
  return offered;
}

function words(text: string): string {
  return text.replaceAll('\r\n', '\n').replaceAll(/[^\n\t]+/g, visible);
}

const VALUES: ReadonlySet<string> = new Set(['enum', 'const', 'default']);

/** The value nests no deeper than discovery accepts (`activities/kit/json.ts`), so recursion is safe. */
function inert(value: JsonValue): JsonValue {
  if (Array.isArray(value)) return value.map(inert);
  if (value === null || typeof value !== 'object') return value;
  return Object.fromEntries(
    Object.entries(value).map(([key, inner]) => {
      if ((key === 'description' || key === 'title') && typeof inner === 'string') return [key, words(inner)];
      return [key, VALUES.has(key) ? inner : inert(inner)];
    }),
  );
}
