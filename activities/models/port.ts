/**
 * The model port performs one model step: the conversation goes in and one assistant message comes out. It has no loop,
 * no tool execution, no retry.
 *
 * 1. A final refusal of the provider (4xx) throws `MODEL_REJECTED`. One that may pass (429, 5xx, network) throws
 *    `MODEL_UNAVAILABLE`, with `retryAfterMs` in its facts if the provider said so. Only Temporal retries.
 * 2. Opaque provider data of a part is returned as `provider` and given back unchanged in later steps.
 * 3. Aborting the signal ends the request.
 */
import type { JsonObject } from '../../contracts/schemas/json.ts';
import type { AssistantPart, Message, Usage } from '../../contracts/schemas/transcript.ts';

export interface ModelTool {
  /** The name the model sees. */
  readonly name: string;
  /** `server/tool` with original names, for scripted models. */
  readonly qualifiedName: string;
  readonly description?: string;
  readonly inputSchema: JsonObject;
  /** Set if the provider calls the tool's server itself, once it is told so. */
  readonly hosted?: HostedTool;
}

export interface HostedTool {
  readonly server: string;
  readonly serverUrl: string;
  readonly connectorId?: string;
  /** Original name. */
  readonly tool: string;
}

export interface ModelRequest {
  /** Number of the turn; the first is 1. */
  readonly turn: number;
  readonly messages: readonly Message[];
  readonly tools: readonly ModelTool[];
  /** JSON Schema of the final answer. */
  readonly output?: JsonObject;
  readonly signal: AbortSignal;
}

type CallPart = Extract<AssistantPart, { type: 'call' }>;

/** A part of the transcript, of which a call has no id of ours yet. */
export type ModelPart =
  | Exclude<AssistantPart, CallPart>
  | (Omit<CallPart, 'callId'> & {
      /** Why the arguments are no JSON object; `arguments` is then empty. */
      readonly malformed?: string;
    });

export interface ModelAnswer {
  readonly parts: readonly ModelPart[];
  readonly usage: Usage;
  readonly finish: 'stop' | 'calls' | 'length' | 'refused';
}

export interface Model {
  step(request: ModelRequest): Promise<ModelAnswer>;
}

export const PROVIDER_URLS = {
  openai: 'https://api.openai.com/v1',
  anthropic: 'https://api.anthropic.com/v1',
} as const;
