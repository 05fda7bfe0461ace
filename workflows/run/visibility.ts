/**
 * Shows a run in Temporal UI and visibility.
 *
 * 1. At most one upsert of attributes and memo happens per workflow task, and none if nothing changed.
 */
import type { SearchAttributeUpdatePair } from '@temporalio/common';
import { setCurrentDetails, upsertMemo, upsertSearchAttributes, workflowInfo } from '@temporalio/workflow';
import { PENDING_MEMO, SEARCH_ATTRIBUTES, SPEC_HASH_MEMO } from '../../contracts/names.ts';
import type { RunStatus } from '../../contracts/schemas/run-state.ts';
import type { Asking } from '../../domain/state/call.ts';
import { askingCalls } from '../../domain/state/run.ts';
import { currentDetails, listedWithin, pendingAttributes, pendingMemo } from '../../domain/views/temporal-ui.ts';
import type { LiveRun } from './live-run.ts';

/** Writes search attributes, memo and current details whenever the run changes. */
export class Surface {
  readonly #live: LiveRun;
  /** The value that visibility shows now. */
  #shown: string;
  #memoShown: boolean;
  #isScheduled = false;

  constructor(live: LiveRun) {
    this.#live = live;
    const { typedSearchAttributes, continuedFromExecutionRunId } = workflowInfo();
    // The value that an earlier execution showed last is not known here, so it is shown once more.
    this.#memoShown = continuedFromExecutionRunId !== undefined;
    // A client that starts a run sets the attributes with it; a plain start leaves them to this class.
    this.#shown =
      this.#memoShown || typedSearchAttributes.get(SEARCH_ATTRIBUTES.tenant) === undefined
        ? ''
        : keyOf('preparing', []);
    live.showWith(() => this.#showSoon());
    // The first activity may take minutes, and people look meanwhile.
    if (!live.isPrepared) setCurrentDetails(currentDetails(live.status, live.run));
  }

  /** Shows all changes of one task at once. A promise is cheap, and a waiting `condition` is not. */
  #showSoon(): void {
    if (this.#isScheduled) return;
    this.#isScheduled = true;
    void Promise.resolve().then(() => this.show());
  }

  show(): void {
    this.#isScheduled = false;
    const live = this.#live;
    const { status, run } = live;
    if (!live.isPrepared) return this.#showEarlyEnd(status);
    setCurrentDetails(currentDetails(status, run, whyShown(live), live.stretched));
    const asking = askingCalls(run).map(shownAs);
    // The run goes on to wait for them in this very task.
    if (asking.length > 0 && BEFORE.has(status)) return;
    const shown = keyOf(status, asking);
    if (shown === this.#shown) return;
    this.#showAttributes();
    this.#showMemo(asking.length);
    this.#shown = shown;
  }

  /** Shows the end of a run whose spec is not known yet; such a run has nothing else to show. */
  #showEarlyEnd(status: RunStatus): void {
    setCurrentDetails(currentDetails(status, this.#live.run, this.#live.because));
    if (shownStatus(status) === RUNNING || this.#shown === status) return;
    upsertSearchAttributes([
      { key: SEARCH_ATTRIBUTES.status, value: status },
      { key: SEARCH_ATTRIBUTES.pending, value: 0 },
    ]);
    this.#shown = status;
  }

  #showAttributes(): void {
    const live = this.#live;
    const { pending, nextDeadline, waitingSince, approvers, tools } = pendingAttributes(live.run);
    const pairs: SearchAttributeUpdatePair[] = [
      { key: SEARCH_ATTRIBUTES.status, value: shownStatus(live.status) },
      { key: SEARCH_ATTRIBUTES.pending, value: pending },
    ];
    if (pending > 0 || this.#memoShown) {
      pairs.push(
        { key: SEARCH_ATTRIBUTES.nextDeadline, value: nextDeadline ?? null },
        { key: SEARCH_ATTRIBUTES.waitingSince, value: waitingSince ?? null },
        { key: SEARCH_ATTRIBUTES.approvers, value: approvers.length > 0 ? [...approvers] : null },
        { key: SEARCH_ATTRIBUTES.tools, value: tools.length > 0 ? [...tools] : null },
      );
    }
    if (this.#shown === '') {
      const { initiator, servers } = live.prepared;
      pairs.push(
        { key: SEARCH_ATTRIBUTES.initiator, value: initiator.id },
        { key: SEARCH_ATTRIBUTES.tenant, value: initiator.tenant },
        { key: SEARCH_ATTRIBUTES.root, value: workflowInfo().workflowId },
      );
      if (servers.length > 0)
        pairs.push({ key: SEARCH_ATTRIBUTES.servers, value: [...listedWithin(servers.map(({ name }) => name))] });
    }
    upsertSearchAttributes(pairs);
  }

  /** Writes the memo; a run without requests, started by a client that stored the hash, needs none. */
  #showMemo(waiting: number): void {
    const live = this.#live;
    const hasHash = workflowInfo().memo?.[SPEC_HASH_MEMO] !== undefined;
    if (waiting === 0 && !this.#memoShown && hasHash) return;
    this.#memoShown = waiting > 0;
    upsertMemo({
      [PENDING_MEMO]: waiting > 0 ? pendingMemo(live.run, live.ids) : null,
      ...(hasHash ? {} : { [SPEC_HASH_MEMO]: live.prepared.specHash }),
    });
  }
}

const RUNNING = 'running';

/** Key of one request: the parts of it that lists show. */
function shownAs({ call, request }: Asking): string {
  const { generation, extended, deadline, told } = request;
  return `${call.callId}/${generation}${extended === undefined ? '' : `/${deadline}`}${told === undefined ? '' : `!${told}`}`;
}

/** Key of everything that lists show; a new key means a new upsert. */
function keyOf(status: RunStatus, asking: readonly string[]): string {
  return `${shownStatus(status)} ${asking.join(' ')}`;
}

function whyShown(live: LiveRun): string | undefined {
  if (live.endsAs !== undefined) return ending(live);
  const { listing, because } = live;
  return listing.size === 0 ? because : `lists the tools of ${[...listing.items].join(', ')}`;
}

function ending({ endsAs, because }: LiveRun): string {
  const why = because === undefined ? '' : `, ${because}`;
  return `ends ${endsAs}${why}, once transcript and ledger are stored`;
}

/** Statuses in which a request may be open, and the run does not wait for it yet. */
const BEFORE: ReadonlySet<RunStatus> = new Set(['preparing', 'thinking']);

const BUSY: ReadonlySet<RunStatus> = new Set(['preparing', 'thinking', 'acting', 'storing']);

/**
 * Status in lists. `thinking` and `acting` change every second and mean the same to a reader; a run that is being
 * stored is not over yet.
 */
function shownStatus(status: RunStatus): string {
  return BUSY.has(status) ? RUNNING : status;
}
