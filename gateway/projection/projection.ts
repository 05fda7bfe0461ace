/**
 * Holds what lists show of all runs, rebuilt from visibility, and the requests that somebody has opened.
 *
 * 1. It is never the truth: a run judges every answer by itself, and the projection may be dropped at any time.
 * 2. One sweep of visibility a second serves all viewers. A run is asked only if it has changed, or if somebody opens
 *    it, and once for all who do (`Opened`).
 * 3. `asOf` is the start of the last whole sweep: every change that visibility had before it is here.
 * 4. Runs that do not go on are counted now and then by one query, for metrics alone, where the server can tell.
 * 5. Memory is bounded: the newest runs stay, and `isCut` says that others are missing.
 */
import { setTimeout as pause } from 'node:timers/promises';
import type { Client } from '@temporalio/client';
import { defined } from '../../contracts/defined.ts';
import type { RunRow } from '../../contracts/schemas/http-api.ts';
import { endedSince, type ReadRow, rowsOf, RUNNING, type SeenRow, stuckRuns } from './visibility.ts';

const EVERY_MS = 1_000;
/** Runs that ended so long before the gateway started are not in its lists. */
const PAST_MS = 86_400_000;
/** Visibility may show an end so much later than it happened. */
const LAG_MS = 15_000;
/** Sweeps for which a run may be missing: between two executions visibility shows neither. */
const MOST_MISSES = 3;
const LONGEST_PAUSE_MS = 10_000;
/** Time after which a server that could not tell which runs are stuck is asked again: it may be a newer one. */
const UNTOLD_MS = 3_600_000;

export interface Known extends ReadRow {
  readonly mark: string;
  /** Grows with each change of any run. */
  readonly version: number;
  readonly misses: number;
}

export interface ProjectionOptions {
  readonly client: Client;
  readonly most: number;
  readonly everyMs?: number;
  /** Time between two counts of runs that do not go on; absent: they are not counted. */
  readonly stuckEveryMs?: number;
  /** Told once for each time that visibility does not answer. */
  readonly onTrouble?: (error: unknown) => void;
}

type Listener = (changed: readonly Known[]) => void;

export class Projection {
  readonly #options: ProjectionOptions;
  readonly #runs = new Map<string, Known>();
  readonly #listeners = new Set<Listener>();
  readonly #over = new AbortController();
  #version = 0;
  #asOf: number | undefined;
  #isCut = false;
  #closedSince: number;
  #sweeping: Promise<void> | undefined;
  #stuck: number | undefined;
  /** Epoch ms of the next count; undefined while one is under way. */
  #countsAt: number | undefined = 0;
  #waiting: { readonly version: number; readonly runs: readonly Known[] } | undefined;

  constructor(options: ProjectionOptions) {
    this.#options = options;
    this.#closedSince = Date.now() - PAST_MS;
  }

  /** Sweeps once, then every second. @throws as the client, if the first sweep fails */
  async start(): Promise<void> {
    await this.sweep();
    void this.#goOn();
  }

  async stop(): Promise<void> {
    this.#over.abort();
    await this.#sweeping?.catch(() => undefined);
  }

  /** Epoch ms; undefined before the first sweep has ended. */
  get asOf(): number | undefined {
    return this.#asOf;
  }

  get isCut(): boolean {
    return this.#isCut;
  }

  get size(): number {
    return this.#runs.size;
  }

  /** Open runs that did not go on when they were last counted; undefined if nobody can tell. */
  get stuck(): number | undefined {
    return this.#stuck;
  }

  run(runId: string): Known | undefined {
    return this.#runs.get(runId);
  }

  runs(): IterableIterator<Known> {
    return this.#runs.values();
  }

