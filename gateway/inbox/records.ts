/**
 * Answers what people read of a run beside its requests: state, conversation, end, artifacts, and the ledger as a file.
 *
 * 1. Who is asked about single calls sees the words and these calls: no arguments of another call, no result, and so no
 *    artifact.
 * 2. An artifact is given only by a run whose conversation names it: a hash by itself opens nothing.
 */
import { WorkflowFailedError } from '@temporalio/client';
import type { Countersign } from '../../client/index.ts';
import { callAnswerIn } from '../../client/run/single-call.ts';
import type { ArtifactReader } from '../../client/ledger/ledger.ts';
import { defined } from '../../contracts/defined.ts';
import { CountersignError } from '../../contracts/errors.ts';
import type { MessagePage, RunEnd } from '../../contracts/schemas/http/records.ts';
import type { ArtifactRef } from '../../contracts/schemas/json.ts';
import type { LedgerLine } from '../../contracts/schemas/ledger.ts';
import type { RunState } from '../../contracts/schemas/run-state.ts';
import type { CallResult, Message } from '../../contracts/schemas/transcript.ts';
import { isSamePerson } from '../../domain/policy/approvers.ts';
import { seesRun } from '../../domain/request/onlooker.ts';
import type { Asker } from '../identity/person.ts';
import { OneAnswer } from '../cache/one-answer.ts';
import type { Opened } from '../projection/opened.ts';
import type { Reading } from './reading.ts';

const MOST_KEPT_BYTES = 33_554_432;
const PAGE = 200;
/** More than a run of 10,000 turns has. A workflow that only claims to be a run may have messages without an end. */
const MOST_MESSAGES = 100_000;
/** A run that does not name an artifact is not read again for it so soon. */
const MISSED_MS = 2_000;

/** The artifacts that a conversation names, by their hashes. */
interface Named {
  readonly refs: ReadonlyMap<string, ArtifactRef>;
  /** Messages that were read, of the execution with this Temporal run id. */
  readonly read: number;
  readonly execution: string;
}

export interface Artifact {
  readonly bytes: Uint8Array;
  readonly contentType: string;
}

interface Parts {
  readonly reading: Pick<Reading, 'seen' | 'requestsOf'>;
  readonly opened: Pick<Opened, 'state'>;
  readonly countersign: Countersign;
  readonly artifacts: ArtifactReader | undefined;
}

export class Records {
  readonly #parts: Parts;
  readonly #named: OneAnswer<Named>;

  constructor(parts: Parts, now: () => number = Date.now) {
    this.#parts = parts;
    this.#named = new OneAnswer(MOST_KEPT_BYTES, MISSED_MS, { now, since: 'answer' });
  }

