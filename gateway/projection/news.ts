/**
 * Tells many readers of changed runs, each only what the reader may see.
 *
 * 1. A changed run is asked once, whatever the number of readers, and only while there are readers.
 * 2. Events have numbers; a reader that missed some gets them again, or is told to read the lists anew.
 * 3. Each reader goes at its own pace, and each run tells its changes in order: none waits for another.
 * 4. Events that are kept are bounded by number and by bytes, and hold no arguments; the oldest go first.
 */
import { randomBytes } from 'node:crypto';
import { defined } from '../../contracts/defined.ts';
import { CountersignError } from '../../contracts/errors.ts';
import type { ChangeEvent } from '../../contracts/schemas/http-api.ts';
import type { ApprovalRequest } from '../../contracts/schemas/request.ts';
import { seesRequest, seesRun } from '../../domain/request/onlooker.ts';
import { type Decidable, permittedTo } from '../../domain/request/permitted.ts';
import type { Asker } from '../identity/person.ts';
import type { Opened } from './opened.ts';
import { asOfText, type Known, type Projection } from './projection.ts';
import { weightOf } from '../cache/weight.ts';

/** Events that are kept for readers who come back. Most take 5 KB; lists of approvers have any length. */
const MOST_KEPT = 2_000;
const MOST_KEPT_BYTES = 33_554_432;

/** What readers are told of an open request, and what says which of them may see it and what each may do. */
type Open = Decidable & Pick<ApprovalRequest, 'callId' | 'digest'>;

interface News {
  readonly number: number;
  readonly run: Known['row'];
  readonly open: readonly Open[];
  /** Bytes, estimated. */
  readonly weight: number;
}

interface Reader {
  readonly asker: Asker;
  /** Number of the last event that the reader has. */
  reached: number;
  /** True while the reader is being told what is kept. */
  isBusy: boolean;
  readonly tell: Tell;
  readonly lose: () => void;
}

/** Told an event; the next one waits for what it returns. */
type Tell = (id: string, event: ChangeEvent) => Promise<void> | void;

export class NewsDesk {
  readonly #projection: Projection;
  readonly #opened: Opened;
  /** Numbers begin anew with each process, so they are told apart by this. */
  readonly #epoch = randomBytes(6).toString('hex');
  readonly #readers = new Set<Reader>();
  readonly #kept: News[] = [];
  #keptBytes = 0;
  #number = 0;
  /** Run → its last change that is being read. */
  readonly #last = new Map<string, Promise<void>>();
  readonly #unsubscribe: () => void;

  constructor(projection: Projection, opened: Opened) {
    this.#projection = projection;
    this.#opened = opened;
    this.#unsubscribe = projection.subscribe((changed) => {
      for (const known of changed) this.#take(known);
    });
  }

  close(): void {
    this.#unsubscribe();
  }

  get newest(): string {
    return this.#idOf(this.#number);
  }

  /**
   * Begins to tell a reader.
   * @param lastId the id of the last event that the reader has
   * @param lose called when the reader was so slow that events are not kept any more; it is told the later ones
   * @returns how to end it, and true if events were missed that are not kept any more
   */
  follow(
    asker: Asker,
    lastId: string | undefined,
    tell: Tell,
    lose: () => void = () => undefined,
  ): { readonly end: () => void; readonly missed: boolean } {
    const since = this.#numberIn(lastId);
    const first = this.#kept[0]?.number ?? this.#number + 1;
    const missed = lastId !== undefined && (since === undefined || since + 1 < first);
    const reached = missed || since === undefined ? this.#number : since;
    const reader: Reader = { asker, tell, lose, reached, isBusy: false };
    this.#readers.add(reader);
    this.#wake(reader);
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

  #take({ row }: Known): void {
    if (this.#readers.size === 0) {
      // Without readers nobody is asked; whoever comes later reads the lists first. What was not read cannot be told
      // later.
      this.#number += 1;
      this.#kept.length = 0;
      this.#keptBytes = 0;
      return;
    }
    const before = this.#last.get(row.runId);
    const read = async (): Promise<void> => {
      await before;
      this.#publish(row, await this.#openOf(row));
    };
    const reading = read()
      .catch(() => undefined)
      .finally(() => {
        if (this.#last.get(row.runId) === reading) this.#last.delete(row.runId);
      });
    this.#last.set(row.runId, reading);
  }

  #publish(run: Known['row'], open: readonly Open[]): void {
    this.#number += 1;
    const weight = weightOf({ run, open });
    this.#kept.push({ number: this.#number, run, open, weight });
    this.#keptBytes += weight;
    // The newest stays, however large: it has been told to nobody yet.
    while (this.#kept.length > MOST_KEPT || (this.#keptBytes > MOST_KEPT_BYTES && this.#kept.length > 1))
      this.#keptBytes -= this.#kept.shift()?.weight ?? 0;
    for (const reader of this.#readers) this.#wake(reader);
  }

  #wake(reader: Reader): void {
    // A reader that cannot be told anything is none.
    if (!reader.isBusy) this.#tellAll(reader).catch(() => this.#readers.delete(reader));
  }

  async #tellAll(reader: Reader): Promise<void> {
    reader.isBusy = true;
    try {
      while (this.#readers.has(reader) && reader.reached < this.#number) {
        const first = this.#kept[0]?.number ?? this.#number + 1;
        const news = this.#kept[reader.reached + 1 - first];
        if (news === undefined) {
          reader.reached = this.#number;
          reader.lose();
          return;
        }
        const told = this.#tell(reader, news);
        if (told !== undefined) await told;
      }
    } finally {
      reader.isBusy = false;
    }
  }

  async #openOf({ runId, pending }: Known['row']): Promise<readonly Open[]> {
    if (pending === 0) return [];
    try {
      return (await this.#opened.requests(runId)).filter(({ status }) => status === 'open').map(openOf);
    } catch (error) {
      if (error instanceof CountersignError) return [];
      throw error;
    }
  }

  #tell(reader: Reader, { number, run, open }: News): Promise<void> | void {
    reader.reached = number;
    const { asker } = reader;
    if (!this.#maySee(run, asker)) return undefined;
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
    return reader.tell(this.#idOf(number), { run: runId, status, pending, requests, asOf });
  }

  /** Also whoever was asked before is told that nothing waits any more. */
  #maySee(run: Known['row'], asker: Asker): boolean {
    if (seesRun(run, asker)) return true;
    return this.#opened.knownRules(run.runId).some((approvers) => seesRequest(run, { approvers }, asker));
  }
}

/** A request whole has arguments of any size. */
function openOf(request: ApprovalRequest): Open {
  const { callId, digest, status, approvers, openedAt, deadline, extensions, votes, asItIs, about } = request;
  return {
    callId,
    digest,
    status,
    approvers,
    openedAt,
    deadline,
    ...defined({ extensions, votes, asItIs, about: about && { kind: about.kind } }),
  };
}
