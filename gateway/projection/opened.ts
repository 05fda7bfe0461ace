/**
 * Holds the requests and states of runs that somebody has opened.
 *
 * 1. A run is asked once for all who open it at the same time, and again only after it has changed. Votes do not show
 *    in visibility, so a request that needs several people is read anew after two seconds.
 * 2. What was read, or is being read, before a change or an answer is not told after it.
 * 3. Few runs are asked at once: workers may have to rebuild them. A run that did not answer is left alone for some
 *    time.
 * 4. Memory is bounded; what was opened longest ago goes first.
 */
import { LRUCache } from 'lru-cache';
import type { Countersign } from '../../client/countersign.ts';
import { Lanes } from '../../client/engine/engine.ts';
import { checkLedger, type LedgerReport } from '../../client/ledger/check.ts';
import { CountersignError, type ErrorCode } from '../../contracts/errors.ts';
import type { ApproverRule } from '../../contracts/schemas/policy.ts';
import type { ApprovalRequest } from '../../contracts/schemas/request.ts';
import type { LedgerEntry } from '../../contracts/schemas/ledger.ts';
import type { RunState } from '../../contracts/schemas/run-state.ts';
import type { Message } from '../../contracts/schemas/transcript.ts';
import { stillNeeded } from '../../domain/policy/approvers.ts';
import { GENESIS } from '../../domain/run/journal.ts';
import type { Projection } from './projection.ts';
import { OneAnswer } from '../cache/one-answer.ts';

const MOST_AT_ONCE = 16;
const MOST_KEPT_BYTES = 134_217_728;
/** For what visibility does not show. */
const FRESH_MS = 1_500;
/** Time for which a run that did not answer is not asked again: each attempt takes a place until its deadline. */
const FAILED_MS = 5_000;
/** The same for lists: all of a page waits for the slowest run. */
export const FAILED_IN_LISTS_MS = 20_000;
/** A run that nobody reads any more may have gone on. */
const STUCK_MS = 600_000;
const MOST_RULES_KEPT = 50;
/** For all but requests. */
const MOST_OTHER_BYTES = 33_554_432;
const MOST_ENTRIES = 300;
const MOST_MESSAGES = 40;

/** The newest entries of a run's ledger and messages of its conversation, oldest first. */
export interface Story {
  readonly state: RunState;
  readonly ledger: readonly LedgerEntry[];
  readonly messages: readonly Message[];
  /** Number of the first of these messages. */
  readonly messagesFrom: number;
}

export interface CheckedLedger {
  readonly report: LedgerReport;
  /** True if the entries lead to the head that the run itself states. */
  readonly isHeadOfRun: boolean;
}

const SHARED = { since: 'answer' } as const;

export class Opened {
  readonly #projection: Pick<Projection, 'run'>;
  readonly #countersign: Countersign;
  readonly #requests = new OneAnswer<readonly ApprovalRequest[]>(MOST_KEPT_BYTES, FRESH_MS, SHARED);
  readonly #states = new OneAnswer<RunState>(MOST_OTHER_BYTES, FRESH_MS, SHARED);
  readonly #checks = new OneAnswer<CheckedLedger>(MOST_OTHER_BYTES, FRESH_MS, SHARED);
  readonly #stories = new OneAnswer<Story>(MOST_OTHER_BYTES, FRESH_MS, SHARED);
  /** Rules of requests that a run had once: whoever they name may see the run. */
  readonly #rules = new LRUCache<string, readonly ApproverRule[]>({ max: 20_000 });
  readonly #stuck = new LRUCache<string, true>({ max: 10_000, ttl: STUCK_MS });
  readonly #onFailure: (code: ErrorCode) => void;
  readonly #lanes = new Lanes(MOST_AT_ONCE);
  #asked = 0;

  /** @param onFailure hears of each read that failed */
  constructor(
    projection: Pick<Projection, 'run'>,
    countersign: Countersign,
    onFailure: (code: ErrorCode) => void = () => undefined,
  ) {
    this.#projection = projection;
    this.#countersign = countersign;
    this.#onFailure = onFailure;
  }

  get asked(): number {
    return this.#asked;
  }

  /** Number of runs whose last reading, of the last ten minutes, ended with `RUN_STUCK`. */
  get stuck(): number {
    this.#stuck.purgeStale();
    return this.#stuck.size;
  }