  /** @throws CountersignError `RUN_NOT_FOUND` */
  async state(asker: Asker, runId: string): Promise<RunState> {
    const { reading, opened } = this.#parts;
    const { run } = await reading.seen(runId, asker);
    const state = await opened.state(runId);
    if (seesRun(run, asker) || (state.standing === undefined && state.tasks === undefined)) return state;
    return stateShareOf(state, asker, await this.#callsOf(runId, asker));
  }

  async #callsOf(runId: string, asker: Asker): Promise<ReadonlySet<string>> {
    return new Set((await this.#parts.reading.requestsOf(runId, asker)).map(({ request }) => request.callId));
  }

  /** @throws CountersignError `RUN_NOT_FOUND` */
  async messages(
    asker: Asker,
    runId: string,
    { from, most }: { readonly from: number; readonly most: number },
  ): Promise<MessagePage> {
    const { reading, countersign } = this.#parts;
    const { run } = await reading.seen(runId, asker);
    const messages = await countersign.run(runId).conversation({ from, most });
    const next = messages.length < most ? {} : { next: from + messages.length };
    if (seesRun(run, asker)) return { messages: [...messages], ...next };
    return { messages: [...shareOf(messages, await this.#callsOf(runId, asker))], ...next };
  }

  /** @throws CountersignError `ACTION_FORBIDDEN` for people who may see only some requests of the run */
  async end(asker: Asker, runId: string, waitSeconds: number): Promise<RunEnd> {
    const { run } = await this.#parts.reading.seen(runId, asker);
    if (!seesRun(run, asker)) {
      const message = `You are asked about calls of run ${runId}; its result is for ${run.initiator} and those who may see every run.`;
      throw new CountersignError('ACTION_FORBIDDEN', message, { runId });
    }
    try {
      const result = await this.#parts.countersign.run(runId).result({ deadlineMs: waitSeconds * 1_000 });
      return { ended: true, result };
    } catch (error) {
      if (!(error instanceof CountersignError)) throw error;
      if (error.code === 'RESULT_UNCERTAIN') return { ended: false };
      // Any other error is of the way to the run.
      if (!(error.cause instanceof WorkflowFailedError)) throw error;
      return { ended: true, failure: { code: error.code, message: error.message } };
    }
  }

  /** Yields the whole ledger, line by line. @throws CountersignError `RUN_NOT_FOUND` */
  async export(asker: Asker, runId: string): Promise<AsyncGenerator<LedgerLine>> {
    await this.#parts.reading.seen(runId, asker);
    return this.#parts.countersign.run(runId).ledgerLines();
  }

  /** @throws CountersignError `RUN_NOT_FOUND`, `ARTIFACT_UNKNOWN`, `ARTIFACT_MISSING` */
  async artifact(asker: Asker, runId: string, sha256: string): Promise<Artifact> {
    const { run } = await this.#parts.reading.seen(runId, asker);
    const ref = seesRun(run, asker) ? await this.#refIn(runId, sha256) : undefined;
    if (ref === undefined) {
      const message = `Run ${runId} names no artifact ${sha256} that you may see.`;
      throw new CountersignError('ARTIFACT_UNKNOWN', message, { runId });
    }
    const { artifacts } = this.#parts;
    if (artifacts === undefined)
      throw new CountersignError('ARTIFACT_MISSING', 'This gateway has no access to the artifact store.', { runId });
    return { bytes: await artifacts.get(ref), contentType: ref.contentType };
  }

  async #refIn(runId: string, sha256: string): Promise<ArtifactRef | undefined> {
    const freshMs = (named: Named | undefined): number =>
      named?.refs.has(sha256) === true ? Number.POSITIVE_INFINITY : MISSED_MS;
    const named = await this.#named.get(runId, async (before) => await this.#readOn(runId, before), { freshMs });
    return named.refs.get(sha256);
  }

  /**
   * A conversation only grows while its execution goes on, so what was read of it is not read again. The next execution
   * may have been reset.
   */
  async #readOn(runId: string, known: Named | undefined): Promise<Named> {
    const { runId: execution } = await this.#parts.opened.state(runId);
    const before = known?.execution === execution ? known : undefined;
    const run = this.#parts.countersign.run(runId);
    const refs = new Map(before?.refs);
    for (let read = before?.read ?? 0; ;) {
      const messages = await run.conversation({ from: read, most: PAGE });
      for (const ref of messages.flatMap(refsIn)) refs.set(ref.sha256, ref);
      read += messages.length;
      if (messages.length < PAGE || read >= MOST_MESSAGES) return { refs, read, execution };
    }
  }
}

function refsIn(message: Message): readonly ArtifactRef[] {
  return message.role === 'tool' ? message.results.flatMap(refsOf) : [];
}

function refsOf({ outcome }: CallResult): readonly ArtifactRef[] {
  const result = 'result' in outcome ? outcome.result : undefined;
  if (result === undefined) return [];
  return [
    ...(result.full === undefined ? [] : [result.full]),
    ...result.content.flatMap((part) => ('artifact' in part && part.artifact !== undefined ? [part.artifact] : [])),
  ];
}

/** Leaves out the arguments and the server's words of calls that the person neither is asked about nor agreed to. */
function stateShareOf(state: RunState, asker: Asker, callIds: ReadonlySet<string>): RunState {
  const standing = state.standing?.map((decision) => {
    if (callIds.has(decision.callId) || decision.by.some((id) => isSamePerson(asker, id, asker.id))) return decision;
    const { arguments: _hidden, ...rest } = decision;
    return rest;
  });
  const tasks = state.tasks?.map((task) => {
    if (callIds.has(task.callId)) return task;
    const { message: _hidden, ...rest } = task;
    return rest;
  });
  return { ...state, ...defined({ standing, tasks }) };
}

/** Leaves to somebody who is asked about single calls the words and these calls: no other call, and no result. */
export function shareOf(messages: readonly Message[], callIds: ReadonlySet<string>): readonly Message[] {
  return messages.flatMap((message): readonly Message[] => {
    if (message.role === 'user') return [message];
    if (message.role !== 'assistant') return [];
    const parts = message.parts.filter(
      // The last words of a single call are its result.
      (part) =>
        (part.type === 'text' && callAnswerIn(part.text) === undefined) ||
        (part.type === 'call' && callIds.has(part.callId)),
    );
    return parts.length === 0 ? [] : [{ ...message, parts }];
  });
}
