/**
 * Maps a failure of a provider, or of the way to it, to a final code or to one that Temporal retries, and keeps the
 * provider's key out of what leaves the worker.
 *
 * 1. The message names the status and the provider's own words for the kind of error. Its sentence may quote the prompt
 *    or the key, and the caught error holds the whole request: neither is kept (INV-S1).
 * 2. The key is scrubbed from answers and errors (INV-S1): servers and proxies echo what they are sent.
 */
import { types } from 'node:util';
import {
  APICallError,
  InvalidArgumentError,
  InvalidPromptError,
  LoadAPIKeyError,
  MissingToolResultsError,
  UnsupportedFunctionalityError,
} from 'ai';
import { defined } from '../../contracts/defined.ts';
import { CountersignError, type ErrorFacts } from '../../contracts/errors.ts';
import type { Fields } from '../../domain/shapes/inputs.ts';
import { egressRefusalIn, ResponseTooLarge } from '../egress/fetch.ts';
import { fieldsOf, ownValue, parsedJson, textOf } from '../kit/json.ts';
import { causesOf, isFinalStatus, retryAfterOf } from '../kit/network.ts';
import { createScrubber } from '../scrubbing/scrubber.ts';
import { ResponsesRefusal } from './responses-api.ts';
import { NotStreamed } from './streamed.ts';

export interface Subject {
  readonly name: string;
  readonly provider: string;
}

const OUR_FAULTS = [
  InvalidPromptError,
  MissingToolResultsError,
  InvalidArgumentError,
  LoadAPIKeyError,
  UnsupportedFunctionalityError,
];

/**
 * HTTP statuses for an error inside a stream: of Anthropic's error types (Messages API, "Errors"), and of OpenAI's
 * error codes (openai-openapi: `ResponseErrorCode`, and those of its error guide).
 */
const STATUS_OF_WORD: Readonly<Record<string, number>> = {
  invalid_request_error: 400,
  authentication_error: 401,
  billing_error: 402,
  permission_error: 403,
  not_found_error: 404,
  request_too_large: 413,
  rate_limit_error: 429,
  api_error: 500,
  timeout_error: 504,
  overloaded_error: 529,
  invalid_prompt: 400,
  context_length_exceeded: 400,
  invalid_api_key: 401,
  model_not_found: 404,
  rate_limit_exceeded: 429,
  server_error: 500,
};

const ADVICE: Readonly<Record<string | number, string>> = {
  401: 'Check its apiKey.',
  403: 'Check what its apiKey may use.',
  404: 'Check its model and baseUrl.',
  413: 'The conversation is too large for the model.',
  context_length_exceeded: 'The conversation is too large for the model.',
};

export function refusalOf(error: unknown, subject: Subject): CountersignError {
  if (error instanceof NotStreamed) return notStreamed(error, subject);
  const forbidden = egressRefusalIn(error);
  if (forbidden !== undefined) return forbidden;
  const who = `Model ${subject.name} (${subject.provider})`;
  if (OUR_FAULTS.some((fault) => fault.isInstance(error))) {
    return new CountersignError('INTERNAL', `${who} could not be asked: ${wordOf(nameOf(error)) ?? 'unknown fault'}.`);
  }
  // It overflowed the stack or a limit: the same answer would fail the same way, and each one is paid for.
  if (nameOf(error) === 'RangeError' || error instanceof ResponseTooLarge) {
    const message = `${who} gave an answer that cannot be read: it nests too deeply or is too large.`;
    return new CountersignError('MODEL_OUTPUT_INVALID', message);
  }
  const report = reportOf(error);
  const { status, words, headers } = report;
  const facts = factsOf(report);
  const what = [status === undefined ? 'no complete answer came' : `HTTP ${status}`, ...words].join(', ');
  if (status !== undefined && isFinalStatus(status)) {
    const known = [...words, status].find((each) => Object.hasOwn(ADVICE, each)) ?? 0;
    const advice = ADVICE[known] ?? 'The same request would be rejected again.';
    return new CountersignError('MODEL_REJECTED', `${who} rejected the request: ${what}. ${advice}`, facts);
  }
  const retryAfterMs = retryAfterOf({ headers: new Headers(headers) });
  return new CountersignError('MODEL_UNAVAILABLE', `${who} is unavailable: ${what}. It is asked again.`, {
    ...facts,
    ...defined({ retryAfterMs }),
  });
}

