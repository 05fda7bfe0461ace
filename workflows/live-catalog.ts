/**
 * One execution of a catalog as the workflow holds it.
 *
 * Owns: the catalog's state and ledger while this execution lives, and that messages are handled one after another. Does not
 * own: rules (`domain/`), what a message does (`catalog-handlers.ts`).
 */
import { CancellationScope, setCurrentDetails, upsertSearchAttributes, workflowInfo } from '@temporalio/workflow';
import { defineSearchAttributeKey } from '@temporalio/common';
import type { CatalogIdentity, Review, ReviewInput } from '../contracts/catalog-activities.ts';
import { failureOf } from '../contracts/failure.ts';
import type { CatalogRules, CatalogSnapshot, CatalogUnchanged } from '../contracts/schemas/catalog.ts';
import type { CatalogTrust } from '../contracts/schemas/trust.ts';
import { type Catalog, type CatalogChange, startCatalog } from '../domain/catalog.ts';
import { hashOf } from '../domain/canonical.ts';
import {
  canBeCarried,
  CATALOG_CARRY_VERSION,
  type CatalogCarry,
  overLimit,
  SIGNED_CARRY_VERSION,
} from '../domain/catalog-carry.ts';
import { carriedExecutions, decidedIn, type Execution } from '../domain/chain.ts';
import { EMPTY_JOURNAL, Journal, type JournalHead } from '../domain/journal.ts';
import { catalogDetails } from '../domain/catalog-details.ts';
import { reviewActivities } from './activity-stubs.ts';
import { answered } from './unread.ts';

/** For so long the validators go by what the configuration said last; the handlers behind them always ask anew. */
const RULES_FRESH_MS = 60_000;

const KEYS = {
  status: defineSearchAttributeKey('CountersignStatus', 'KEYWORD'),
  servers: defineSearchAttributeKey('CountersignServers', 'KEYWORD_LIST'),
  tenant: defineSearchAttributeKey('CountersignTenant', 'KEYWORD'),
};

export class LiveCatalog {
  readonly journal: Journal;
  catalog: Catalog;
  updates = 0;
  /** Answers of activities, see `unread.ts`. */
  looked = 0;
  /** While it hands over: ledger entries before this one are stored, or will be before this execution ends. */
  storedTo: number | undefined;
  /** Nothing more is taken before the next execution. */
  isClosed = false;
  nudged = false;
  /** The listing under way: given up where the server is connected otherwise, or not at all. */
  listing: CancellationScope | undefined;
  isReadingTrust = false;
  /** Epoch ms; when somebody last made this execution read its keys. */
  trustAskedAt = 0;
  #signing: { readonly trust: CatalogTrust; readonly readAt: number } | undefined;
  readonly #execution: Execution;
  #rules: { readonly rules: CatalogRules; readonly at: number } | undefined;
  #lane: Promise<unknown> = Promise.resolve();
  #shown: string | undefined;

