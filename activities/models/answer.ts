/** Turns one step of the AI SDK into an answer of the model port. */
import type { FinishReason, StepResult, ToolSet } from 'ai';
import type { JsonObject } from '../../contracts/schemas/json.ts';
import type { Usage } from '../../contracts/schemas/transcript.ts';
import type { ModelAnswer, ModelPart } from './port.ts';
import { MAX_NESTING, nestsTooDeeply } from '../kit/nesting.ts';
import { jsonOf } from '../kit/plain-json.ts';

/** The fields of a step that are read. */
export type Step = Pick<StepResult<ToolSet>, 'content' | 'finishReason' | 'rawFinishReason' | 'usage'>;
type Content = Step['content'][number];

/**
 * False for a stream that broke off or reported an error; neither is an answer. The provider packages end a broken
 * stream as `other` without the provider's own word, and a reported error as `error`.
 */
export function isComplete({ finishReason, rawFinishReason }: Step): boolean {
  return finishReason !== 'error' && !(finishReason === 'other' && rawFinishReason === undefined);
}

export function answerOf(step: Step): ModelAnswer {
  const refused = step.finishReason === 'content-filter';
  // A refusal may come after calls were streamed; calls that were taken back are not proposed.
  const parts = step.content.flatMap(partOf).filter(({ type }) => !(refused && type === 'call'));
  const proposes = parts.some(({ type }) => type === 'call');
  return { parts, usage: usageOf(step.usage), finish: proposes ? 'calls' : finishOf(step.finishReason) };
}

function finishOf(reason: FinishReason): ModelAnswer['finish'] {
  if (reason === 'content-filter') return 'refused';
  // Some servers say `tool_calls` without a call, or have their own word for a stop.
  return reason === 'length' ? 'length' : 'stop';
}

/** Drops sources, files and the SDK's own notes on calls: they are no parts of the conversation. */
function partOf(content: Content): ModelPart[] {
  switch (content.type) {
    case 'text':
    case 'reasoning': {
      const echo = providerOf(content.providerMetadata);
      return content.text === '' && echo.provider === undefined
        ? []
        : [{ type: content.type, text: content.text, ...echo }];
    }
    case 'tool-call':
      return [
        {
          type: 'call',
          providerCallId: content.toolCallId,
          name: content.toolName,
          ...argumentsOf(content.input),
          ...providerOf(content.providerMetadata),
        },
      ];
    case 'source':
    case 'file':
    case 'tool-approval-request':
    case 'tool-result':
    case 'tool-error':
      return [];
  }
}

function providerOf(metadata: object | undefined): { provider?: JsonObject } {
  // Sound: provider metadata is an object of objects, and stays one as JSON.
  return metadata === undefined || nestsTooDeeply(metadata) ? {} : { provider: jsonOf(metadata) as JsonObject };
}

/** The SDK returns unparsable arguments as the text it got; a tool without parameters is called with no text at all. */
function argumentsOf(input: unknown): { arguments: JsonObject; malformed?: string } {
  if (typeof input === 'string') {
    return input.trim() === ''
      ? { arguments: {} }
      : { arguments: {}, malformed: 'the arguments are not a JSON object' };
  }
  if (input === null || typeof input !== 'object' || Array.isArray(input)) {
    const kind = input === null ? 'null' : Array.isArray(input) ? 'an array' : `a ${typeof input}`;
    return { arguments: {}, malformed: `the arguments are ${kind}, not a JSON object` };
  }
  // Checked before any recursive walk, which would overflow the stack and look like a broken connection.
  if (nestsTooDeeply(input))
    return { arguments: {}, malformed: `the arguments nest deeper than ${MAX_NESTING} levels` };
  // Sound: parsed from JSON, and neither null nor an array.
  return { arguments: jsonOf(input) as JsonObject };
}

function usageOf({ inputTokens, outputTokens }: Step['usage']): Usage {
  return { inputTokens: count(inputTokens), outputTokens: count(outputTokens) };
}

function count(tokens: number | undefined): number {
  return tokens === undefined || !Number.isFinite(tokens) ? 0 : Math.max(0, Math.round(tokens));
}
