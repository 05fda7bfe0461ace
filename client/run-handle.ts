/**
 * One run, as a backend holds it.
 *
 * 1. A message is sent as an update whose id is of its own id and content: sent twice, it counts once, and another message under the
 *    same id is refused (INV-G2, INV-D3).
 * 2. What is shown is what is decided: the digest is recomputed here from the fields of the request (INV-G2).
 */
import type { WorkflowHandle } from '@temporalio/client';
import { CountersignError } from '../contracts/errors.ts';
import { QUERIES, UPDATES } from '../contracts/names.ts';
import {
  Decision,
  type DecisionAck,
  type DecisionInput,
  Forget,
  type ForgetAck,
  type ForgetInput,
  Say,
  Stop,
} from '../contracts/schemas/decision.ts';
import { Authorization, type AuthorizationInput } from '../contracts/schemas/authorization.ts';
import type { LedgerEntry } from '../contracts/schemas/ledger.ts';
import { parseAs } from '../contracts/schemas/parse.ts';
import type { PauseAck } from '../contracts/schemas/pause.ts';
import { Provision, type ProvisionInput } from '../contracts/schemas/provision.ts';
import type { ApprovalRequest } from '../contracts/schemas/request.ts';
import { Resolution, type ResolutionInput } from '../contracts/schemas/resolution.ts';
import type { Advance, RunResult, RunState } from '../contracts/schemas/run-state.ts';
import type { Grant } from '../contracts/schemas/run-spec.ts';
import { requestDigest } from '../domain/digest.ts';
import { type BatchAnswer, decideAll } from './decide-all.ts';
import type { Engine } from './engine.ts';
import { assertTaken, type MissingTool } from './first-word.ts';
import { type FreshGrant, sealFresh } from './fresh-grant.ts';
import { type ArtifactReader, readLedger } from './ledger.ts';
import { assertArgumentsFit, assertMessageFits } from './message-size.ts';
import { tellUnserved } from './pollers.ts';
import { readRetries, type Retry } from './retries.ts';
import { type RecoverOptions, recover, type Recovery } from './recovery.ts';
import { type Said, sendSigned } from './signed-update.ts';
import type { Signer } from './signer.ts';
import { sendUpdate, updateIdOf } from './update.ts';
import { watchRun, type WatchOptions } from './watch.ts';

export class RunHandle {
  readonly runId: string;
  readonly #engine: Engine;
  readonly #artifacts: ArtifactReader | undefined;
  readonly #signer: Signer | undefined;

  constructor(engine: Engine, runId: string, artifacts: ArtifactReader | undefined, signer?: Signer) {
    this.runId = runId;
    this.#engine = engine;
    this.#artifacts = artifacts;
    this.#signer = signer;
  }

  async state(): Promise<RunState> {
    return await this.#query<RunState>(QUERIES.state);
  }

  /** Requests of the current turn, open and decided. @throws CountersignError `DIGEST_MISMATCH` where one is not what it says */
  async requests(): Promise<readonly ApprovalRequest[]> {
    const requests = await this.#query<ApprovalRequest[]>(QUERIES.requests);
    for (const request of requests) assertDigest(request);
    return requests;
  }

  /** What it tries again, and why: a server, a model or a store that is away. Empty where nothing has failed last. */
  async retries(): Promise<readonly Retry[]> {
    return await this.#engine.read(this.runId, () => readRetries(this.#engine.client, this.runId));
  }