  constructor(identity: CatalogIdentity, carry: CatalogCarry | undefined) {
    this.catalog = carry?.catalog ?? startCatalog(identity);
    this.journal = new Journal(carry?.journal ?? EMPTY_JOURNAL);
    const info = workflowInfo();
    if (carry?.signing !== undefined) this.#signing = { trust: carry.signing.trust, readAt: carry.signing.readAt };
    this.#execution = {
      runId: info.runId,
      originalRunId: info.originalExecutionRunId ?? info.runId,
      earlier: carry?.signing?.earlier ?? [],
    };
    // Attributes outlive continue-as-new; details do not.
    if (carry !== undefined) {
      this.#shown = this.catalog.status;
      setCurrentDetails(catalogDetails(this.catalog));
    }
  }

  /** A refresh was asked for that has not ended. */
  get wantsRefresh(): boolean {
    const { status, refreshes, lastRefresh } = this.catalog;
    return status === 'connected' && refreshes > (lastRefresh?.refresh ?? 0);
  }

  /** In trust mode `signed`, as far as this catalog knows; `readAt` in epoch ms. */
  get signing(): { readonly trust: CatalogTrust; readonly readAt: number } | undefined {
    return this.#signing;
  }

  /** For live code only (INV-D4): differs after a reset. */
  get signedFor(): readonly string[] {
    return decidedIn(this.#execution);
  }

  /** @param trust undefined in trust mode `temporal`: it is the configuration's word, and its messages need no key any more */
  believe(trust: CatalogTrust | undefined): void {
    this.#signing = trust && { trust, readAt: Date.now() };
  }

  /** What the configuration said a moment ago, if it was asked then. */
  get freshRules(): CatalogRules | undefined {
    return this.#rules !== undefined && Date.now() - this.#rules.at < RULES_FRESH_MS ? this.#rules.rules : undefined;
  }

  /** One message after another: what one has checked, no other changes before it acts. */
  async inTurn<T>(act: () => Promise<T>): Promise<T> {
    // A request to cancel the catalog takes nothing from it, and no message either.
    const turn = this.#lane.then(async () => await CancellationScope.nonCancellable(act));
    this.#lane = turn.catch(() => undefined);
    return await turn;
  }

  /** Asks the configuration as it is now. */
  async review(wanted: Omit<ReviewInput, keyof CatalogIdentity>): Promise<Review> {
    const { tenant, server } = this.catalog;
    const asked = this.#signing;
    const known = asked === undefined ? {} : { trustHash: hashOf(asked.trust) };
    const answer = await reviewActivities().reviewChange({ tenant, server, ...wanted, ...known });
    const review = answered(this, 'reviewChange', answer);
    const { trust } = review;
    // Also of a message that is not believed: the next one is refused before it enters history.
    if (trust !== undefined && trust !== 'unchanged') this.believe(trust);
    // Somebody may have had them read meanwhile: what is newer stays.
    else if (trust === 'unchanged' && asked !== undefined && this.#signing === asked) this.believe(asked.trust);
    if (review.unproven !== undefined) return review;
    this.#rules = { rules: review.rules, at: Date.now() };
    const { newTools } = review.rules;
    const { revision } = this.catalog;
    // Also where the message is refused: readers that know this revision must see it.
    if (newTools !== this.catalog.newTools) this.catalog = { ...this.catalog, newTools, revision: revision + 1 };
    return review;
  }

  /** While it hands over: more has come than the next execution can be given, and it must be stored first. */
  get isOverfull(): boolean {
    return this.storedTo !== undefined && !canBeCarried(this.journal.entries(this.storedTo, this.journal.ledgerLength));
  }

  /** @throws ApplicationFailure `LIMIT_REACHED` where the catalog would be larger than an execution can hand on */
  commit(change: CatalogChange): void {
    const { catalog, facts } = change;
    if (catalog === this.catalog) return;
    const refusal = overLimit(change);
    if (refusal !== undefined) throw failureOf(refusal.code, refusal.message, refusal.facts);
    const { connection, status, revision } = this.catalog;
    this.catalog = { ...catalog, revision: revision + 1 };
    if (catalog.connection !== connection || catalog.status !== status) this.listing?.cancel();
    const now = Date.now();
    for (const fact of facts) this.journal.record(now, fact);
    this.#show();
  }

  snapshot(known: unknown): CatalogSnapshot | CatalogUnchanged {
    const { revision, answered: _, changesOpened: __, ...rest } = this.catalog;
    const mark = `${workflowInfo().runId}/${revision}`;
    if (known === mark) return { unchanged: true, mark };
    const { ledgerLength, ledgerHead } = this.journal;
    const signing = this.#signing === undefined ? {} : { signing: { runId: workflowInfo().runId } };
    // Sound: a query answer is written to JSON at once; what is readonly here is not changed by that.
    return { ...rest, revision, mark, ledgerLength, ledgerHead, ...signing } as CatalogSnapshot;
  }

  carry(journal: JournalHead): CatalogCarry {
    if (this.#signing !== undefined) {
      const signing = { ...this.#signing, earlier: carriedExecutions(this.#execution) };
      return { version: SIGNED_CARRY_VERSION, catalog: this.catalog, journal, signing };
    }
    return { version: CATALOG_CARRY_VERSION, catalog: this.catalog, journal };
  }

  #show(): void {
    const { status, tenant, server } = this.catalog;
    setCurrentDetails(catalogDetails(this.catalog));
    if (status === this.#shown) return;
    upsertSearchAttributes([
      { key: KEYS.status, value: status },
      ...(this.#shown === undefined && workflowInfo().typedSearchAttributes.get(KEYS.tenant) === undefined
        ? [
            { key: KEYS.tenant, value: tenant },
            { key: KEYS.servers, value: [server] },
          ]
        : []),
    ]);
    this.#shown = status;
  }
}
