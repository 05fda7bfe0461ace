/**
 * Reads what a server asks of people: instead of giving a result (MCP 2026-07-28 `input_required`), or on the open
 * connection of a call (MCP 2025-11-25, client/elicitation).
 *
 * It owns which requests are understood, and their bounds. It does not own what becomes of the call (`mcp-server.ts`),
 * nor the wait for people (`state-seal.ts`, `legacy-2025/legacy-calls.ts`).
 * 1. All or nothing: people are asked only what they can be shown whole. Sampling and roots are never declared, and not
 *    answered.
 * 2. Everything but the state is scrubbed, also of the state itself, before it is hashed, bounded or kept (INV-S1).
 * 3. A URL is https, names its host in ASCII, and holds no user name or password. It is never opened here.
 */
import { defined } from '../../contracts/defined.ts';
import type { FormField, InputRequest, InputRequests } from '../../contracts/schemas/input.ts';
import { LONGEST_TEXT } from '../../domain/request/input.ts';
import { type Fields, isFields } from '../../domain/shapes/inputs.ts';
import { byteLength, canonicalJson, hashOf } from '../../domain/text/canonical.ts';
import { ENDLESS_NUMBER, holdsEndlessNumber, nestsTooDeeply } from '../kit/json.ts';

/** Per answer. */
const MOST_REQUESTS = 16;
/** Per form. */
const MOST_FIELDS = 50;
/** Per field. */
const MOST_OPTIONS = 200;
/** The next four are in UTF-16 units. */
const LONGEST_NAME = 100;
const LONGEST_MESSAGE = 4_000;
const LONGEST_LABEL = 1_000;
const LONGEST_URL = 2_048;
/** Bytes of all requests of one answer, as canonical JSON; they are carried as long as somebody is asked. */
const MOST_REQUEST_BYTES = 32_768;
/** Characters of JSON above which requests are not searched: masks may shorten what was sent. */
const MOST_SEARCHED = 8 * MOST_REQUEST_BYTES;
/** Bytes in UTF-8; the sealed form is a third longer. */
const MOST_STATE_BYTES = 32_768;

const TOO_LARGE = `its requests have more than ${MOST_REQUEST_BYTES} bytes`;

export type Asked =
  | { readonly kind: 'asked'; readonly requests: InputRequests; readonly state?: string }
  /** Why it cannot be put before people, in our own words. */
  | { readonly kind: 'not-understood'; readonly reason: string };

/** Thrown and caught in this file: the first part that is not understood ends the reading. */
class NotUnderstood extends Error {}

/** @param scrubbed removes the connection's secrets and the given text from a JSON value */
export function readAsked(raw: Fields, scrubbed: (value: unknown, state: string | undefined) => unknown): Asked {
  try {
    const { inputRequests = {}, requestState: state } = raw;
    if (state !== undefined) {
      if (typeof state !== 'string') throw new NotUnderstood('its state is no text');
      if (byteLength(state) > MOST_STATE_BYTES)
        throw new NotUnderstood(`its state has more than ${MOST_STATE_BYTES} bytes`);
      // A lone surrogate has no UTF-8 form, and would not come back unchanged.
      if (/\p{Surrogate}/u.test(state)) throw new NotUnderstood('its state is no legal Unicode');
    }
    if (nestsTooDeeply(inputRequests)) throw new NotUnderstood('its requests nest too deeply');
    if (holdsEndlessNumber(inputRequests)) throw new NotUnderstood(`its requests hold ${ENDLESS_NUMBER}`);
    if (JSON.stringify(inputRequests).length > MOST_SEARCHED) throw new NotUnderstood(TOO_LARGE);
    const given = scrubbed(inputRequests, state);
    if (!isFields(given)) throw new NotUnderstood('its requests are no object');
    const entries = Object.entries(given);
    if (entries.length === 0 && state === undefined) throw new NotUnderstood('it asks for nothing');
    if (entries.length > MOST_REQUESTS) throw new NotUnderstood(`it makes more than ${MOST_REQUESTS} requests at once`);
    bounded(given);
    const requests = Object.fromEntries(entries.map(([key, request]) => [nameOf(key), requestOf(key, request)]));
    // The kept form names each option and may be longer than the received one.
    bounded(requests);
    return { kind: 'asked', requests, ...defined({ state }) };
  } catch (error) {
    if (error instanceof NotUnderstood) return { kind: 'not-understood', reason: error.message };
    throw error;
  }
}

function bounded(requests: unknown): void {
  if (byteLength(canonicalJson(requests)) > MOST_REQUEST_BYTES) throw new NotUnderstood(TOO_LARGE);
}

function requestOf(key: string, request: unknown): InputRequest {
  if (!isFields(request) || !isFields(request['params']))
    throw new NotUnderstood('one of its requests has no parameters');
  const { method, params } = request;
  if (method !== 'elicitation/create')
    throw new NotUnderstood(
      method === 'sampling/createMessage' || method === 'roots/list'
        ? `it asks for ${method}, which this service does not offer`
        : 'one of its requests is of no known kind',
    );
  const hash = hashOf({ key, request });
  const message = textOf(params['message'], LONGEST_MESSAGE, 'the message of a request');
  const { mode = 'form' } = params;
  if (mode === 'url') return { kind: 'url', message, ...addressOf(params['url']), hash };
  if (mode !== 'form') throw new NotUnderstood('one of its requests is neither a form nor a URL');
  return { kind: 'form', message, ...formOf(params['requestedSchema']), hash };
}

function addressOf(given: unknown): { readonly url: string; readonly host: string } {
  const text = textOf(given, LONGEST_URL, 'the URL of a request');
  const url = URL.canParse(text) ? new URL(text) : undefined;
  if (url?.protocol !== 'https:' || url.username !== '' || url.password !== '')
    throw new NotUnderstood('it asks to open a URL that is not https, or holds a user name or password');
  return { url: url.href, host: url.host };
}

