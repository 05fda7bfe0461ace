/**
 * Holds the requests and states of runs that somebody has opened.
 *
 * 1. A run is asked once for all who open it at the same time, and again only after it has changed. Votes do not show in
 *    visibility, so a request that needs several people is read anew after two seconds.
 * 2. Few runs are asked at once: workers may have to rebuild them.
 * 3. Memory is bounded; what was opened longest ago goes first.
 */
import { LRUCache } from 'lru-cache';
import type { Countersign } from '../../client/countersign.ts';
import { CountersignError } from '../../contracts/errors.ts';
import type { ApproverRule } from '../../contracts/schemas/policy.ts';
import type { ApprovalRequest } from '../../contracts/schemas/request.ts';
import type { RunState } from '../../contracts/schemas/run-state.ts';
import { stillNeeded } from '../../domain/policy/approvers.ts';
import type { Projection } from './projection.ts';

const MOST_AT_ONCE = 16;
const MOST_KEPT_BYTES = 134_217_728;
/** For what visibility does not show. */
const FRESH_MS = 1_500;
const MOST_RULES_KEPT = 50;

interface Opening {
  /** Version of the row when the run was asked. */
  readonly version: number | undefined;
  readonly at: number;
  readonly requests: readonly ApprovalRequest[];
}

export class Opened {
  readonly #projection: Pick<Projection, 'run'>;
  readonly #countersign: Countersign;
  readonly #kept = new LRUCache<string, Opening>({
    maxSize: MOST_KEPT_BYTES,
    sizeCalculation: ({ requests }) => 256 + JSON.stringify(requests).length,
  });
  readonly #states = new LRUCache<string, { readonly at: number; readonly state: Promise<RunState> }>({ max: 1_000 });
  /** Rules of requests that a run had once: whoever they name may see the run. */
  readonly #rules = new LRUCache<string, readonly ApproverRule[]>({ max: 20_000 });
  readonly #asking = new Map<string, Promise<readonly ApprovalRequest[]>>();
  readonly #queue: (() => void)[] = [];
  #underWay = 0;
  #asked = 0;

  constructor(projection: Pick<Projection, 'run'>, countersign: Countersign) {
    this.#projection = projection;
    this.#countersign = countersign;
  }

  /** Number of queries so far. */
  get asked(): number {
    return this.#asked;
  }

  /**
   * Returns the requests of the run's current turn, open and decided.
   * @throws CountersignError as `RunHandle.requests`
   */
  async requests(runId: string): Promise<readonly ApprovalRequest[]> {
    const kept = this.#kept.get(runId);
    if (kept !== undefined && this.#isFresh(runId, kept)) return kept.requests;
    const under = this.#asking.get(runId);
    if (under !== undefined) return await under;
    const asked = this.#ask(runId).finally(() => this.#asking.delete(runId));
    this.#asking.set(runId, asked);
    return await asked;
  }

  /** Forgets what was read, since an answer has been sent. */
  forget(runId: string): void {
    this.#kept.delete(runId);
    this.#states.delete(runId);
  }

  async state(runId: string): Promise<RunState> {
    const kept = this.#states.get(runId);
    if (kept !== undefined && Date.now() - kept.at < FRESH_MS) return await kept.state;
    const state = this.#inTurn(async () => await this.#countersign.run(runId).state());
    this.#states.set(runId, { at: Date.now(), state });
    state.catch(() => this.#states.delete(runId));
    return await state;
  }

  /**
   * Returns the rules of all requests that the run ever had, as far as its ledger can be read.
   * @throws CountersignError as `RunHandle.ledger`
   */
  async everyRule(runId: string): Promise<readonly ApproverRule[]> {
    const ledger = await this.#inTurn(async () => await this.#countersign.run(runId).ledger());
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

  #isFresh(runId: string, { version, at, requests }: Opening): boolean {
    if (version === undefined || this.#projection.run(runId)?.version !== version) return Date.now() - at < FRESH_MS;
    const asksSeveral = requests.some(
      ({ status, approvers }) => status === 'open' && (stillNeeded(approvers, []) > 1 || approvers.allOf.length > 1),
    );
    return !asksSeveral || Date.now() - at < FRESH_MS;
  }

  async #ask(runId: string): Promise<readonly ApprovalRequest[]> {
    // Taken before the question: a change during the answer counts as not seen.
    const version = this.#projection.run(runId)?.version;
    const requests = await this.#inTurn(async () => await this.#countersign.run(runId).requests());
    this.#kept.set(runId, { version, at: Date.now(), requests });
    this.#keepRules(
      runId,
      requests.map(({ approvers }) => approvers),
    );
    return requests;
  }

  async #inTurn<T>(act: () => Promise<T>): Promise<T> {
    if (this.#underWay >= MOST_AT_ONCE) {
      if (this.#queue.length >= 10_000)
        throw new CountersignError('ENGINE_UNAVAILABLE', 'Too many runs are being read; try again later.');
      await new Promise<void>((resolve) => void this.#queue.push(resolve));
    } else this.#underWay += 1;
    this.#asked += 1;
    try {
      return await act();
    } finally {
      const next = this.#queue.shift();
      if (next === undefined) this.#underWay -= 1;
      else next();
    }
  }
}