function notStreamed({ body }: NotStreamed, subject: Subject): CountersignError {
  const who = `Model ${subject.name} (${subject.provider})`;
  // It may be that of a proxy, and go.
  if (body === undefined) {
    const message = `${who} gave a web page in place of an answer. Check its baseUrl. It is asked again.`;
    return new CountersignError('MODEL_UNAVAILABLE', message);
  }
  const { error } = body;
  if (isStated(error)) return refusalOf({ error }, subject);
  const message = `${who} gave its answer as one JSON document, though an event stream was asked for. Use a server that streams its answers, and check its baseUrl.`;
  return new CountersignError('MODEL_OUTPUT_INVALID', message);
}

function isStated(error: unknown): boolean {
  return (typeof error === 'object' && error !== null) || (typeof error === 'string' && error !== '');
}

interface Report {
  readonly status: number | undefined;
  readonly words: readonly string[];
  readonly headers: Readonly<Record<string, string>>;
}

function reportOf(error: unknown): Report {
  if (error instanceof ResponsesRefusal) {
    const { body, headers } = error;
    const status = error.status ?? statedStatus(body);
    return { status, words: providerWords(body), headers };
  }
  if (APICallError.isInstance(error)) {
    const { statusCode, responseHeaders: headers = {} } = error;
    const first = firstEventIn(error);
    if (first !== undefined) return { status: statedStatus(first) ?? statusCode, words: providerWords(first), headers };
    const words = statusCode === undefined ? networkWords(error) : providerWords(error.data);
    return { status: statusCode, words, headers };
  }
  // An error event inside a stream is a plain object; anything else is a broken connection or an unreadable answer.
  if (types.isNativeError(error)) return { status: undefined, words: networkWords(error), headers: {} };
  return { status: statedStatus(error), words: providerWords(error), headers: {} };
}

const MOST_BODY_CHARACTERS = 10_000;

/** Anthropic's package gives an error that begins a stream the status 500 or 529, and its text as body. */
function firstEventIn({ statusCode, data, responseBody }: APICallError): unknown {
  if ((statusCode !== 500 && statusCode !== 529) || data !== undefined) return undefined;
  if (responseBody === undefined || responseBody.length > MOST_BODY_CHARACTERS) return undefined;
  const event = fieldsOf(parsedJson(responseBody));
  return typeof event['type'] === 'string' ? event : undefined;
}

/** The status for which an error within a stream stands: worked out by OpenAI's package, or stated as a code (vLLM). */
function statedStatus(error: unknown): number | undefined {
  const { statusCode } = fieldsOf(error);
  if (typeof statusCode === 'number') return statusCode;
  const { type, code } = innerError(error);
  if (/^[45]\d\d$/.test(wordOf(code) ?? '')) return Number(code);
  return ownValue(STATUS_OF_WORD, textOf(type)) ?? ownValue(STATUS_OF_WORD, textOf(code));
}

function providerWords(data: unknown): string[] {
  const { type, code, param } = innerError(data);
  return [...new Set([type, code, param].map(wordOf).filter((word) => word !== undefined))];
}

/** OpenAI: `{error: {type, code, param}}`; Anthropic: `{error: {type}}`; in a stream the inner object alone. */
function innerError(data: unknown): Fields {
  const outer = fieldsOf(data);
  return typeof outer['error'] === 'object' ? fieldsOf(outer['error']) : outer;
}

function networkWords(error: unknown): string[] {
  const word = causesOf(error)
    .map(({ code }) => wordOf(code))
    .find((each) => each !== undefined);
  return word === undefined ? [] : [word];
}

function factsOf({ status, words, headers }: Report): ErrorFacts {
  const requestId = wordOf(headers['x-request-id'] ?? headers['request-id']);
  return defined({ status, providerError: words[0], requestId });
}

/** Returns an identifier, never a sentence: an identifier cannot quote a prompt. */
function wordOf(value: unknown): string | undefined {
  const text = typeof value === 'number' ? String(value) : value;
  return typeof text === 'string' && /^[A-Za-z0-9_.[\]-]{1,80}$/.test(text) ? text : undefined;
}

function nameOf(error: unknown): string | undefined {
  return types.isNativeError(error) ? error.name : undefined;
}

/** Shorter keys are placeholders of servers that check none (`EMPTY`, `ollama`); scrubbing them garbles answers. */
const SHORTEST_KEY = 8;

export type Scrub = <T>(value: T) => T;

/** Strings are made well-formed even without a key: canonical JSON has no lone surrogates (RFC 8785 §3.2.2.2). */
export function scrubberOf(apiKey: string | undefined): Scrub {
  const scrubber = createScrubber(apiKey === undefined || apiKey.length < SHORTEST_KEY ? [] : [apiKey]);
  // Sound: only the text of strings changes, never the shape.
  return <T>(value: T): T => scrubber.value(value) as T;
}