  waiting(): readonly Known[] {
    if (this.#waiting?.version !== this.#version) {
      const runs = [...this.#runs.values()].filter(({ row }) => row.pending > 0);
      this.#waiting = { version: this.#version, runs: runs.toSorted(byDeadline) };
    }
    return this.#waiting.runs;
  }

  /** @returns ends the subscription */
  subscribe(listener: Listener): () => void {
    this.#listeners.add(listener);
    return () => void this.#listeners.delete(listener);
  }

  /** Tells of a run whose requests were found changed by asking it, before visibility shows it. */
  touch(runId: string): void {
    const known = this.#runs.get(runId);
    if (known === undefined) return;
    const next = { ...known, version: (this.#version += 1) };
    this.#runs.set(runId, next);
    this.#tell([next]);
  }

  /** Reads visibility once; several callers at a time share one reading. */
  async sweep(): Promise<void> {
    this.#sweeping ??= this.#sweep().finally(() => (this.#sweeping = undefined));
    await this.#sweeping;
  }

  async #goOn(): Promise<void> {
    const { everyMs = EVERY_MS, onTrouble } = this.#options;
    const { signal } = this.#over;
    for (let failures = 0; !signal.aborted;) {
      const pauseMs = Math.min(LONGEST_PAUSE_MS, everyMs * 2 ** failures);
      await pause(pauseMs, undefined, { signal, ref: false }).catch(() => undefined);
      if (signal.aborted) return;
      try {
        await this.sweep();
        failures = 0;
        // No sweep waits for it.
        void this.#countStuck();
      } catch (error) {
        if (signal.aborted) return;
        if (failures === 0) onTrouble?.(error);
        failures = Math.min(failures + 1, 4);
      }
    }
  }

  async #countStuck(): Promise<void> {
    const { client, stuckEveryMs } = this.#options;
    if (stuckEveryMs === undefined || this.#countsAt === undefined || Date.now() < this.#countsAt) return;
    this.#countsAt = undefined;
    let nextMs = stuckEveryMs;
    try {
      this.#stuck = await stuckRuns(client, this.#over.signal);
      if (this.#stuck === undefined) nextMs = UNTOLD_MS;
    } catch {
      // The sweeps tell that visibility does not answer.
    }
    this.#countsAt = Date.now() + nextMs;
  }

  async #sweep(): Promise<void> {
    const { client, most } = this.#options;
    const { signal } = this.#over;
    const ended = endedSince(new Date(this.#closedSince));
    const startedAt = Date.now();
    const changed: SeenRow[] = [];
    const seen = new Set<string>();
    let isCut = false;
    const take = (found: SeenRow): boolean => {
      if (seen.has(found.runId)) return true;
      if (seen.size >= most) {
        isCut = true;
        return false;
      }
      seen.add(found.runId);
      if (this.#runs.get(found.runId)?.mark !== found.mark) changed.push(found);
      return true;
    };
    for await (const found of rowsOf(client, RUNNING, signal)) if (!take(found)) break;
    const open = new Set(seen);
    for await (const found of rowsOf(client, ended, signal)) if (!take(found)) break;
    const news = await Promise.all(changed.map(async (each) => await this.#known(each)));
    for (const known of news) {
      this.#runs.delete(known.row.runId);
      this.#runs.set(known.row.runId, known);
    }
    this.#dropGone(open, seen);
    this.#isCut = isCut;
    this.#closedSince = startedAt - LAG_MS;
    this.#asOf = startedAt;
    if (news.length > 0) this.#tell(news);
  }

  async #known({ mark, read }: SeenRow): Promise<Known> {
    return { ...(await read()), mark, version: (this.#version += 1), misses: 0 };
  }

  /** Drops runs that visibility no longer has, and the oldest ended ones if there are too many. */
  #dropGone(open: ReadonlySet<string>, seen: ReadonlySet<string>): void {
    for (const [runId, known] of this.#runs) {
      if (known.row.endedAt !== undefined || seen.has(runId)) {
        if (known.misses > 0) this.#runs.set(runId, { ...known, misses: 0 });
      } else if (known.misses < MOST_MISSES) this.#runs.set(runId, { ...known, misses: known.misses + 1 });
      else {
        this.#runs.delete(runId);
        this.#version += 1;
      }
    }
    // The map holds what changed last at its end.
    for (const runId of this.#runs.keys()) {
      if (this.#runs.size <= this.#options.most) break;
      if (!open.has(runId)) this.#runs.delete(runId);
    }
  }

  #tell(changed: readonly Known[]): void {
    for (const listener of this.#listeners) listener(changed);
  }
}

/** A deadline that the row does not have comes last. */
export function deadlineOf({ row }: { readonly row: RunRow }): string {
  return row.nextDeadline ?? '9';
}

function byDeadline(one: Known, other: Known): number {
  return compared([deadlineOf(one), one.row.runId], [deadlineOf(other), other.row.runId]);
}

/** Compares lists of texts by code units, as cursors do. */
export function compared(one: readonly string[], other: readonly string[]): number {
  for (const [index, left] of one.entries()) {
    const right = other[index] ?? '';
    if (left !== right) return left < right ? -1 : 1;
  }
  return 0;
}

export function asOfText(projection: Pick<Projection, 'asOf'>): { readonly asOf?: string } {
  return defined({ asOf: projection.asOf === undefined ? undefined : new Date(projection.asOf).toISOString() });
}