  /**
   * Returns the requests of the run's current turn, open and decided.
   * @param failedMs time for which a run that did not answer is not asked again
   * @throws CountersignError as `RunHandle.requests`
   */
  async requests(runId: string, failedMs = FAILED_MS): Promise<readonly ApprovalRequest[]> {
    const mark = this.#versionOf(runId);
    const freshMs = (requests: readonly ApprovalRequest[] | undefined): number =>
      mark === undefined || requests?.some(asksSeveral) === true ? FRESH_MS : Number.POSITIVE_INFINITY;
    return await this.#requests.get(runId, async () => await this.#ask(runId), { mark, freshMs, failedMs });
  }

  #versionOf(runId: string): number | undefined {
    return this.#projection.run(runId)?.version;
  }

  /** Forgets what was read, since an answer has been sent. */
  forget(runId: string): void {
    for (const kept of [this.#requests, this.#states, this.#stories, this.#checks]) kept.forget(runId);
  }

  async state(runId: string): Promise<RunState> {
    return await this.#shared(this.#states, runId, async () => await this.#countersign.run(runId).state());
  }

  /** Reads what the page of a run shows. Older entries and messages are stored, and a store may be away. */
  async story(runId: string): Promise<Story> {
    const state = await this.state(runId);
    return await this.#shared(this.#stories, runId, async () => {
      const run = this.#countersign.run(runId);
      const { ledgerFrom, ledgerLength, transcriptFrom, transcriptLength } = state;
      const from = Math.max(transcriptFrom, transcriptLength - MOST_MESSAGES);
      const [ledger, messages] = await Promise.all([
        run.ledgerEntries({ from: Math.max(ledgerFrom, ledgerLength - MOST_ENTRIES), most: MOST_ENTRIES }),
        run.messages({ from, to: transcriptLength }),
      ]);
      return { state, ledger, messages, messagesFrom: from };
    });
  }

  async check(runId: string): Promise<CheckedLedger> {
    return await this.#shared(this.#checks, runId, async () => {
      const run = this.#countersign.run(runId);
      // The head is read before the entries: the ledger may grow meanwhile, and never shrinks.
      const { ledgerLength, ledgerHead } = await run.state();
      const entries = await run.ledger();
      const head = ledgerLength === 0 ? GENESIS : entries[ledgerLength - 1]?.hash;
      return { report: checkLedger(entries), isHeadOfRun: head === ledgerHead };
    });
  }

  /** Reads once for all who ask within a moment, and anew after each change. */
  async #shared<T>(kept: OneAnswer<T>, runId: string, read: () => Promise<T>): Promise<T> {
    // An answer from before a change would be the last word of a page that heard of the change.
    const mark = this.#versionOf(runId);
    return await kept.get(runId, async () => await this.#inTurn(runId, read), { mark });
  }

  /**
   * Returns the rules of all requests that the run ever had, as far as its ledger can be read.
   * @throws CountersignError as `RunHandle.ledger`
   */
  async everyRule(runId: string): Promise<readonly ApproverRule[]> {
    const ledger = await this.#inTurn(runId, async () => await this.#countersign.run(runId).ledger());
    const rules = ledger.flatMap(({ fact }) => (fact.kind === 'request.opened' ? [fact.approvers] : []));
    this.#keepRules(runId, rules);
    return rules;
  }

  knownRules(runId: string): readonly ApproverRule[] {
    return this.#rules.get(runId) ?? [];
  }

  #keepRules(runId: string, rules: readonly ApproverRule[]): void {
    const all = new Map([...this.knownRules(runId), ...rules].map((rule) => [JSON.stringify(rule), rule]));
    if (all.size > 0) this.#rules.set(runId, [...all.values()].slice(-MOST_RULES_KEPT));
  }

  async #ask(runId: string): Promise<readonly ApprovalRequest[]> {
    const requests = await this.#inTurn(runId, async () => await this.#countersign.run(runId).requests());
    this.#keepRules(
      runId,
      requests.map(({ approvers }) => approvers),
    );
    return requests;
  }

  async #inTurn<T>(runId: string, act: () => Promise<T>): Promise<T> {
    try {
      const answer = await this.#lanes.run('all', async () => {
        this.#asked += 1;
        return await act();
      });
      this.#stuck.delete(runId);
      return answer;
    } catch (error) {
      const code = error instanceof CountersignError ? error.code : 'INTERNAL';
      if (code === 'RUN_STUCK') this.#stuck.set(runId, true);
      this.#onFailure(code);
      throw error;
    }
  }
}

function asksSeveral({ status, approvers }: ApprovalRequest): boolean {
  return status === 'open' && (stillNeeded(approvers, []) > 1 || approvers.allOf.length > 1);
}
