/**
 * Has the run put a server's questions to people while the call's connection is held open (docs/adr/0040).
 *
 * It does not own what a question is (`activities/mcp/input-round.ts`), nor whether an answer counts (`open-answer.ts`,
 * `activities/gate/statement.ts`).
 * 1. The server hears an answer that was proven, or `cancel`: never a yes of this worker's own.
 * 2. All questions of a dispatch share the time that the operator gave, by this worker's own clock. Their number is at
 *    most what a call may ask. A silent run is waited for as long as people are.
 * 3. A run asks one question of a call at a time, each under its own number; the next one closes one that the server
 *    has taken back.
 * 4. A fault is logged once in a dispatch, however often a server causes it.
 * 5. Only a worker of the zone can make a question's MAC: its key is derived from the zone's private key
 *    (`grants.keys`), for this purpose alone. Ending a dispatch in its worker's place can show people a text, but no
 *    answer to it reaches a server (INV-G1).
 * 6. The MAC covers the whole question as people see it, with its hash, and the call, its arguments and server.
 * 7. The first key makes the MAC, and all keys prove it. If the key is gone, the question is asked anew.
 */
import { createHmac, timingSafeEqual } from 'node:crypto';
import { setTimeout as pause } from 'node:timers/promises';
import {
  type Client,
  QueryNotRegisteredError,
  QueryRejectedError,
  WorkflowNotFoundError,
  WorkflowUpdateFailedError,
} from '@temporalio/client';
import { defined } from '../../../contracts/defined.ts';
import type { ErrorCode } from '../../../contracts/errors.ts';
import { QUERIES, UPDATES } from '../../../contracts/names.ts';
import type { PrivateKeyFile } from '../../../contracts/schemas/config.ts';
import { type InputRequest, type InputRequests, InputResponse } from '../../../contracts/schemas/input.ts';
import type { HeldAck, HeldPlace, HeldQuestions, HeldTold, HeldWord } from '../../../contracts/wire/legacy-2025.ts';
import type { DispatchInput } from '../../../contracts/wire/tools.ts';
import { MOST_ROUNDS } from '../../../domain/request/input.ts';
import { canonicalJson, hashOf } from '../../../domain/text/canonical.ts';
import type { AskPeople } from '../../mcp/port.ts';
import { derivedKeys } from '../../mcp/state-seal.ts';
import { deadlineIn } from '../../kit/time-limit.ts';

/** Pause between two looks for an answer: within `GRACE_MS`, so that none comes too late. */
const LOOK_MS = 2_000;
/** A run that is silent for so long is logged. */
const SILENT_MS = 60_000;
/** Time beyond the operator's, so that an answer which the run took in its last moment is not lost. */
export const GRACE_MS = 10_000;

const CANCEL: InputResponse = { action: 'cancel' };
const FORBIDDEN: ErrorCode = 'DISPATCH_FORBIDDEN';

export interface HeldAskingParts {
  readonly run: HeldRun;
  readonly scheduler: { readonly workflowId: string; readonly runId: string };
  readonly call: { readonly callId: string; readonly attempt: number };
  /** Time for all questions together. */
  readonly seconds: number;
  readonly proven: (
    word: Extract<HeldWord, { kind: 'answered' }>,
    asked: HeldQuestions,
    askedAt: number,
  ) => Promise<InputResponse | { readonly code: string } | undefined>;
  /** No text of a server or a person. */
  readonly warn: (message: string, meta: Readonly<Record<string, unknown>>) => void;
  /** Shorter times, for tests. */
  readonly times?: { readonly lookMs: number; readonly silentMs: number; readonly graceMs: number };
}

export interface HeldPeople {
  readonly ask: AskPeople;
  /** Answers that the server was told so far, in the order of its questions. */
  readonly told: readonly HeldTold[];
}

type Mutable<T> = { -readonly [Key in keyof T]: T[Key] };

/** With a code if people did not give it. */
interface Given {
  readonly response: InputResponse;
  readonly code?: string;
}

