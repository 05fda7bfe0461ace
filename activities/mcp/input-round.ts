/**
 * Reads what a server asks instead of giving a result (MCP 2026-07-28 `input_required`), and seals the server's state
 * for the wait.
 *
 * It owns which requests are understood, their bounds, and when the state is in clear: in this process, for one call
 * (INV-S1). It does not own the sealing (`state-seal.ts`), nor what becomes of the call (`activities/mcp/tool-call.ts`).
 * 1. A state that does not open is not asked about. The call begins anew with people's answers, as it does when the
 *    server itself no longer knows its state.
 * 2. In trust mode `signed` the state is sealed together with the questions, even if the server gave no state: nothing
 *    else proves which questions people have answered. A pause that an earlier release has kept lacks that proof, so
 *    its call begins anew. In mode `temporal` it is kept like earlier releases keep it, because such a release may take
 *    the call up if both run.
 * 3. All or nothing: people are asked only what they can be shown whole. Sampling and roots are never declared, and not
 *    answered.
 * 4. Everything but the state is scrubbed, also of the state itself, before it is hashed, bounded or kept (INV-S1).
 * 5. A URL is https, names its host in ASCII, and holds no user name or password. It is never opened here.
 *
 * One file, because a question and the state that comes with it are read, bounded and sealed together.
 */
import { ProtocolError, ProtocolErrorCode, type RequestId } from '@modelcontextprotocol/client';
import { defined } from '../../contracts/defined.ts';
import type { ErrorCode } from '../../contracts/errors.ts';
import type { TokenEvidence } from '../../contracts/schemas/call.ts';
import type { FormField, InputRequest, InputRequests, InputResponse } from '../../contracts/schemas/input.ts';
import type { TrustConfig } from '../../contracts/schemas/trust.ts';
import type { InputLeg } from '../../contracts/wire/proofs.ts';
import type { DispatchInput, DispatchResult } from '../../contracts/wire/tools.ts';
import { answersTo, LONGEST_TEXT, MOST_ROUNDS } from '../../domain/request/input.ts';
import { answersOf } from '../../domain/request/provision.ts';
import { type Fields, isFields } from '../../domain/shapes/messages.ts';
import { byteLength, canonicalJson, hashOf } from '../../domain/text/canonical.ts';
import type { QuestionMacs } from '../gate/legacy-2025/open-question.ts';
import { nestsTooDeeply } from '../kit/json.ts';
import { refusalIn } from './classify-failure.ts';
import { ENDLESS_NUMBER, holdsEndlessNumber } from './definitions.ts';
import type { AskPeople, CallEnding, ToolCall } from './port.ts';
import type { Session } from './session.ts';
import type { LegBinding, StateBinding, StateSeal } from './state-seal.ts';

const NO_KEY =
  'servers may ask people for input only where this worker can seal their state: configure a key in grants.keys';
const EARLIER_RELEASE = 'the run was started by a release that cannot wait for input';
/** Prefixes of the sealed text: a state may be empty, and a server may give none. */
const STATE = '+';
const NO_STATE = '-';

/** Says whether the server may ask in this call, and what people have answered so far. */
export async function inputOf(
  dispatch: DispatchInput,
  seal: StateSeal | undefined,
  mode: TrustConfig['mode'],
): Promise<Pick<ToolCall, 'input' | 'noInput'>> {
  const { input, attempt } = dispatch;
  if (input === undefined) return { noInput: EARLIER_RELEASE };
  if (seal === undefined) return { noInput: NO_KEY };
  const { leg } = input;
  const answers = answersOf(input.provided);
  const begins = { answers, dispatch: `${leg?.round ?? 0}.${attempt}` };
  if (leg === undefined) return { input: begins };
  const opened = await openedLeg(leg, dispatch, seal, mode);
  if (opened === undefined) return { input: { ...begins, begunAnew: true } };
  const used = [...leg.used, ...Object.values(leg.requests).map(({ hash }) => hash)];
  const { responses } = answersTo(leg.requests, answers);
  return { input: { ...begins, leg: { responses, used, ...opened } } };
}

/**
 * Returns the server's state; undefined if no worker of the zone was asked these questions, or if that cannot be told.
 */
async function openedLeg(
  leg: InputLeg,
  dispatch: DispatchInput,
  seal: StateSeal,
  mode: TrustConfig['mode'],
): Promise<{ readonly state?: string } | undefined> {
  const sealed = leg.state && (await seal.open(leg.state, legBindingOf(dispatch, leg)));
  if (sealed !== undefined) return sealed.startsWith(STATE) ? { state: sealed.slice(STATE.length) } : {};
  if (mode === 'signed') return undefined;
  // Earlier releases kept a missing state like this.
  if (leg.state === undefined) return {};
  const state = await seal.open(leg.state, bindingOf(dispatch, leg.round));
  return state === undefined ? undefined : { state };
}

interface Sealing {
  readonly seal?: StateSeal | undefined;
  readonly macs?: QuestionMacs | undefined;
  readonly mode: TrustConfig['mode'];
}

