/**
 * Questions that a server asks while its call is held open, put before people by the run (docs/adr/0040).
 *
 * Owns how long, how often and one after the other. Does not own what a question is (`activities/mcp/server-questions.ts`), nor whether an answer
 * counts (`open-answer.ts`).
 * 1. The server hears an answer that was proven, or `cancel`: never a yes of this worker's own.
 * 2. By this worker's own clock all questions of a dispatch together have the time that the operator gave, and are at most as many as
 *    a call may ask. A run that is silent is waited for as long as for people.
 * 3. A run asks one question of a call at a time, each under a number of its own: the next one closes what the server has taken back.
 * 4. What is wrong is said to the log once in a dispatch, however often a server brings it about.
 */
import { createHmac, timingSafeEqual } from 'node:crypto';
import { setTimeout as pause } from 'node:timers/promises';
import type { ErrorCode } from '../../../contracts/errors.ts';
import type { SealingKey } from '../../../contracts/schemas/config.ts';
import { type InputRequest, type InputRequests, InputResponse } from '../../../contracts/schemas/input.ts';
import type { HeldPlace, HeldQuestions, HeldTold, HeldWord } from '../../../contracts/wire/legacy-2025.ts';
import type { DispatchInput } from '../../../contracts/wire/tools.ts';
import { MOST_ROUNDS } from '../../../domain/request/input.ts';
import { canonicalJson, hashOf } from '../../../domain/text/canonical.ts';
import type { AskPeople } from '../../mcp/port.ts';
import { derivedKeys } from '../../mcp/state-seal.ts';
import { type HeldRun, NotHeld } from './held-run.ts';

/** People are slow, and the server waits already. */
const FIRST_LOOK_MS = 1_000;
const NEXT_LOOK_MS = 2_000;
/** Whoever has not answered by then is looked for less often; within `GRACE_MS`, so that no answer comes too late. */
const SOON_MS = 120_000;
const LATER_LOOK_MS = 5_000;

/** A run that is silent for so long is told to the log; its worker is starting again, or Temporal is. */
const SILENT_MS = 60_000;

/** Beyond the operator's time, so that an answer which the run took in its last moment is not lost. */
export const GRACE_MS = 10_000;

const CANCEL: InputResponse = { action: 'cancel' };
const FORBIDDEN: ErrorCode = 'DISPATCH_FORBIDDEN';

export interface HeldAskingParts {
  readonly run: HeldRun;
  /** Temporal's word on who scheduled the dispatch. */
  readonly scheduler: { readonly workflowId: string; readonly runId: string };
  readonly call: { readonly callId: string; readonly attempt: number };
  /** Of all questions together. */
  readonly seconds: number;
  /** The answer to give, or why it does not count. */
  readonly proven: (
    word: Extract<HeldWord, { kind: 'answered' }>,
    asked: HeldQuestions,
    askedAt: number,
  ) => Promise<InputResponse | { readonly code: string } | undefined>;
  /** To the log of the worker: no text of a server or a person. */
  readonly warn: (message: string, meta: Readonly<Record<string, unknown>>) => void;
  /** Shorter, for tests. */
  readonly times?: {
    readonly lookMs: number;
    readonly soonMs?: number;
    readonly laterMs?: number;
    readonly silentMs: number;
    readonly graceMs: number;
  };
}

export interface HeldPeople {
  readonly ask: AskPeople;
  /** What the server was told so far to what the run has put before people, in that order. */
  readonly told: () => readonly HeldTold[];
}

export function createHeldAsking(parts: HeldAskingParts): HeldPeople {
  const asking = new HeldAsking(parts);
  return { ask: async (...asked) => await asking.ask(...asked), told: () => asking.told };
}

type Mutable<T> = { -readonly [Key in keyof T]: T[Key] };

/** What the server is told, and why where it is not what people have said. */
interface Given {
  readonly response: InputResponse;
  readonly code?: string;
}

class HeldAsking {
  readonly #parts: HeldAskingParts;
  readonly #times: Readonly<Record<'firstMs' | 'nextMs' | 'soonMs' | 'laterMs' | 'silentMs', number>>;
  #leftMs: number;
  #received = 0;
  #round = 0;
  readonly told: Mutable<HeldTold>[] = [];
  readonly #warned = new Set<string>();
  #turn: Promise<unknown> = Promise.resolve();