export class HeldAsking implements HeldPeople {
  readonly #parts: HeldAskingParts;
  readonly #times: NonNullable<HeldAskingParts['times']>;
  #leftMs: number;
  #received = 0;
  #round = 0;
  readonly told: Mutable<HeldTold>[] = [];
  readonly #warned = new Set<string>();
  #turn: Promise<unknown> = Promise.resolve();

  constructor(parts: HeldAskingParts) {
    this.#parts = parts;
    this.#times = parts.times ?? { lookMs: LOOK_MS, silentMs: SILENT_MS, graceMs: GRACE_MS };
    this.#leftMs = parts.seconds * 1_000 + this.#times.graceMs;
  }

  readonly ask: AskPeople = async (...asked) => {
    this.#received += 1;
    if (this.#received > MOST_ROUNDS) {
      this.#warn(`The server asks more than ${MOST_ROUNDS} questions in one call; nobody is asked the others.`);
      return CANCEL;
    }
    const turn = this.#turn.then(async () => await this.#inTurn(...asked));
    this.#turn = turn;
    return await turn;
  };

  async #inTurn(...[requests, signal, said]: Parameters<AskPeople>): Promise<InputResponse> {
    if (this.#leftMs <= this.#times.graceMs || signal.aborted) return CANCEL;
    const began = performance.now();
    const own = deadlineIn(Math.ceil(this.#leftMs));
    try {
      const given = await this.#asked(requests, AbortSignal.any([signal, own]));
      // The question was taken back while its answer was checked: the server is told nothing.
      if (given === undefined || signal.aborted) return CANCEL;
      this.#tells(given, said);
      return given.response;
    } catch (error) {
      // Nobody waits for the answer any more, so nothing is told.
      if (signal.aborted) return CANCEL;
      // The abort of `own` means that the time is over.
      if (!own.aborted)
        this.#warn('A question of a server could not be put before people; it is told that nobody answers.', error);
      this.#tells({ response: CANCEL }, said);
      return CANCEL;
    } finally {
      // A timer may fire a moment before the clock agrees.
      this.#leftMs = own.aborted ? 0 : this.#leftMs - (performance.now() - began);
    }
  }

  #tells({ response, code }: Given, said: Promise<ErrorCode | undefined> | undefined): void {
    const told: Mutable<HeldTold> = { round: this.#round, told: response.action, ...defined({ code }) };
    this.told.push(told);
    void said?.then((failed) => {
      if (failed === undefined) return;
      told.code = failed;
      this.#warn('An answer could not be given to the server that had asked.', undefined, failed);
    });
  }

  /** Asks one question; undefined if the run has put it to nobody. */
  async #asked(requests: HeldQuestions['requests'], signal: AbortSignal): Promise<Given | undefined> {
    const { run, scheduler, call, proven } = this.#parts;
    const { workflowId, runId } = scheduler;
    // The number is used up whatever the run replies: it may have taken a question whose acknowledgement was lost.
    this.#round += 1;
    const place: HeldPlace = { ...call, round: this.#round };
    const asked: HeldQuestions = { ...place, requests };
    const askedAt = Date.now();
    const ack = await this.#reaching(signal, async (each) => await run.ask(workflowId, runId, asked, each));
    if (ack === undefined) return undefined;
    for (;;) {
      await pause(this.#times.lookMs, undefined, { signal });
      const word = await this.#reaching(signal, async (each) => await run.word(workflowId, runId, place, each));
      if (word === undefined || word.kind === 'closed') return { response: CANCEL };
      // The proof may be unreadable for a moment although people have answered.
      if (word.kind === 'answered') {
        const given = await this.#reaching(signal, async () => await proven(word, asked, askedAt));
        return answerIn(given) ?? { response: CANCEL, code: FORBIDDEN };
      }
    }
  }

  /** Repeats a request while the run is silent, until `signal` throws; undefined if the run refuses. */
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
      await pause(this.#times.lookMs, undefined, { signal });
    }
  }

  #warn(message: string, error?: unknown, code?: ErrorCode): void {
    if (this.#warned.has(message)) return;
    this.#warned.add(message);
    const { callId, attempt } = this.#parts.call;
    // Only the name is logged: the message may quote what was asked.
    const name = error instanceof Error ? { error: error.name } : {};
    this.#parts.warn(message, { callId, attempt, ...name, ...defined({ code }) });
  }
}

/** Checks that the response has the form of MCP, whatever the run said. */
function answerIn(given: InputResponse | { readonly code: string } | undefined): Given | undefined {
  if (given !== undefined && 'code' in given) return { response: CANCEL, code: given.code };
  const response = InputResponse.safeParse(given).data;
  return response && { response };
}

const PURPOSE = 'countersign/question/v1';

type AskedCall = Pick<DispatchInput, 'run' | 'callId' | 'target' | 'server' | 'arguments'>;

/** Proves that a worker of the zone was asked a question by a server in the middle of a call. */
export interface QuestionMacs {
  marked(requests: InputRequests, call: AskedCall): InputRequests;
  /** Tells whether a worker of the zone was asked each of them, in this call and by this server. */
  areOurs(requests: InputRequests, call: AskedCall): boolean;
}

/** @param baseDirectory directory of the configuration file; `loadPrivateKeys` has checked the key files */
export async function loadQuestionMacs(
  keys: readonly PrivateKeyFile[],
  baseDirectory: string,
): Promise<QuestionMacs | undefined> {
  return createQuestionMacs([...(await derivedKeys(keys, baseDirectory, PURPOSE)).values()]);
}

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
    // After a reset another call may have the same id.
    argumentsHash: hashOf(args),
    name,
    request: shown,
  });
}