export async function pausedBy(
  { requests, state, used }: Extract<CallEnding, { kind: 'input' }>,
  dispatch: DispatchInput,
  { seal, macs, mode }: Sealing,
  token: TokenEvidence,
): Promise<DispatchResult> {
  const round = (dispatch.input?.leg?.round ?? 0) + 1;
  if (round > MOST_ROUNDS) {
    const why = `Tool "${dispatch.target.tool}" of server "${dispatch.server.name}" asked for input more than ${MOST_ROUNDS} times, and has not said whether anything was done. Find out at the server before anything is done again.`;
    return { kind: 'ended', token, outcome: { kind: 'unknown', code: 'OUTCOME_UNKNOWN', message: why } };
  }
  // Servers are told that they may ask only if there is a key.
  if (seal === undefined || macs === undefined) throw new Error('a server has asked what nothing can seal');
  const asked = { kind: 'input', round, requests: macs.marked(requests, dispatch), used, token } as const;
  if (mode === 'signed') {
    const binding = legBindingOf(dispatch, { round, requests, used });
    return { ...asked, state: await seal.seal(state === undefined ? NO_STATE : `${STATE}${state}`, binding) };
  }
  return state === undefined ? asked : { ...asked, state: await seal.seal(state, bindingOf(dispatch, round)) };
}

function legBindingOf(dispatch: DispatchInput, { round, requests, used }: Omit<InputLeg, 'state'>): LegBinding {
  const hashes = Object.fromEntries(Object.entries(requests).map(([key, { hash }]) => [key, hash]));
  const { server, target, arguments: args } = dispatch;
  return {
    use: 'leg',
    ...bindingOf(dispatch, round),
    server: server.name,
    tool: target.tool,
    argumentsHash: hashOf(args),
    asked: hashOf({ requests: hashes, used }),
  };
}

function bindingOf({ run, callId, target }: DispatchInput, round: number): StateBinding {
  return {
    namespace: run.namespace,
    workflowId: run.workflowId,
    callId,
    round,
    serverUrl: target.serverUrl,
  };
}

// Reading the requests of one answer, within these bounds.

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
/** Bytes in UTF-8; the sealed form is a third longer. */
const MOST_STATE_BYTES = 32_768;

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
    if (state !== undefined && typeof state !== 'string') throw new NotUnderstood('its state is no text');
    if (state !== undefined && byteLength(state) > MOST_STATE_BYTES)
      throw new NotUnderstood(`its state has more than ${MOST_STATE_BYTES} bytes`);
    // A lone surrogate has no UTF-8 form, and would not come back unchanged.
    if (state !== undefined && /\p{Surrogate}/u.test(state)) throw new NotUnderstood('its state is no legal Unicode');
    if (nestsTooDeeply(inputRequests)) throw new NotUnderstood('its requests nest too deeply');
    if (holdsEndlessNumber(inputRequests)) throw new NotUnderstood(`its requests hold ${ENDLESS_NUMBER}`);
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
  if (byteLength(canonicalJson(requests)) > MOST_REQUEST_BYTES)
    throw new NotUnderstood(`its requests have more than ${MOST_REQUEST_BYTES} bytes`);
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

/**
 * Keywords that MCP's flat schemas do not have are no reason to refuse: the server checks what it gets by its own
 * rules.
 */
