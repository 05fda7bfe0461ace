/**
 * RunHandle reads and changes one run.
 *
 * 1. Every message is an update whose id is made of the message's own id and content: sent twice, it counts once;
 *    another message under the same id is refused (INV-G2, INV-D3).
 * 2. A person decides exactly what is shown: the handle recomputes each digest from the fields of the request (INV-G2).
 */
import { randomUUID } from 'node:crypto';
import type { WorkflowHandle } from '@temporalio/client';
import type { z } from 'zod';
import { defined } from '../../contracts/defined.ts';
import { CountersignError } from '../../contracts/errors.ts';
import { QUERIES, SIGNALS, UPDATES } from '../../contracts/names.ts';
import {
  type ApprovalRequest,
  Authorization,
  type AuthorizationInput,
  Decision,
  type DecisionAck,
  type DecisionInput,
  Forget,
  type ForgetAck,
  type ForgetInput,
  type PauseAck,
  Provision,
  type ProvisionInput,
  Resolution,
  type ResolutionInput,
  Say,
  Stop,
} from '../../contracts/schemas/request.ts';
import type { RunEvent } from '../../contracts/schemas/http/opened-request.ts';
import type { LedgerEntry, LedgerLine } from '../../contracts/schemas/ledger.ts';
import { parseAs } from '../../contracts/schemas/parse.ts';
import { type Grant, MOST_ARGUMENT_BYTES } from '../../contracts/schemas/run-spec.ts';
import type { Advance, RunResult, RunState, TranscriptPage } from '../../contracts/schemas/run-state.ts';
import type { ServerTools } from '../../contracts/schemas/tool.ts';
import type { Message } from '../../contracts/schemas/transcript.ts';
import { isFields } from '../../domain/shapes/inputs.ts';
import { byteLength } from '../../domain/text/canonical.ts';
import { notShown, readRequests } from '../engine/answers.ts';
import { askWorkflow, assertFields, assertMessageFits, type Engine, updateIdOf } from '../engine/engine.ts';
import { tellUnserved } from '../engine/trouble.ts';
import {
  type ArtifactReader,
  ledgerLines,
  type LedgerSource,
  pageIn,
  readConversation,
  readEntries,
  readPinnedTools,
} from '../ledger/ledger.ts';
import { Fresh, type FreshGrant, sealFresh } from '../signing/sealing.ts';
import { type Said, sendSigned, type Signer } from '../signing/signing.ts';
import { type BatchAnswer, decideAll } from './inbox.ts';
import { recover, type RecoverOptions, type Recovery } from './recovery.ts';
import { readRetries, type Retry } from './progress.ts';
import { assertTaken, type MissingTool } from './start-run.ts';
import { endOfRun, TimeIsUp, type WatchOptions, watchRun } from './watch.ts';

type Answer = Decision | Provision | Authorization | Resolution;
type RunSaid = Said & { readonly purpose: keyof typeof UPDATES };

/**
 * Their answers repeat nothing of the message. A namespace writer could use up an update id that can be computed, and
 * the run would never be asked (docs/adr/0048).
 */
const UNREPEATED: readonly RunSaid['purpose'][] = ['say', 'stop'];

export class RunHandle {
  readonly runId: string;
  readonly #engine: Engine;
  readonly #artifacts: ArtifactReader | undefined;
  readonly #signer: Signer | undefined;

  /** @throws CountersignError `USAGE` without an id */
  constructor(engine: Engine, runId: string, artifacts: ArtifactReader | undefined, signer?: Signer) {
    this.runId = runId;
    this.#engine = engine;
    this.#artifacts = artifacts;
    this.#signer = signer;
    // A caller without types may have no id at all.
    if (typeof runId !== 'string' || runId === '')
      throw new CountersignError('USAGE', 'The id of the run is missing. Give the id that it was started with.');
  }