// Puts a server's question to the run of a dispatch: the question goes by update, the answer is read by query
// (docs/adr/0040).
//
// 1. It addresses one Temporal run id, which Temporal has named. A run that was reset or has continued as new answers
//    nothing else.
// 2. One question has one update id, so that it may be sent again if its acknowledgement was lost.

export interface HeldRun {
  /** @throws NotHeld if the run puts the question to nobody; any other error may pass */
  ask(workflowId: string, runId: string, questions: HeldQuestions, signal: AbortSignal): Promise<HeldAck>;
  /** @throws the same errors as `ask` */
  word(workflowId: string, runId: string, place: HeldPlace, signal: AbortSignal): Promise<HeldWord>;
}

/** Nobody is asked, and nobody will be. */
export class NotHeld extends Error {
  override readonly name = 'NotHeld';
}

const FINAL = [WorkflowUpdateFailedError, WorkflowNotFoundError, QueryNotRegisteredError, QueryRejectedError];
const DEADLINE_MS = 10_000;

export function createHeldRun(client: Pick<Client, 'workflow' | 'connection'>): HeldRun {
  const within = async <T>(signal: AbortSignal, act: () => Promise<T>): Promise<T> => {
    try {
      return await client.connection.withDeadline(
        Date.now() + DEADLINE_MS,
        // Each request has a signal of its own, because the connection never removes its listener from the signal that
        // it is given.
        async () => await client.connection.withAbortSignal(AbortSignal.any([signal]), act),
      );
    } catch (error) {
      if (FINAL.some((kind) => error instanceof kind)) throw new NotHeld('the run asks nobody', { cause: error });
      throw error;
    }
  };
  return {
    ask: async (workflowId, runId, questions, signal) => {
      const { callId, attempt, round } = questions;
      const updateId = `held/${callId}/${attempt}/${round}`;
      const run = client.workflow.getHandle(workflowId, runId);
      const ask = async (): Promise<HeldAck> =>
        await run.executeUpdate<HeldAck, [HeldQuestions]>(UPDATES.inputAsked, { args: [questions], updateId });
      return await within(signal, ask);
    },
    word: async (workflowId, runId, place, signal) => {
      const run = client.workflow.getHandle(workflowId, runId);
      return await within(signal, async () => await run.query<HeldWord, [HeldPlace]>(QUERIES.heldInput, place));
    },
  };
}