  /**
   * Decides one call. Send it again with the same `decisionId` where the answer got lost.
   * @throws CountersignError `ALREADY_DECIDED` (facts say by whom), `DIGEST_MISMATCH`, `DECISION_STALE_RUN`, `DECISION_EXPIRED`,
   *   `APPROVER_NOT_ENTITLED`, `DECISION_NOT_PERMITTED`, `EXTENSION_FORBIDDEN`, `CALL_UNKNOWN`, `REQUEST_NOT_OPEN`, `DECISION_INVALID`,
   *   `ARGUMENTS_TOO_LARGE`, `LIMIT_REACHED`, `RUN_CLOSED`, `RUN_NOT_FOUND`, `RESULT_UNCERTAIN`; of edited arguments also
   *   `JUDGE_UNAVAILABLE` or the code of a denial; in trust mode `signed` `SIGNATURE_MISSING`, `SIGNATURE_INVALID`, `SIGNATURE_EXPIRED`,
   *   `SIGNER_NOT_ENTITLED`, `TRUST_KEY_UNKNOWN`
   */
  async decide(input: DecisionInput): Promise<DecisionAck> {
    const decision = parseAs(Decision, input, 'DECISION_INVALID', 'decision');
    assertArgumentsFit(decision);
    const { decisionId, runId, approver } = decision;
    const said = { purpose: 'decide', runId, jti: decisionId, person: approver.id, groups: approver.groups } as const;
    return await this.#send<DecisionAck>(UPDATES.decide, decision, said, decisionId);
  }

  /**
   * Answers what a server asks for in the middle of a call (`request.about.requests`), or declines. Send it again with the same
   * `decisionId` where the answer got lost.
   * @throws CountersignError as `decide`; `DECISION_INVALID` names the field that does not fit
   */
  async provideInput(input: ProvisionInput): Promise<PauseAck> {
    const provision = parseAs(Provision, input, 'DECISION_INVALID', 'answer');
    const { decisionId: jti, runId, approver } = provision;
    const said = { purpose: 'provideInput', runId, jti, person: approver.id, groups: approver.groups } as const;
    return await this.#send<PauseAck>(UPDATES.provideInput, provision, said, jti);
  }

  /** Decides several calls, a few at a time. Never throws for one of them: each has its answer, in the order of the decisions. */
  async decideAll(inputs: readonly DecisionInput[]): Promise<readonly BatchAnswer[]> {
    return await decideAll(inputs, (input) => this.decide(input));
  }

  /**
   * Answers a server that wants another authorization (a request whose `about.kind` is `authorization`): consent to the scopes that
   * it names for this call, a fresh grant from whose grant it replaces (sealed by `sealGrant`, or a vault reference), or neither.
   * @throws CountersignError as `decide` does; `DECISION_NOT_PERMITTED` where the request wants another answer
   */
  async authorize(input: AuthorizationInput): Promise<PauseAck> {
    const answer = parseAs(Authorization, input, 'DECISION_INVALID', 'authorization');
    const { decisionId, runId, approver } = answer;
    const { id: person, groups } = approver;
    const said = { purpose: 'authorize', runId, jti: decisionId, person, groups } as const;
    return await this.#send<PauseAck>(UPDATES.authorize, answer, said, decisionId);
  }