function fieldOf(field: unknown): FormField {
  if (!isFields(field)) throw new NotUnderstood('a field of a form is no schema');
  const { type, default: preset } = field;
  const label = { ...labelled(field, 'title'), ...labelled(field, 'description') };
  if (type === 'boolean') return { type, ...label, ...(typeof preset === 'boolean' ? { default: preset } : {}) };
  if (type === 'number' || type === 'integer') {
    const bounds = { ...numbered(field, 'minimum'), ...numbered(field, 'maximum') };
    return { type, ...label, ...bounds, ...(typeof preset === 'number' ? { default: preset } : {}) };
  }
  if (type === 'string') {
    const options = optionsOf(field['enum'], field['enumNames']) ?? titledOptionsOf(field['oneOf']);
    const filled = typeof preset === 'string' ? { default: preset } : {};
    if (options !== undefined) return { type: 'choice', ...label, options, ...filled };
    return {
      type: 'text',
      ...label,
      ...counted(field, 'minLength'),
      ...counted(field, 'maxLength'),
      ...formatOf(field),
      ...filled,
    };
  }
  if (type === 'array' && isFields(field['items'])) {
    const { items } = field;
    const options = optionsOf(items['enum']) ?? titledOptionsOf(items['anyOf']);
    const bounds = { ...counted(field, 'minItems'), ...counted(field, 'maxItems') };
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
    ...(title === undefined ? {} : { title: textOf(title, LONGEST_LABEL, 'an option of a form') }),
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

function labelled<K extends 'title' | 'description'>(field: Fields, key: K): Partial<Record<K, string>> {
  const value = field[key];
  // Sound: a computed key of a literal type makes a record of that key.
  return value === undefined
    ? {}
    : ({ [key]: textOf(value, LONGEST_LABEL, `a ${key} in a form`) } as Record<K, string>);
}

function numbered<K extends 'minimum' | 'maximum'>(field: Fields, key: K): Partial<Record<K, number>> {
  const value = field[key];
  if (value === undefined) return {};
  if (typeof value !== 'number') throw new NotUnderstood(`a ${key} in a form is no number`);
  // Sound: as above.
  return { [key]: value } as Record<K, number>;
}

type Count = 'minLength' | 'maxLength' | 'minItems' | 'maxItems';

function counted<K extends Count>(field: Fields, key: K): Partial<Record<K, number>> {
  const value = field[key];
  if (value === undefined) return {};
  if (!Number.isSafeInteger(value) || Number(value) < 0) throw new NotUnderstood(`a ${key} in a form is no count`);
  // A bound above every possible answer means the same as the highest possible one, which is shown. Sound: as above.
  return { [key]: Math.min(Number(value), LONGEST_TEXT) } as Record<K, number>;
}

const FORMATS = ['email', 'uri', 'date', 'date-time'] as const;

function formatOf({ format }: Fields): { readonly format?: (typeof FORMATS)[number] } {
  const known = FORMATS.find((each) => each === format);
  return known === undefined ? {} : { format: known };
}

function isTexts(value: unknown): value is readonly string[] {
  return Array.isArray(value) && value.every((item) => typeof item === 'string');
}

// Answers the questions that a server of MCP 2025-11-25 or before asks in the middle of a call, on the call's own
// stream (client/elicitation). A question ends with the connection, so the call is held open for it (docs/adr/0040).
//
// It owns which requests are answered, and the error for the others. It does not own how people are asked, nor for how
// long (`activities/gate/legacy-2025/open-question.ts`).
// 1. Questions are answered only if the call may ask people, which its session was told. Sampling and roots are never
//    declared, and not answered.
// 2. People are asked only questions that are understood whole, scrubbed of the secrets that the server was given
//    (INV-S1): `activities/mcp/input-round.ts`.
// 3. The party that asked people is told whether the server was given the answer.
// 4. A question that the server takes back is no longer waited for, and the time of the call goes on.
// 5. A question that a stream brings twice, for instance after it was resumed, is one question.

const METHOD = 'elicitation/create';
/** A request holds one question, which has no name of its own. */
export const QUESTION = 'question';

/** Questions of one call that are remembered; beyond them a repeat is a new question. */
const MOST_REMEMBERED = 100;

export interface Questions {
  readonly people: AskPeople;
  /** Removes secrets from a JSON value. */
  readonly scrubbed: (value: unknown) => unknown;
}

/** @param signal aborted once the call is over */
export function answerQuestions(
  { client, transport }: Pick<Session, 'client' | 'transport'>,
  { people, scrubbed }: Questions,
  deadline: CallDeadline,
  signal: AbortSignal,
): void {
  const known = new Map<string, { readonly answer: Promise<InputResponse>; readonly takenBack: AbortController }>();
  const saying = new Map<RequestId, (code: ErrorCode | undefined) => void>();
  transport.onSaid = (id, failure) => {
    saying.get(id)?.(failure && (refusalIn(failure.error, {}, () => '')?.code ?? 'TOOL_UNAVAILABLE'));
    saying.delete(id);
  };
  const ask = async (id: RequestId, requests: InputRequests, takenBack: AbortSignal): Promise<InputResponse> => {
    const goOn = deadline.hold();
    const said = new Promise<ErrorCode | undefined>((resolve) => saying.set(id, resolve));
    try {
      return await people(requests, AbortSignal.any([signal, takenBack]), said);
    } finally {
      goOn();
    }
  };
  // A handler for the method would not do: the SDK takes it only from clients that declare the capability to every
  // server.
  client.fallbackRequestHandler = async ({ method, params = {} }, { mcpReq }) => {
    if (method !== METHOD) throw new ProtocolError(ProtocolErrorCode.MethodNotFound, 'Method not found');
    const asked = readAsked({ inputRequests: { [QUESTION]: { method, params } } }, scrubbed);
    if (asked.kind === 'not-understood') throw new ProtocolError(ProtocolErrorCode.InvalidParams, asked.reason);
    const key = hashOf({ id: mcpReq.id, asked: asked.requests });
    const takenBack = new AbortController();
    const one = known.get(key) ?? { answer: ask(mcpReq.id, asked.requests, takenBack.signal), takenBack };
    if (known.size < MOST_REMEMBERED) known.set(key, one);
    // `notifications/cancelled` takes a question back; the SDK hears it and sends no answer. For a repeated question
    // the last one counts.
    const takeBack = (): void => one.takenBack.abort();
    mcpReq.signal.addEventListener('abort', takeBack, { once: true });
    if (mcpReq.signal.aborted) takeBack();
    return { ...(await one.answer) };
  };
}

/** The time that a call has, which stands still while people are asked. */
export interface CallDeadline {
  /**
   * Stops the time from now on.
   * @returns a function that lets the time run again, once every holder has called its own
   */
  hold(): () => void;
  /** How long the time has stood still so far, in ms. */
  heldMs(): number;
  stop(): void;
}
