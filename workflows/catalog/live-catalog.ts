/** One execution of a catalog: its state and ledger, and the handling of messages one after another. */
import { CancellationScope, setCurrentDetails, upsertSearchAttributes, workflowInfo } from '@temporalio/workflow';
import type { CatalogRules, CatalogSnapshot, CatalogUnchanged } from '../../contracts/schemas/catalog.ts';
import type { CatalogTrust } from '../../contracts/schemas/trust.ts';
import type { JournalHead } from '../../contracts/wire/carry.ts';
import type { CatalogActivities, CatalogIdentity, Review, ReviewInput } from '../../contracts/wire/catalog.ts';
import { canBeCarried, CATALOG_CARRY_VERSION, type CatalogCarry, overLimit } from '../../domain/catalog/carry.ts';
import { type Catalog, type CatalogChange, startCatalog } from '../../domain/catalog/state.ts';
import { carriedExecutions } from '../../domain/state/run.ts';
import { hashOf } from '../../domain/text/canonical.ts';
import { catalogDetails } from '../../domain/views/temporal-ui.ts';
import { Entity, refuseWith } from '../entity/entity.ts';
import { answered } from '../entity/unread.ts';
import { SEARCH_ATTRIBUTES } from '../../contracts/names.ts';
import { provenActivities } from '../interceptors/zone.ts';

/** How long the validators go by the configuration's last answer; the handlers behind them always ask anew. */
const RULES_FRESH_MS = 60_000;

export class LiveCatalog extends Entity {
  #catalog: Catalog;
  /** Set while handing over: ledger entries before this one are stored, or will be before this execution ends. */
  storedTo: number | undefined;
  isClosed = false;
  #listing: CancellationScope | undefined;
  #signing: { readonly trust: CatalogTrust; readonly readAt: number } | undefined;
  #rules: { readonly rules: CatalogRules; readonly at: number } | undefined;
  #lane: Promise<unknown> = Promise.resolve();
  #shown: string | undefined;

  constructor(identity: CatalogIdentity, carry: CatalogCarry | undefined) {
    super(carry?.journal, carry?.signing?.earlier);
    this.#catalog = carry?.catalog ?? startCatalog(identity);
    if (carry?.signing !== undefined) this.#signing = { trust: carry.signing.trust, readAt: carry.signing.readAt };
    // Attributes outlive continue-as-new; details do not.
    if (carry !== undefined) {
      this.#shown = this.catalog.status;
      setCurrentDetails(catalogDetails(this.catalog));
    }
  }

  get catalog(): Catalog {
    return this.#catalog;
  }

  get wantsRefresh(): boolean {
    const { status, refreshes, lastRefresh } = this.catalog;
    return status === 'connected' && refreshes > (lastRefresh?.refresh ?? 0);
  }

  /** The keys in trust mode `signed`, as far as this catalog knows them; `readAt` in epoch ms. */
  get signing(): { readonly trust: CatalogTrust; readonly readAt: number } | undefined {
    return this.#signing;
  }

  /** @param trust undefined in trust mode `temporal`: messages to the catalog need no key any more */
  believe(trust: CatalogTrust | undefined): void {
    this.#signing = trust && { trust, readAt: Date.now() };
  }

  get freshRules(): CatalogRules | undefined {
    return this.#rules !== undefined && Date.now() - this.#rules.at < RULES_FRESH_MS ? this.#rules.rules : undefined;
  }

  /** Runs messages one after another, so that no other message changes what one has checked before it acts. */
  async inTurn<T>(act: () => Promise<T>): Promise<T> {
    // A request to cancel the catalog takes no state or message from it.
    const turn = this.#lane.then(async () => await CancellationScope.nonCancellable(act));
    this.#lane = turn.catch(() => undefined);
    return await turn;
  }

  /** Opens the scope of a listing, which is given up if the server is disconnected or connected differently. */
  beginListing(): CancellationScope {
    this.#listing = new CancellationScope();
    return this.#listing;
  }

  /** Begins to hand over: what is in the ledger by now is being stored. */
  handOver(): void {
    this.commit({ catalog: { ...this.#catalog }, facts: [{ kind: 'catalog.rolled' }] });
    this.storedTo = this.journal.ledgerLength;
  }

  async review(wanted: Omit<ReviewInput, keyof CatalogIdentity>): Promise<Review> {
    const { tenant, server } = this.catalog;
    const asked = this.#signing;
    const known = asked === undefined ? {} : { trustHash: hashOf(asked.trust) };
    const answer = await reviewActivities().reviewChange({ tenant, server, ...wanted, ...known });
    const review = answered(this, 'reviewChange', answer);
    const { trust } = review;
    // The keys also come with an unproven message; the next such message is refused before it enters history.
    if (trust !== undefined && trust !== 'unchanged') this.believe(trust);
    // Newer keys may have been read meanwhile, and they stay.
    else if (trust === 'unchanged' && asked !== undefined && this.#signing === asked) this.believe(asked.trust);
    if (review.unproven !== undefined) return review;
    this.#rules = { rules: review.rules, at: Date.now() };
    const { newTools } = review.rules;
    const { revision } = this.catalog;
    // The new revision also counts if the message is refused: readers that know this revision must see the change.
    if (newTools !== this.catalog.newTools) this.#catalog = { ...this.catalog, newTools, revision: revision + 1 };
    return review;
  }

  get isOverfull(): boolean {
    return this.storedTo !== undefined && !canBeCarried(this.journal.entries(this.storedTo, this.journal.ledgerLength));
  }

  /** @throws ApplicationFailure `LIMIT_REACHED` if the catalog would be larger than an execution can hand over */
  commit(change: CatalogChange): void {
    const { catalog, facts } = change;
    if (catalog === this.catalog) return;
    refuseWith(overLimit(change));
    const { connection, status, revision } = this.catalog;
    this.#catalog = { ...catalog, revision: revision + 1 };
    if (catalog.connection !== connection || catalog.status !== status) this.#listing?.cancel();
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
    // Sound: a query answer is written to JSON at once, which does not change the readonly parts.
    return { ...rest, revision, mark, ledgerLength, ledgerHead, ...signing } as CatalogSnapshot;
  }

  carry(journal: JournalHead): CatalogCarry {
    const carried = { version: CATALOG_CARRY_VERSION, catalog: this.catalog, journal } as const;
    if (this.#signing === undefined) return carried;
    return { ...carried, signing: { ...this.#signing, earlier: carriedExecutions(this.decidedIn) } };
  }

  #show(): void {
    const { status, tenant, server } = this.catalog;
    setCurrentDetails(catalogDetails(this.catalog));
    if (status === this.#shown) return;
    upsertSearchAttributes([
      { key: SEARCH_ATTRIBUTES.status, value: status },
      ...(this.#shown === undefined && workflowInfo().typedSearchAttributes.get(SEARCH_ATTRIBUTES.tenant) === undefined
        ? [
            { key: SEARCH_ATTRIBUTES.tenant, value: tenant },
            { key: SEARCH_ATTRIBUTES.servers, value: [server] },
          ]
        : []),
    ]);
    this.#shown = status;
  }
}

/** Options for reviewing a message. Its sender waits for the answer, so the times are short. */
function reviewActivities() {
  return provenActivities<CatalogActivities>({
    startToCloseTimeout: '10s',
    // This bound also holds when no worker takes the activity: a message must not act after its sender has given up.
    scheduleToCloseTimeout: '30s',
    retry: { initialInterval: '200ms', maximumInterval: '2s', maximumAttempts: 5 },
    summary: 'who may, and what can be honoured',
  });
}
