/**
 * Tells many readers of changed runs, each only what the reader may see.
 *
 * 1. A changed run is asked once, whatever the number of readers, and only while there are readers.
 * 2. Events have numbers; a reader that missed some gets them again, or is told to read the lists anew.
 */
import { randomBytes } from 'node:crypto';
import { CountersignError } from '../../contracts/errors.ts';
import type { ChangeEvent } from '../../contracts/schemas/http-api.ts';
import type { ApprovalRequest } from '../../contracts/schemas/request.ts';
import { seesRequest, seesRun } from '../../domain/request/onlooker.ts';
import { permittedTo } from '../../domain/request/permitted.ts';
import type { Asker } from '../identity/person.ts';
import type { Opened } from './opened.ts';
import { asOfText, type Known, type Projection } from './projection.ts';

/** Events that are kept for readers who come back. */
const MOST_KEPT = 2_000;

interface News {
  readonly number: number;
  readonly run: Known['row'];
  readonly open: readonly ApprovalRequest[];
}

interface Reader {
  readonly asker: Asker;
  /** Number of the last event that the reader has. */
  reached: number;
  tell(id: string, event: ChangeEvent): void;
}

export class NewsDesk {
  readonly #projection: Projection;
  readonly #opened: Opened;
  /** Numbers begin anew with each process, so they are told apart by this. */
  readonly #epoch = randomBytes(6).toString('hex');
  readonly #readers = new Set<Reader>();
  readonly #kept: News[] = [];
  #number = 0;
  #last: Promise<void> = Promise.resolve();
  readonly #unsubscribe: () => void;

  constructor(projection: Projection, opened: Opened) {
    this.#projection = projection;
    this.#opened = opened;
    this.#unsubscribe = projection.subscribe((changed) => {
      this.#last = this.#last.then(async () => await this.#take(changed)).catch(() => undefined);
    });
  }

  close(): void {
    this.#unsubscribe();
  }

  /** The id of the newest event. */
  get newest(): string {
    return this.#idOf(this.#number);
  }

  /**
   * Begins to tell a reader.
   * @param lastId the id of the last event that the reader has
   * @returns how to end it, and true if events were missed that are not kept any more
   */
  follow(
    asker: Asker,
    lastId: string | undefined,
    tell: Reader['tell'],
  ): { readonly end: () => void; readonly missed: boolean } {
    const reached = this.#numberIn(lastId);
    const first = this.#kept[0]?.number ?? this.#number + 1;
    const missed = lastId !== undefined && (reached === undefined || reached + 1 < first);
    const reader: Reader = { asker, tell, reached: missed || reached === undefined ? this.#number : reached };
    this.#readers.add(reader);
    for (const news of this.#kept) this.#tell(reader, news);
    return { end: () => void this.#readers.delete(reader), missed };
  }

  #numberIn(id: string | undefined): number | undefined {
    const [epoch, number] = (id ?? '').split('.');
    const read = Number(number);
    return epoch === this.#epoch && Number.isSafeInteger(read) && read <= this.#number ? read : undefined;
  }

  #idOf(number: number): string {
    return `${this.#epoch}.${number}`;
  }

  async #take(changed: readonly Known[]): Promise<void> {
    // Without readers nobody is asked; whoever comes later reads the lists first.
    const isRead = this.#readers.size > 0;
    const open = await Promise.all(changed.map(async ({ row }) => (isRead ? await this.#openOf(row) : [])));
    for (const [index, { row: run }] of changed.entries()) {
      this.#number += 1;
      const news = { number: this.#number, run, open: open[index] ?? [] };
      if (!isRead) {
        // What was not read cannot be told later.
        this.#kept.length = 0;
        continue;
      }
      this.#kept.push(news);
      if (this.#kept.length > MOST_KEPT) this.#kept.shift();
      for (const reader of this.#readers) this.#tell(reader, news);
    }
  }

  async #openOf({ runId, pending }: Known['row']): Promise<readonly ApprovalRequest[]> {
    if (pending === 0) return [];
    try {
      return (await this.#opened.requests(runId)).filter(({ status }) => status === 'open');
    } catch (error) {
      if (error instanceof CountersignError) return [];
      throw error;
    }
  }

  #tell(reader: Reader, { number, run, open }: News): void {
    if (number <= reader.reached) return;
    reader.reached = number;
    const { asker } = reader;
    if (!this.#maySee(run, asker)) return;
    const now = Date.now();
    const requests = open
      .filter((request) => seesRequest(run, request, asker))
      .map((request) => ({
        callId: request.callId,
        digest: request.digest,
        offers: [...permittedTo(request, asker, now)],
      }));
    const { runId, status, pending } = run;
    const asOf = asOfText(this.#projection).asOf ?? '';
    reader.tell(this.#idOf(number), { run: runId, status, pending, requests, asOf });
  }

  /** Also whoever was asked before is told that nothing waits any more. */
  #maySee(run: Known['row'], asker: Asker): boolean {
    if (seesRun(run, asker)) return true;
    return this.#opened.knownRules(run.runId).some((approvers) => seesRequest(run, { approvers }, asker));
  }
}