  /** A caller's own token, sealed for this run before it leaves this process: for `authorize`. */
  async sealGrant(fresh: FreshGrant): Promise<Grant> {
    const { memo } = await this.#engine.call(this.runId, () => this.#handle.describe());
    return await sealFresh(fresh, { namespace: this.#engine.namespace, workflowId: this.runId, memo });
  }

  /**
   * Says what became of a call whose outcome is not known (a request whose `about.kind` is `outcome`), or that it is sent again.
   * Answered the same however often it is sent with the same `decisionId`.
   * @throws CountersignError as `decide` does; `DECISION_NOT_PERMITTED` where the request is about consent
   */
  async resolveOutcome(input: ResolutionInput): Promise<PauseAck> {
    const resolution = parseAs(Resolution, input, 'DECISION_INVALID', 'resolution');
    const { decisionId, runId, approver } = resolution;
    const { id: person, groups } = approver;
    const said = { purpose: 'resolveOutcome', runId, jti: decisionId, person, groups } as const;
    return await this.#send<PauseAck>(UPDATES.resolveOutcome, resolution, said, decisionId);
  }

  /**
   * Resets the workflow to before a task of its history: the way out for a run that no worker can replay. Says what is undone, and with
   * `dry` does nothing else. `countersign recover` finds the task; nothing that may run only once is sent again by itself after it.
   * @throws CountersignError `USAGE`, `RUN_CLOSED`, `RUN_NOT_FOUND`
   */
  async recover(options: RecoverOptions): Promise<Recovery> {
    return await this.#engine.call(this.runId, () => recover(this.#engine.client, this.runId, options));
  }

  /** Takes a standing decision back (`state().standing`). Answered the same however often it is sent. */
  async forget(input: ForgetInput): Promise<ForgetAck> {
    const forget = parseAs(Forget, input, 'DECISION_INVALID', 'message');
    const { id, groups } = forget.by;
    return await this.#send<ForgetAck>(
      UPDATES.forget,
      forget,
      { purpose: 'forget', person: id, groups },
      forget.standing,
    );
  }

  /**
   * Adds a user message; the run reads it after its current turn. With `interrupt` the requests that wait are withdrawn for it. Send it
   * again with the same `messageId` where the answer got lost.
   * @throws CountersignError `MESSAGE_INVALID` (also for another message under a known id), `LIMIT_REACHED`, `RUN_CLOSED`, …
   */
  async say(input: Say): Promise<Advance> {
    const say = parseAs(Say, input, 'MESSAGE_INVALID', 'message');
    const { messageId, from } = say;
    const said = { purpose: 'say', jti: messageId, person: from, groups: this.#signer?.groups ?? [] } as const;
    return await this.#send<Advance>(UPDATES.say, say, said, messageId);
  }

  /** Ends the run: open requests are cancelled, calls in flight end or are cancelled. Sent twice, it counts once. */
  async stop(input: {
    readonly by: string;
    readonly reason: string;
    readonly inFlight?: 'finish' | 'cancel';
  }): Promise<Advance> {
    const stop = parseAs(Stop, input, 'MESSAGE_INVALID', 'stop message');
    const said = { purpose: 'stop', person: stop.by, groups: this.#signer?.groups ?? [] } as const;
    return await this.#send<Advance>(UPDATES.stop, stop, said);
  }

  /** Asks the run to read its trusted keys anew; it does so at most every half minute. @throws CountersignError `TRUST_REFRESH_TOO_SOON` */
  async refreshTrust(): Promise<Advance> {
    return await this.#update<Advance>(UPDATES.refreshTrust);
  }

  /** Where the run is, at once. */
  async advance(): Promise<Advance> {
    return await this.#update<Advance>(UPDATES.advance);
  }

  /** Asks Temporal to cancel the run. */
  async cancel(): Promise<void> {
    await this.#engine.call(this.runId, () => this.#handle.cancel());
  }

  /**
   * Waits for the first word of a worker about a run that was just started: that it has it, or that its spec is taken.
   * @throws CountersignError with the code that ended the run (`MODEL_UNKNOWN`, `SERVER_UNKNOWN`, `SPEC_INVALID`, …), or
   *   `ENGINE_UNAVAILABLE` where no worker has taken it; it waits for one then
   * @returns names in `allowedTools` that their servers do not have, where the tools are listed by then
   */
  async begun({ deadlineMs = 5_000 }: { readonly deadlineMs?: number } = {}): Promise<readonly MissingTool[]> {
    const { word, missing } = await assertTaken(this.#engine, this.runId, deadlineMs);
    if (word === 'failed') await this.result({ deadlineMs });
    return missing;
  }

  /**
   * Waits for the end. @throws CountersignError with the code that ended the run, `RUN_CANCELLED`, `RUN_FAILED`, or `RESULT_UNCERTAIN`
   * @param onPause told once for each time in which no worker polls the queue of the run
   */
  async result({
    deadlineMs = 31_536_000_000,
    onPause,
  }: Pick<WatchOptions, 'deadlineMs' | 'onPause'> = {}): Promise<RunResult> {
    const over = new AbortController();
    if (onPause !== undefined) void tellUnserved(this.#engine.client, this.runId, onPause, over.signal);
    try {
      // Sound: `agentRun` returns it.
      return (await this.#engine.call(this.runId, () => this.#handle.result(), deadlineMs)) as RunResult;
    } catch (error) {
      if (!(error instanceof CountersignError) || error.code !== 'RESULT_UNCERTAIN') throw error;
      const message = `Run ${this.runId} did not end in time; it goes on. Wait for its result again, for longer.`;
      throw new CountersignError('RESULT_UNCERTAIN', message, { runId: this.runId }, { cause: error });
    } finally {
      over.abort();
    }
  }

  /** The whole ledger, oldest first. */
  async ledger(): Promise<readonly LedgerEntry[]> {
    const source = { workflowId: this.runId, artifacts: this.#artifacts };
    return await this.#engine.query(this.runId, () => readLedger(this.#engine.client, source));
  }

  /**
   * Events as they happen; ends with the run.
   * @throws CountersignError `RESULT_UNCERTAIN` where the run goes on at the deadline, `ENGINE_UNAVAILABLE` where it cannot be read,
   *   `ARTIFACT_MISSING` where what is wanted is stored and this client has no access to it
   */
  watch(options: WatchOptions = {}): AsyncGenerator<LedgerEntry> {
    return watchRun(this.#engine, this.runId, this.#artifacts, options);
  }

  get #handle(): WorkflowHandle {
    return this.#engine.client.workflow.getHandle(this.runId);
  }

  async #query<T>(name: string): Promise<T> {
    return await this.#engine.query(this.runId, () => this.#handle.query<T>(name));
  }

  /** Signed, where this client has a key and the run wants signatures. @param id the message's own, or what it is about */
  async #send<T>(name: string, message: object, said: Said, id?: string): Promise<T> {
    const updateId = updateIdOf(name, message, id);
    if (this.#signer === undefined) return await this.#update<T>(name, message, updateId);
    const run = {
      namespace: this.#engine.namespace,
      workflowId: this.runId,
      state: async () => await this.state(),
      refreshTrust: async () => await this.refreshTrust(),
    };
    return await sendSigned(
      run,
      this.#signer,
      message,
      said,
      async (sent) => await this.#update<T>(name, sent, updateId),
    );
  }

  async #update<T>(name: string, input?: object, updateId?: string): Promise<T> {
    assertMessageFits(input);
    try {
      const send = async (id: object): Promise<T> =>
        input === undefined
          ? await this.#handle.executeUpdate<T, []>(name, id)
          : await this.#handle.executeUpdate<T, [unknown]>(name, { args: [input], ...id });
      return await sendUpdate(this.#engine, this.runId, updateId, send, input);
    } catch (error) {
      throw await this.#closedOr(error);
    }
  }

  /** "Not found" of a run that exists means that it is over. */
  async #closedOr(error: unknown): Promise<unknown> {
    if (!(error instanceof CountersignError) || error.code !== 'RUN_NOT_FOUND') return error;
    try {
      const { status } = await this.#engine.call(this.runId, () => this.#handle.describe());
      if (status.name === 'RUNNING') return error;
      return new CountersignError(
        'RUN_CLOSED',
        `Run ${this.runId} is over (${status.name.toLowerCase()}); nothing was changed.`,
        { runId: this.runId },
      );
    } catch {
      return error;
    }
  }
}

function assertDigest(request: ApprovalRequest): void {
  const { workflowId, callId } = request;
  if (requestDigest({ ...request, target: request }) === request.digest) return;
  throw new CountersignError(
    'DIGEST_MISMATCH',
    `The request for call ${callId} is not the one its digest names; do not decide it.`,
    { runId: workflowId, callId },
  );
}
