/**
 * Describes a model's answer for tests, whatever protocol carries it. Each provider's dialect is a file
 * beside this one.
 */
import type { ModelConfig } from '../../../contracts/schemas/config.ts';
import type { JsonObject, JsonValue } from '../../../contracts/schemas/json.ts';

export type SaidPart =
  /** `seal` holds what only the provider can read (encrypted content, signature); it must come back unchanged. */
  | { readonly type: 'reasoning'; readonly text: string; readonly seal: string }
  | { readonly type: 'text'; readonly text: string }
  /** `json` holds the arguments as the model wrote them. */
  | { readonly type: 'call'; readonly id: string; readonly name: string; readonly json: string };

export interface Said {
  readonly parts: readonly SaidPart[];
  readonly inputTokens: number;
  readonly outputTokens: number;
  readonly finish: 'stop' | 'length' | 'refused';
}

/** The earlier conversation, as a request contains it. */
export interface Echo {
  /** Ids of calls and results, in order. */
  readonly calls: readonly string[];
  readonly results: readonly { readonly id: string; readonly text: string; readonly isError?: boolean }[];
  readonly reasoning: readonly { readonly text: string; readonly seal?: string }[];
  readonly texts: readonly string[];
  readonly system: string;
}

export interface Dialect {
  readonly provider: Exclude<ModelConfig['provider'], 'scripted'>;
  /** The provider's name of a reasoning model. */
  readonly model: string;
  readonly schema: string;
  readonly path: string;
  readonly keyHeader: string;
  readonly key: (apiKey: string) => string;
  /** True if the protocol has a place for `seal`, and for the failure of a result. */
  readonly seals: boolean;
  readonly flagsErrors: boolean;
  /** Events of a streamed answer, in order; the last ones end it. */
  events(said: Said): readonly string[];
  /** Makes an error inside a stream that has begun. */
  errorEvent(type: string, message: string): string;
  errorBody(type: string, code: string, message: string): string;
  echo(body: JsonObject): Echo;
}

export function said(parts: readonly SaidPart[], more: Partial<Omit<Said, 'parts'>> = {}): Said {
  return { inputTokens: 21, outputTokens: 7, finish: 'stop', ...more, parts };
}

export function sse(event: string | undefined, data: JsonValue | string): string {
  const text = typeof data === 'string' ? data : JSON.stringify(data);
  return `${event === undefined ? '' : `event: ${event}\n`}data: ${text}\n\n`;
}

/** Splits a text, so that its reader must join the pieces. */
export function halves(text: string): string[] {
  const middle = Math.ceil(text.length / 2);
  return [text.slice(0, middle), text.slice(middle)].filter((piece) => piece !== '');
}

export function objects(value: JsonValue | undefined): readonly JsonObject[] {
  return Array.isArray(value) ? value.map((item: JsonValue) => object(item)) : [];
}

export function object(value: JsonValue | undefined): JsonObject {
  // Sound: the checks exclude every JSON value but an object.
  return value !== null && typeof value === 'object' && !Array.isArray(value) ? (value as JsonObject) : {};
}

export function stringOf(value: JsonValue | undefined): string {
  return typeof value === 'string' ? value : '';
}