  constructor(parts: HeldAskingParts) {
    const { times, seconds } = parts;
    this.#parts = parts;
    this.#times = {
      firstMs: times?.lookMs ?? FIRST_LOOK_MS,
      nextMs: times?.lookMs ?? NEXT_LOOK_MS,
      soonMs: times?.soonMs ?? SOON_MS,
      laterMs: times?.laterMs ?? LATER_LOOK_MS,
      silentMs: times?.silentMs ?? SILENT_MS,
    };
    this.#leftMs = seconds * 1_000 + (times?.graceMs ?? GRACE_MS);
  }

  async ask(...asked: Parameters<AskPeople>): Promise<InputResponse> {
    this.#received += 1;
    if (this.#received > MOST_ROUNDS) {
      this.#warn(`The server asks more than ${MOST_ROUNDS} questions in one call; nobody is asked the others.`);
      return CANCEL;
    }
    const turn = this.#turn.then(async () => await this.#inTurn(...asked));
    this.#turn = turn;
    return await turn;
  }

  async #inTurn(...[requests, signal, said]: Parameters<AskPeople>): Promise<InputResponse> {
    const grace = this.#parts.times?.graceMs ?? GRACE_MS;
    if (this.#leftMs <= grace || signal.aborted) return CANCEL;
    const began = performance.now();
    const own = AbortSignal.timeout(Math.ceil(this.#leftMs));
    try {
      const given = await this.#asked(requests, AbortSignal.any([signal, own]));
      // Taken back while the answer was looked at: the server is told nothing.
      if (given === undefined || signal.aborted) return CANCEL;
      this.#tells(given, said);
      return given.response;
    } catch (error) {
      // Nobody waits for the answer any more: nothing is told.
      if (signal.aborted) return CANCEL;
      // The time is over.
      if (!own.aborted)
        this.#warn('A question of a server could not be put before people; it is told that nobody answers.', error);
      this.#tells({ response: CANCEL }, said);
      return CANCEL;
    } finally {
      // A timer may fire a moment before the clock says so.
      this.#leftMs = own.aborted ? 0 : this.#leftMs - (performance.now() - began);
    }
  }

  #tells({ response, code }: Given, said: Promise<ErrorCode | undefined> | undefined): void {
    const told: Mutable<HeldTold> = {
      round: this.#round,
      told: response.action,
      ...(code === undefined ? {} : { code }),
    };
    this.told.push(told);
    void said?.then((failed) => {
      if (failed === undefined) return;
      told.code = failed;
      this.#warn('An answer could not be given to the server that had asked.', undefined, failed);
    });
  }

  /** Undefined where the run has put it before nobody. */
  async #asked(requests: HeldQuestions['requests'], signal: AbortSignal): Promise<Given | undefined> {
    const { run, scheduler, call, proven } = this.#parts;
    const { workflowId, runId } = scheduler;
    // Whatever the run says: it may have taken a question whose answer was lost, and one that it refuses has its number all the same.
    this.#round += 1;
    const place: HeldPlace = { ...call, round: this.#round };
    const asked: HeldQuestions = { ...place, requests };
    const askedAt = Date.now();
    const ack = await this.#reaching(signal, async (each) => await run.ask(workflowId, runId, asked, each));
    if (ack === undefined) return undefined;
    const since = performance.now();
    for (let ms = this.#times.firstMs; ; ms = this.#nextLook(since)) {
      await pause(ms, undefined, { signal });
      const word = await this.#reaching(signal, async (each) => await run.word(workflowId, runId, place, each));
      if (word === undefined || word.kind === 'closed') return { response: CANCEL };
      // What proves it may not be readable for a moment, and people have answered.
      if (word.kind === 'answered') {
        const given = await this.#reaching(signal, async () => await proven(word, asked, askedAt));
        return answerIn(given) ?? { response: CANCEL, code: FORBIDDEN };
      }
    }
  }

  #nextLook(since: number): number {
    return performance.now() - since < this.#times.soonMs ? this.#times.nextMs : this.#times.laterMs;
  }

  /** Undefined where the run refuses; while it is silent it is asked again. @throws where `signal` says that it is over */
  async #reaching<T>(signal: AbortSignal, act: (signal: AbortSignal) => Promise<T>): Promise<T | undefined> {
    const since = performance.now();
    for (;;) {
      signal.throwIfAborted();
      try {
        return await act(signal);
      } catch (error) {
        signal.throwIfAborted();
        if (error instanceof NotHeld) {
          this.#warn('The run puts a question of a server before nobody; it is told that nobody answers.', error.cause);
          return undefined;
        }
        if (performance.now() - since >= this.#times.silentMs)
          this.#warn('The run does not say whether people have answered; it is asked on.', error);
      }
      await pause(this.#times.nextMs, undefined, { signal });
    }
  }

  #warn(message: string, error?: unknown, code?: ErrorCode): void {
    if (this.#warned.has(message)) return;
    this.#warned.add(message);
    const { callId, attempt } = this.#parts.call;
    // Its name alone: what it says may quote what was asked.
    const name = error instanceof Error ? { error: error.name } : {};
    this.#parts.warn(message, { callId, attempt, ...name, ...(code === undefined ? {} : { code }) });
  }
}