  async state(): Promise<RunState> {
    const state = await this.#query<RunState>(QUERIES.state);
    if (isFields(state)) return state;
    throw notShown(this.runId, 'state');
  }

  /**
   * Reads the requests of the current turn, open and decided.
   * @throws CountersignError `DIGEST_MISMATCH` if a request's fields do not give its digest, or the answer is no such
   * list
   */
  async requests(): Promise<readonly ApprovalRequest[]> {
    return readRequests(this.runId, await this.#query(QUERIES.requests));
  }

  /** Reads which steps the run tries again, and why; empty if the last attempts did not fail. */
  async retries(): Promise<readonly Retry[]> {
    return await this.#engine.read(this.runId, () => readRetries(this.#engine.client, this.runId));
  }

  /**
   * Decides one call. If the answer got lost, send the decision, like other answers, again with the same `decisionId`.
   * @throws CountersignError `ALREADY_DECIDED` (its facts say by whom), `DIGEST_MISMATCH`, `DECISION_STALE_RUN`,
   *   `DECISION_EXPIRED`, `APPROVER_NOT_ENTITLED`, `DECISION_NOT_PERMITTED`, `EXTENSION_FORBIDDEN`, `CALL_UNKNOWN`,
   *   `REQUEST_NOT_OPEN`, `DECISION_INVALID`, `ARGUMENTS_TOO_LARGE`, `LIMIT_REACHED`, `RUN_CLOSED`, `RUN_NOT_FOUND`,
   *   `RESULT_UNCERTAIN`; for edited arguments also `JUDGE_UNAVAILABLE` or the code of a denial; in trust mode `signed`
   *   also `SIGNATURE_MISSING`, `SIGNATURE_INVALID`, `SIGNATURE_EXPIRED`, `SIGNER_NOT_ENTITLED`, `TRUST_KEY_UNKNOWN`
   */
  async decide(input: DecisionInput): Promise<DecisionAck> {
    const decision = parseAs(Decision, input, 'DECISION_INVALID', 'decision');
    assertArgumentsFit(decision);
    return await this.#answer<DecisionAck>('decide', decision);
  }

  /**
   * Answers or declines what a server asks for in the middle of a call (`request.about.requests`).
   * @throws CountersignError as `decide`; `DECISION_INVALID` names the field that does not fit
   */
  async provideInput(input: ProvisionInput): Promise<PauseAck> {
    return await this.#answer<PauseAck>('provideInput', parseAs(Provision, input, 'DECISION_INVALID', 'answer'));
  }

  /** Decides several calls, a few at a time. Each has its answer, in their order; a refused one does not throw. */
  async decideAll(inputs: readonly DecisionInput[]): Promise<readonly BatchAnswer[]> {
    return await decideAll(inputs, (input) => this.decide(input));
  }

  /**
   * Answers a server that wants another authorization (`about.kind` is `authorization`): consent to the scopes for this
   * call, a refusal, or a fresh grant (sealed by `sealGrant`, or a vault reference) of the person whose grant it
   * replaces.
   * @throws CountersignError as `decide`; `DECISION_NOT_PERMITTED` if the request wants another answer
   */
  async authorize(input: AuthorizationInput): Promise<PauseAck> {
    const authorization = parseAs(Authorization, input, 'DECISION_INVALID', 'authorization');
    return await this.#answer<PauseAck>('authorize', authorization);
  }

  /** Seals a caller's own token for this run, before it leaves this process. The result is for `authorize`. */
  async sealGrant(fresh: FreshGrant): Promise<Grant> {
    parseAs(Fresh, fresh, 'USAGE', 'token to seal');
    const { memo } = await this.#engine.read(this.runId, () => this.#handle.describe());
    return await sealFresh(fresh, { namespace: this.#engine.namespace, workflowId: this.runId, memo });
  }

  /**
   * Says what became of a call whose outcome is not known (`about.kind` is `outcome`), or sends the call again.
   * @throws CountersignError as `decide`; `DECISION_NOT_PERMITTED` if the request is about consent
   */
  async resolveOutcome(input: ResolutionInput): Promise<PauseAck> {
    return await this.#answer<PauseAck>('resolveOutcome', parseAs(Resolution, input, 'DECISION_INVALID', 'resolution'));
  }

  /**
   * Resets the workflow to before a task of its history, which `countersign recover` finds: for a run that no worker
   * can replay. Returns what is undone; with `dry` nothing happens. No call that may run only once is sent again by
   * itself.
   * @throws CountersignError `USAGE`, `RUN_CLOSED`, `RUN_NOT_FOUND`
   */
  async recover(options: RecoverOptions): Promise<Recovery> {
    assertFields(options, 'recover', '{ task, execution }');
    return await this.#engine.call(this.runId, () => recover(this.#engine.client, this.runId, options));
  }

  /** Takes a standing decision back (`state().standing`). The answer is the same however often the message is sent. */
  async forget(input: ForgetInput): Promise<ForgetAck> {
    const forget = parseAs(Forget, input, 'DECISION_INVALID', 'message');
    const { id, groups } = forget.by;
    return await this.#send<ForgetAck>(forget, { purpose: 'forget', person: id, groups }, forget.standing);
  }

  /**
   * Adds a user message; the run reads the message after its current turn. With `interrupt` the run withdraws its
   * waiting requests first. If the answer got lost, send the message again with the same `messageId`.
   * @throws CountersignError `MESSAGE_INVALID` (also for another message under a known id), `LIMIT_REACHED`,
   *   `RUN_CLOSED`, …
   */
  async say(input: Say): Promise<Advance> {
    const say = parseAs(Say, input, 'MESSAGE_INVALID', 'message');
    const { messageId, from } = say;
    const said = { purpose: 'say', jti: messageId, person: from, groups: this.#signer?.groups ?? [] } as const;
    return await this.#send<Advance>(say, said, messageId);
  }

  /** Ends the run: open requests are cancelled, calls in flight finish or are. A stop sent twice counts once. */
  async stop(input: z.input<typeof Stop>): Promise<Advance> {
    const stop = parseAs(Stop, input, 'MESSAGE_INVALID', 'stop message');
    const said = { purpose: 'stop', person: stop.by, groups: this.#signer?.groups ?? [] } as const;
    return await this.#send<Advance>(stop, said);
  }

  /**
   * Asks the run to read its trusted keys anew; the run does so at most every half minute.
   * @throws CountersignError `TRUST_REFRESH_TOO_SOON`
   */
  async refreshTrust(): Promise<Advance> {
    return await this.#update<Advance>(UPDATES.refreshTrust);
  }

  /** Returns the run's status and cursor at once. */
  async advance(): Promise<Advance> {
    return await this.#update<Advance>(UPDATES.advance);
  }

  async cancel(): Promise<void> {
    await this.#engine.call(this.runId, () => this.#handle.cancel());
  }

  /**
   * Waits until a worker has answered for a run that was just started.
   * @throws CountersignError with the code that ended the run (`MODEL_UNKNOWN`, `SERVER_UNKNOWN`, `SPEC_INVALID`, …),
   *   or `ENGINE_UNAVAILABLE` if no worker has taken it; the run then waits for one
   * @returns the names in `allowedTools` that their servers do not have, as far as tools are listed by then
   */
  async begun(options: { readonly deadlineMs?: number } = {}): Promise<readonly MissingTool[]> {
    assertFields(options, 'begun', 'its options as { deadlineMs }, or leave them out');
    const { deadlineMs = 5_000 } = options;
    const { word, missing } = await assertTaken(this.#engine, this.runId, deadlineMs);
    if (word === 'failed') await this.result({ deadlineMs });
    return missing;
  }

  /**
   * Waits for the end of the run. Once Temporal has answered, pauses of it do not end a wait that is longer than a
   * call.
   * @throws CountersignError with the code that ended the run, `RUN_CANCELLED`, `RUN_FAILED`, or `RESULT_UNCERTAIN`
   * @param onPause called once for each period in which no worker polls the run's queue, or Temporal does not answer
   * @param signal ends the wait; the run goes on
   */
  async result(
    options: Pick<WatchOptions, 'deadlineMs' | 'onPause'> & { readonly signal?: AbortSignal } = {},
  ): Promise<RunResult> {
    assertFields(options, 'result', 'its options as { deadlineMs, onPause, signal }, or leave them out');
    const { deadlineMs = 31_536_000_000, onPause, signal } = options;
    const over = new AbortController();
    if (onPause !== undefined) void tellUnserved(this.#engine.client, this.runId, onPause, over.signal);
    try {
      // Sound: `agentRun` returns it.
      return (await endOfRun(this.#engine, this.runId, { deadlineMs, ...defined({ onPause, signal }) })) as RunResult;
    } catch (error) {
      const isOver = error instanceof TimeIsUp || signal?.aborted === true;
      if (!isOver && !(error instanceof CountersignError && error.code === 'RESULT_UNCERTAIN')) throw error;
      const message = `Run ${this.runId} did not end in time; it goes on. Wait for its result again, for longer.`;
      throw new CountersignError('RESULT_UNCERTAIN', message, { runId: this.runId }, { cause: error });
    } finally {
      over.abort();
    }
  }

  /** Reads the whole ledger, oldest entry first. */
  async ledger(): Promise<readonly LedgerEntry[]> {
    return await this.ledgerEntries({ from: 0, most: Number.POSITIVE_INFINITY });
  }

  /** Reads at most `most` entries of the ledger, from number `from` on; fewer at its end. */
  async ledgerEntries(page: { readonly from: number; readonly most: number }): Promise<readonly LedgerEntry[]> {
    assertFields(page, 'ledgerEntries', '{ from, most }');
    return await this.#engine.query(this.runId, () => readEntries(this.#engine.client, this.#source, page));
  }

  /**
   * Reads the definitions of a server's tools as this run has them; undefined if it has listed none of that server.
   * @throws CountersignError `ARTIFACT_MISSING` also without access to the store, `ARTIFACT_CORRUPT`
   */
  async tools(server: string): Promise<ServerTools | undefined> {
    return await this.#engine.query(this.runId, () => readPinnedTools(this.#engine.client, this.#source, server));
  }

  /** Reads the messages `from` to `to` of the conversation, as far as the run holds them: older ones are stored. */
  async messages(page: { readonly from: number; readonly to: number }): Promise<readonly Message[]> {
    assertFields(page, 'messages', '{ from, to }');
    const { from, to } = page;
    const answer = await this.#query<unknown>(QUERIES.transcript, from, to);
    return pageIn<TranscriptPage>(answer, 'messages', from, this.runId).messages;
  }

  /**
   * Reads at most `most` messages of the conversation, from number `from` on, stored ones too; fewer at its end.
   * @throws CountersignError `ARTIFACT_MISSING` if older messages are stored and this client has no access to them
   */
  async conversation(page: { readonly from: number; readonly most: number }): Promise<readonly Message[]> {
    assertFields(page, 'conversation', '{ from, most }');
    return await this.#engine.query(this.runId, () => readConversation(this.#engine.client, this.#source, page));
  }

  /** Yields the ledger, as far as it is written, as lines of an export, which `verify-ledger --file` checks. */
  ledgerLines(): AsyncGenerator<LedgerLine> {
    return ledgerLines(this.#engine, this.#source);
  }

  /**
   * Yields ledger entries as they are written, with `details` what open requests are about; ends with the run.
   * @throws CountersignError `RESULT_UNCERTAIN` if the run goes on at the deadline, `ENGINE_UNAVAILABLE` if the run
   *   cannot be read, `ARTIFACT_MISSING` if wanted entries are stored and this client has no access to them
   */
  watch(options: WatchOptions = {}): AsyncGenerator<RunEvent> {
    assertFields(options, 'watch', 'its options as { cursor, signal }, or leave them out');
    return watchRun(this.#engine, this.runId, this.#artifacts, options);
  }

  /**
   * Says that the client of a call that dispatches on return is there. @param until epoch ms
   * @throws CountersignError `ENGINE_UNAVAILABLE`, `RUN_CLOSED` or `RUN_NOT_FOUND` once the run is over
   */
  async present(until: number): Promise<void> {
    await this.#engine.call(this.runId, () => this.#handle.signal(SIGNALS.present, until));
  }

  get #handle(): WorkflowHandle {
    return this.#engine.client.workflow.getHandle(this.runId);
  }

  get #source(): LedgerSource {
    return { workflowId: this.runId, artifacts: this.#artifacts };
  }

  async #query<T>(name: string, ...args: readonly number[]): Promise<T> {
    return await this.#engine.query(this.runId, () => askWorkflow<T>(this.#handle, name, ...args));
  }

  async #answer<T>(purpose: 'decide' | 'provideInput' | 'authorize' | 'resolveOutcome', message: Answer): Promise<T> {
    const { decisionId: jti, runId, approver } = message;
    return await this.#send<T>(message, { purpose, runId, jti, person: approver.id, groups: approver.groups }, jti);
  }

  /**
   * Sends a message, signed if this client has a key and the run wants signatures. A purpose is named like its update.
   * @param id the message's own id, or the id of what the message is about
   */
  async #send<T>(message: object, said: RunSaid, id?: string): Promise<T> {
    const name = UPDATES[said.purpose];
    if (this.#signer === undefined) return await this.#update<T>(name, message, updateIdOf(name, message, id));
    const updateId = updateIdOf(name, message, UNREPEATED.includes(said.purpose) ? randomUUID() : id);
    const run = {
      namespace: this.#engine.namespace,
      workflowId: this.runId,
      state: async () => await this.state(),
      refreshTrust: async () => await this.refreshTrust(),
    };
    const send = async (sent: object): Promise<T> => await this.#update<T>(name, sent, updateId);
    return await sendSigned(run, this.#signer, message, said, send);
  }

  async #update<T>(name: string, input?: object, updateId?: string): Promise<T> {
    assertMessageFits(input);
    try {
      const send = async (id: object): Promise<T> =>
        input === undefined
          ? await this.#handle.executeUpdate<T, []>(name, id)
          : await this.#handle.executeUpdate<T, [unknown]>(name, { args: [input], ...id });
      return await this.#engine.update(this.runId, updateId, send, input);
    } catch (error) {
      throw await this.#closedOr(error);
    }
  }

  /** Temporal says "not found" for an update to a closed run, too. */
  async #closedOr(error: unknown): Promise<unknown> {
    if (!(error instanceof CountersignError) || error.code !== 'RUN_NOT_FOUND') return error;
    try {
      const { status } = await this.#engine.call(this.runId, () => this.#handle.describe());
      if (status.name === 'RUNNING') return error;
      const message = `Run ${this.runId} is over (${status.name.toLowerCase()}); nothing was changed. Its result and its ledger say what became of it.`;
      return new CountersignError('RUN_CLOSED', message, { runId: this.runId });
    } catch {
      return error;
    }
  }
}

function assertArgumentsFit(decision: Decision): void {
  const given = decision.kind === 'approve' ? decision.arguments : undefined;
  const bytes = given === undefined ? 0 : byteLength(JSON.stringify(given));
  if (bytes <= MOST_ARGUMENT_BYTES) return;
  const message = `Arguments have ${bytes} bytes; no run allows more than ${MOST_ARGUMENT_BYTES}. Nothing was sent.`;
  throw new CountersignError('ARGUMENTS_TOO_LARGE', message, { callId: decision.callId, path: 'arguments' });
}
