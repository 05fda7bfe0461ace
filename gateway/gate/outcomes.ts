/**
 * Reads what became of a call that an MCP client has made, or how far it is. Nothing is started or changed here.
 *
 * 1. A run that ended without an answer is told by its ledger: "not executed" is said only where the ledger shows that
 *    nothing was sent, and "not known" otherwise (INV-X2).
 */
import type { CallToolResult } from '@modelcontextprotocol/server';
import { WorkflowFailedError } from '@temporalio/client';
import type { ArtifactReader } from '../../client/ledger/ledger.ts';
import type { RunHandle } from '../../client/run/run-handle.ts';
import { answerIn } from '../../client/run/single-call.ts';
import { defined } from '../../contracts/defined.ts';
import { CountersignError, type ErrorCode } from '../../contracts/errors.ts';
import type { LedgerFact } from '../../contracts/schemas/ledger.ts';
import type { ApprovalRequest } from '../../contracts/schemas/request.ts';
import type { RunResult } from '../../contracts/schemas/run-state.ts';
import { endedReply, type Pending, refusedReply, unknownReply, withdrawnReply } from './replies.ts';

export interface OutcomesParts {
  readonly run: (runId: string) => Pick<RunHandle, 'result' | 'ledger' | 'requests'>;
  readonly artifacts: ArtifactReader | undefined;
  /** Absolute URL of the page on which people decide about a run. */
  readonly pageOf: (runId: string) => string | undefined;
}

export interface EndWanted {
  readonly deadlineMs: number;
  readonly gone?: AbortSignal;
  readonly preview?: boolean;
}

/** Codes with which `answerIn` says that a run has ended without an answer. */
const ENDED: ReadonlySet<ErrorCode> = new Set(['RUN_CANCELLED', 'LIMIT_REACHED']);

/** Outcomes of calls that no server has got. */
const NOT_RUN: ReadonlySet<string> = new Set(['cancelled', 'denied', 'rejected', 'expired', 'answered']);

export class Outcomes {
  readonly #parts: OutcomesParts;

  constructor(parts: OutcomesParts) {
    this.#parts = parts;
  }

  /**
   * Waits for the end of a call.
   * @param wanted `deadlineMs`: longest wait; `gone` ends it; `preview`: without what lies in artifacts
   * @returns undefined if it goes on
   */
  async endOf(runId: string, { deadlineMs, gone, preview = false }: EndWanted): Promise<CallToolResult | undefined> {
    try {
      const result = await this.#parts.run(runId).result({ deadlineMs, ...defined({ signal: gone }) });
      const artifacts = preview ? undefined : this.#parts.artifacts;
      return (await this.#withdrawn(runId, result)) ?? (await endedReply(runId, answerIn(runId, result), artifacts));
    } catch (error) {
      if (!(error instanceof CountersignError)) throw error;
      if (error.code === 'RESULT_UNCERTAIN' || gone?.aborted === true) return undefined;
      // Any other error without such a cause is of the way to the run.
      const isOver = error.cause instanceof WorkflowFailedError || ENDED.has(error.code);
      if (!isOver) throw error;
      return (await this.#wasSent(runId))
        ? unknownReply(error.code, error.message, runId)
        : refusedReply(error.code, error.message, runId);
    }
  }

  /** A run that was ended from outside has no answer. Its ledger says whether its call may have run by then. */
  async #withdrawn(runId: string, { status, because = '' }: RunResult): Promise<CallToolResult | undefined> {
    if (status === 'completed') return undefined;
    const outcomes = (await this.#factsOf(runId)).flatMap((fact) => (fact.kind === 'outcome' ? [fact.outcome] : []));
    if (outcomes.length === 0 || outcomes.some((outcome) => !NOT_RUN.has(outcome))) return undefined;
    return status === 'stopped'
      ? withdrawnReply('RUN_CANCELLED', `it was stopped (${because})`, runId)
      : withdrawnReply('LIMIT_REACHED', `its run reached its limit (${because})`, runId);
  }

  /** True if the ledger of a run that goes on names no call that was handed to a worker. */
  async isUnsent(runId: string): Promise<boolean> {
    const facts = await this.#factsOf(runId);
    return facts.length > 0 && !facts.some(({ kind }) => kind === 'dispatched');
  }

  /** False only if the whole ledger of a run that has failed names no call that was handed to a worker. */
  async #wasSent(runId: string): Promise<boolean> {
    const facts = await this.#factsOf(runId);
    const isWhole = facts.some((fact) => fact.kind === 'run.ended' && fact.status === 'failed');
    return !isWhole || facts.some(({ kind }) => kind === 'dispatched' || kind === 'outcome');
  }

  /** @returns nothing if nobody can read the ledger now: it is then not known whether the call was sent */
  async #factsOf(runId: string): Promise<readonly LedgerFact[]> {
    try {
      return (await this.#parts.run(runId).ledger()).map(({ fact }) => fact);
    } catch (error) {
      if (error instanceof CountersignError) return [];
      throw error;
    }
  }

  async pendingOf(runId: string): Promise<Pending> {
    // The run of a call has this one call, and a call has one open request.
    const [request] = await this.openOf(runId);
    if (request === undefined) return { reference: runId, status: 'running' };
    const asked = request.about?.kind ?? (request.asItIs === true ? 'again' : 'consent');
    const { deadline } = request;
    return { reference: runId, status: 'waiting', asked, ...defined({ page: this.#parts.pageOf(runId) }), deadline };
  }

  /** The same in words, for a client that hears of progress. */
  async wordsOf(runId: string): Promise<string> {
    if ((await this.openOf(runId)).length === 0) return 'The call is under way.';
    const page = this.#parts.pageOf(runId);
    return page === undefined ? 'The call waits for a person.' : `The call waits for a person: ${page}`;
  }

  /** Requests that people have not decided; empty if nobody can be asked for them now. */
  async openOf(runId: string): Promise<readonly ApprovalRequest[]> {
    try {
      return (await this.#parts.run(runId).requests()).filter(({ status }) => status === 'open');
    } catch (error) {
      // No worker answers: the client is told that its call goes on.
      if (error instanceof CountersignError) return [];
      throw error;
    }
  }
}