/** As MCP has it, whatever the run said. */
function answerIn(given: InputResponse | { readonly code: string } | undefined): Given | undefined {
  if (given !== undefined && 'code' in given) return { response: CANCEL, code: given.code };
  const response = InputResponse.safeParse(given).data;
  return response && { response };
}

// That a server has asked a question in the middle of a call, by the word of a worker of its zone.
//
// Owns the key and what the word is of. Does not own what becomes of an answer to a question without it (`activities/gate/statement-checks.ts`).
// 1. Only a worker of the zone can give it: the key is derived from the zone's private key (`grants.keys`), for this alone. Whoever
//    ends a dispatch in its worker's place can show people a text, and no answer to that goes to a server (INV-G1).
// 2. It is of the whole question as people are shown it, of the hash by which an answer is matched with what a server asks, and of
//    the call, its arguments and server. The hash itself needs no key: it stays the same when keys rotate, and an answer with it.
// 3. The first key gives it, all prove it. Where the key is gone, the question is asked anew.

const PURPOSE = 'countersign/question/v1';

/** In which it was asked. */
type AskedCall = Pick<DispatchInput, 'run' | 'callId' | 'target' | 'server' | 'arguments'>;

export interface QuestionMacs {
  marked(requests: InputRequests, call: AskedCall): InputRequests;
  /** Was a worker of the zone asked each of them, in this call and by this server? */
  areOurs(requests: InputRequests, call: AskedCall): boolean;
}

/** @param baseDirectory of the configuration file. The files are those that `loadPrivateKeys` has checked. */
export async function loadQuestionMacs(
  keys: readonly SealingKey[],
  baseDirectory: string,
): Promise<QuestionMacs | undefined> {
  return createQuestionMacs([...(await derivedKeys(keys, baseDirectory, PURPOSE)).values()]);
}

/** Undefined without a key: then no server is told that it may ask. */
export function createQuestionMacs(keys: readonly Uint8Array[]): QuestionMacs | undefined {
  const [newest] = keys;
  if (newest === undefined) return undefined;
  return {
    marked: (requests, call) =>
      Object.fromEntries(
        Object.entries(requests).map(([name, request]) => [
          name,
          { ...request, mac: macOf(newest, dataOf(call, name, request)).toString('hex') },
        ]),
      ),
    areOurs: (requests, call) =>
      Object.entries(requests).every(([name, request]) => {
        const given = Buffer.from(request.mac ?? '', 'hex');
        const data = dataOf(call, name, request);
        return keys.some((key) => isEqual(macOf(key, data), given));
      }),
  };
}

function macOf(key: Uint8Array, data: string): Buffer {
  return createHmac('sha256', key).update(data).digest();
}

function isEqual(one: Buffer, other: Buffer): boolean {
  return one.length === other.length && timingSafeEqual(one, other);
}

function dataOf(
  { run, callId, target, server, arguments: args }: AskedCall,
  name: string,
  { mac: _, ...shown }: InputRequest,
): string {
  return canonicalJson({
    purpose: PURPOSE,
    namespace: run.namespace,
    workflowId: run.workflowId,
    callId,
    server: server.name,
    serverUrl: target.serverUrl,
    tool: target.tool,
    // After a reset another call may have its id.
    argumentsHash: hashOf(args),
    name,
    request: shown,
  });
}