function formOf(schema: unknown): { readonly fields: Record<string, FormField>; readonly required: string[] } {
  const { type, properties, required = [] } = isFields(schema) ? schema : {};
  if (type !== 'object' || !isFields(properties)) throw new NotUnderstood('the schema of a form is no object');
  const names = Object.keys(properties);
  if (names.length > MOST_FIELDS) throw new NotUnderstood(`a form has more than ${MOST_FIELDS} fields`);
  if (!isTexts(required) || !required.every((name) => Object.hasOwn(properties, name)))
    throw new NotUnderstood('a form requires a field that it does not have');
  const fields = Object.entries(properties).map(([name, field]) => [nameOf(name), fieldOf(field)] as const);
  return { fields: Object.fromEntries(fields), required: [...new Set(required)] };
}

/** Keywords beyond MCP's flat schemas are no reason to refuse: the server checks what it gets by its own rules. */
function fieldOf(field: unknown): FormField {
  if (!isFields(field)) throw new NotUnderstood('a field of a form is no schema');
  const { type, default: preset } = field;
  const label = fieldsIn(field, ['title', 'description'], (text, key) =>
    textOf(text, LONGEST_LABEL, `a ${key} in a form`),
  );
  if (type === 'boolean') return { type, ...label, ...(typeof preset === 'boolean' ? { default: preset } : {}) };
  if (type === 'number' || type === 'integer') {
    const bounds = fieldsIn(field, ['minimum', 'maximum'], numberOf);
    return { type, ...label, ...bounds, ...(typeof preset === 'number' ? { default: preset } : {}) };
  }
  if (type === 'string') {
    const options = optionsOf(field['enum'], field['enumNames']) ?? titledOptionsOf(field['oneOf']);
    const filled = typeof preset === 'string' ? { default: preset } : {};
    if (options !== undefined) return { type: 'choice', ...label, options, ...filled };
    const format = FORMATS.find((each) => each === field['format']);
    return {
      type: 'text',
      ...label,
      ...fieldsIn(field, ['minLength', 'maxLength'], countOf),
      ...defined({ format }),
      ...filled,
    };
  }
  if (type === 'array' && isFields(field['items'])) {
    const { items } = field;
    const options = optionsOf(items['enum']) ?? titledOptionsOf(items['anyOf']);
    const bounds = fieldsIn(field, ['minItems', 'maxItems'], countOf);
    if (options !== undefined)
      return { type: 'choices', ...label, options, ...bounds, ...(isTexts(preset) ? { default: [...preset] } : {}) };
  }
  throw new NotUnderstood('a field of a form is of a kind that forms do not have');
}

type Options = Extract<FormField, { type: 'choice' }>['options'];

function optionsOf(values: unknown, titles?: unknown): Options | undefined {
  if (!isTexts(values)) return undefined;
  const names = isTexts(titles) ? titles : [];
  return boundedOptions(values.map((value, index) => ({ value, title: names[index] })));
}

function titledOptionsOf(given: unknown): Options | undefined {
  if (!Array.isArray(given)) return undefined;
  // Sound: nothing is assumed of an item until it is checked.
  const options = (given as readonly unknown[]).map((option) => {
    const { const: value, title } = isFields(option) ? option : {};
    if (typeof value !== 'string') throw new NotUnderstood('an option of a form has no text');
    return { value, title: typeof title === 'string' ? title : undefined };
  });
  return boundedOptions(options);
}

function boundedOptions(options: readonly { readonly value: string; readonly title: string | undefined }[]): Options {
  if (options.length === 0 || options.length > MOST_OPTIONS)
    throw new NotUnderstood(`a field of a form has no options, or more than ${MOST_OPTIONS}`);
  return options.map(({ value, title }) => ({
    value: textOf(value, LONGEST_LABEL, 'an option of a form'),
    ...defined({ title: title === undefined ? undefined : textOf(title, LONGEST_LABEL, 'an option of a form') }),
  }));
}

function nameOf(name: string): string {
  if (name === '' || name === '__proto__') throw new NotUnderstood('a request or field has no usable name');
  return textOf(name, LONGEST_NAME, 'the name of a request or field');
}

function textOf(text: unknown, most: number, what: string): string {
  if (typeof text !== 'string') throw new NotUnderstood(`${what} is no text`);
  if (text.length > most) throw new NotUnderstood(`${what} has more than ${most} characters`);
  return text;
}

/** Reads those of the fields that a schema has. */
function fieldsIn<Key extends string, Value>(
  field: Fields,
  keys: readonly Key[],
  read: (value: unknown, key: Key) => Value,
): Partial<Record<Key, Value>> {
  const found = keys.filter((key) => field[key] !== undefined).map((key) => [key, read(field[key], key)] as const);
  // Sound: the entries have keys of this type alone.
  return Object.fromEntries(found) as Partial<Record<Key, Value>>;
}

function numberOf(value: unknown, key: string): number {
  if (typeof value !== 'number') throw new NotUnderstood(`a ${key} in a form is no number`);
  return value;
}

/** A bound above every possible answer means the same as the highest possible one, which is shown. */
function countOf(value: unknown, key: string): number {
  if (!Number.isSafeInteger(value) || Number(value) < 0) throw new NotUnderstood(`a ${key} in a form is no count`);
  return Math.min(Number(value), LONGEST_TEXT);
}

const FORMATS = ['email', 'uri', 'date', 'date-time'] as const;

function isTexts(value: unknown): value is readonly string[] {
  return Array.isArray(value) && value.every((item) => typeof item === 'string');
}
