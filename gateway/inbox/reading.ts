/**
 * Answers what people read: lists of runs and requests, and single ones, each only as far as the person may see it.
 *
 * 1. What does not exist and what the person may not see get the same answer.
 * 2. Lists come from the projection, and offer what `domain/request/permitted.ts` allows, by requests as their runs
 *    show them.
 * 3. A cursor names the last row of its page, so that rows that come and go move no other row.
 */
import type { Client } from '@temporalio/client';
import { LRUCache } from 'lru-cache';
import { z } from 'zod';
import { jsonOf } from '../../client/ledger/files.ts';
import { CountersignError } from '../../contracts/errors.ts';
import type {
  RequestPage,
  RequestQuery,
  RequestRow,
  RunPage,
  RunQuery,
  RunRow,
  ShownRequest,
} from '../../contracts/schemas/http-api.ts';
import type { ApproverRule } from '../../contracts/schemas/policy.ts';
import type { ApprovalRequest } from '../../contracts/schemas/request.ts';
import { rememberable, seesRequest, seesRun, waitingNames } from '../../domain/request/onlooker.ts';
import { type Compared, isSamePerson } from '../../domain/policy/approvers.ts';
import { type Permission, permittedTo } from '../../domain/request/permitted.ts';
import type { Asker } from '../identity/person.ts';
import { Misfit } from '../http/problem.ts';
import { FAILED_IN_LISTS_MS, type Opened } from '../projection/opened.ts';
import { compared, deadlineOf, type Known, type Projection } from '../projection/projection.ts';
import { rowOf } from '../projection/visibility.ts';

/** Runs that are asked at a time to fill a page; less than `Opened` asks at once, so that one list leaves room. */
const BATCH = 8;

export interface Seen {
  readonly run: RunRow;
  readonly initiator: string;
}

export class Reading {
  readonly #client: Client;
  readonly #projection: Projection;
  readonly #opened: Opened;
  readonly #now: () => number;
  /** Runs whose whole ledger was read in vain lately. */
  readonly #unnamed = new LRUCache<string, number>({ max: 10_000 });

  constructor(client: Client, projection: Projection, opened: Opened, now: () => number = Date.now) {
    this.#client = client;
    this.#projection = projection;
    this.#opened = opened;
    this.#now = now;
  }

  /** Finds a run that the person may see. @throws CountersignError `RUN_NOT_FOUND` */
  async seen(runId: string, asker: Asker): Promise<Seen> {
    const listed = this.#projection.run(runId);
    // A run that was started without the library is listed before its first activity has said whose it is.
    const held = listed?.row.tenant === '' ? undefined : listed;
    const known = held ?? (await this.#described(runId));
    const { row } = known ?? {};
    if (
      known === undefined ||
      row?.tenant !== asker.tenant ||
      !(seesRun(row, asker) || (await this.#isNamedIn(known, asker)))
    ) {
      // A refusal asks Temporal whether the gateway holds the run or not, so that both take the same and fail alike.
      if (held !== undefined) await this.#described(runId);
      throw noRun(runId);
    }
    return { run: row, initiator: row.initiator };
  }

  async #described(runId: string): Promise<Pick<Known, 'row' | 'approvers'> | undefined> {
    return await (await rowOf(this.#client, runId))?.read();
  }

  /** True if some request of the run names the person; also one of an earlier turn. */
  async #isNamedIn({ row, approvers }: Pick<Known, 'row' | 'approvers'>, asker: Asker): Promise<boolean> {
    const isOf = (rule: ApproverRule): boolean => seesRequest(row, { approvers: rule }, asker);
    if (waitsFor(approvers, asker) === 'yes' || this.#opened.knownRules(row.runId).some(isOf)) return true;
    try {
      if (row.pending > 0 && (await this.#opened.requests(row.runId)).some((each) => isOf(each.approvers))) return true;
      if (this.#now() - (this.#unnamed.get(row.runId) ?? Number.NEGATIVE_INFINITY) < UNNAMED_MS) return false;
      if ((await this.#opened.everyRule(row.runId)).some(isOf)) return true;
      this.#unnamed.set(row.runId, this.#now());
      return false;
    } catch (error) {
      // Another answer would tell that the run is there.
      if (error instanceof CountersignError) return false;
      throw error;
    }
  }

  async requestsOf(runId: string, asker: Asker): Promise<readonly ShownRequest[]> {
    const { run, initiator } = await this.seen(runId, asker);
    const requests = await this.#opened.requests(runId);
    return requests
      .filter((request) => seesRequest(run, request, asker))
      .map((request) => this.#shown(request, { run, initiator }, asker));
  }

  /** @throws CountersignError `RUN_NOT_FOUND`, `CALL_UNKNOWN` */
  async requestOf(runId: string, callId: string, asker: Asker): Promise<ShownRequest> {
    const found = (await this.requestsOf(runId, asker)).find(({ request }) => request.callId === callId);
    if (found === undefined) throw noCall(runId, callId);
    return found;
  }

  #shown(request: ApprovalRequest, { run, initiator }: Seen, asker: Asker): ShownRequest {
    // A run that was terminated had no moment to close its requests, and takes no answer.
    const offers = run.endedAt === undefined ? permittedTo(request, asker, this.#now()) : new Set<Permission>();
    return { request, initiator, offers: [...offers], remember: [...rememberable(request, asker, offers)] };
  }

  /** Lists runs that the person may see, newest first. */
  runs({ most, cursor, ...wanted }: RunQuery, asker: Asker): RunPage {
    const after = cursor === undefined ? undefined : keyIn(cursor, 2);
    const found = [...this.#projection.runs()]
      .filter((known) => this.#isListedFor(known, asker) && fitsRun(known.row, wanted, asker))
      .map(({ row }) => ({ row, key: [row.startedAt, row.runId] }))
      .filter(({ key }) => after === undefined || compared(key, after) < 0)
      .toSorted((one, other) => -compared(one.key, other.key));
    return { runs: found.slice(0, most).map(({ row }) => row), ...this.#asOf(), ...nextOf(found, most) };
  }

  /** Lists show a run to people who are asked by name; one that may ask further people, when its requests were read. */
  #isListedFor({ row, approvers }: Known, asker: Asker): boolean {
    if (seesRun(row, asker)) return true;
    if (row.tenant !== asker.tenant) return false;
    const waits = waitsFor(approvers, asker);
    const isKnown = (): boolean =>
      this.#opened.knownRules(row.runId).some((rule) => seesRequest(row, { approvers: rule }, asker));
    return waits === 'yes' || (waits === 'maybe' && isKnown());
  }

  /** Lists open requests that the person may see, by their deadlines. */
  async requests(query: RequestQuery, asker: Asker): Promise<RequestPage> {
    const { most, cursor } = query;
    const asOf = this.#asOf();
    if (query.tenant !== undefined && query.tenant !== asker.tenant) return { requests: [], ...asOf };
    const after = cursor === undefined ? undefined : keyIn(cursor, 3);
    const runs = this.#projection.waiting().filter((known) => isAsked(known, query, asker) && reaches(known, after));
    const found: Found[] = [];
    for (let from = 0; from < runs.length; from += BATCH) {
      // Every request of a later run has at least this deadline.
      const least = deadlineOf(runs[from] as Known);
      if (found.filter(({ key: [deadline = ''] }) => deadline < least).length > most) break;
      const round = runs.slice(from, from + BATCH);
      const rows = await Promise.all(round.map(async (known) => await this.#rowsOf(known, query, asker)));
      found.push(...rows.flat().filter(({ key }) => after === undefined || compared(key, after) > 0));
    }
    const sorted = found.toSorted((one, other) => compared(one.key, other.key));
    return { requests: sorted.slice(0, most).map(({ row }) => row), ...asOf, ...nextOf(sorted, most) };
  }

  async #rowsOf({ row: run }: Known, query: RequestQuery, asker: Asker): Promise<readonly Found[]> {
    let requests: readonly ApprovalRequest[];
    try {
      requests = await this.#opened.requests(run.runId, FAILED_IN_LISTS_MS);
    } catch (error) {
      // One run that cannot be read hides none of the others.
      if (error instanceof CountersignError) return [];
      throw error;
    }
    return requests.flatMap((request) => {
      if (request.status !== 'open' || !seesRequest(run, request, asker) || !fits(request, query, this.#now()))
        return [];
      const row = rowIn(request, run, permittedTo(request, asker, this.#now()));
      if (query.mine === 'decide' && row.offers.length === 0) return [];
      return [{ row, key: [row.deadline, row.run, row.callId] }];
    });
  }

  #asOf(): { readonly asOf: string } {
    return { asOf: new Date(this.#projection.asOf ?? 0).toISOString() };
  }
}

/** A ledger that named nobody is not read for others again so soon. */
const UNNAMED_MS = 10_000;

interface Found {
  readonly row: RequestRow;
  readonly key: readonly string[];
}

/** `maybe`: the run waits for more people than visibility can name, or for this one in another spelling. */
export function waitsFor(approvers: readonly string[] | undefined, asker: Asker): 'yes' | 'no' | 'maybe' {
  if (approvers === undefined) return 'no';
  const named = new Set(approvers);
  const { sure, possible } = waitingNames(asker);
  if (sure.some((name) => named.has(name))) return 'yes';
  return possible.some((name) => named.has(name)) ? 'maybe' : 'no';
}

function isAsked({ row, approvers }: Known, query: RequestQuery, asker: Asker): boolean {
  if (row.tenant !== asker.tenant) return false;
  if (!seesRun(row, asker) && waitsFor(approvers, asker) === 'no') return false;
  if (query.server !== undefined && !row.servers.includes(query.server)) return false;
  if (query.deadlineBefore !== undefined && deadlineOf({ row }) >= query.deadlineBefore) return false;
  return query.initiator === undefined || isSamePerson(asker, row.initiator, query.initiator);
}

/** False if all requests of the run stand before the cursor, as far as its memo says. */
function reaches({ row, memo }: Known, after: readonly string[] | undefined): boolean {
  if (after === undefined || memo === undefined || memo.truncated) return true;
  return memo.requests.some(({ deadline, callId }) => compared([deadline, row.runId, callId], after) > 0);
}

function fits(request: ApprovalRequest, query: RequestQuery, now: number): boolean {
  const { approver, group, server, tool, olderThanSeconds, deadlineBefore } = query;
  const isNaming = (ids: readonly string[], groups: readonly string[]): boolean =>
    request.approvers.allOf.some(
      (clause) =>
        clause.ids.some((id) => ids.some((each) => isSamePerson(request.approvers, id, each))) ||
        clause.groups.some((each) => groups.includes(each)),
    );
  if (approver !== undefined && !isNaming([approver], [])) return false;
  if (group !== undefined && !isNaming([], [group])) return false;
  if (server !== undefined && request.server !== server) return false;
  if (tool !== undefined && request.tool !== tool) return false;
  if (deadlineBefore !== undefined && request.deadline >= deadlineBefore) return false;
  return olderThanSeconds === undefined || now - Date.parse(request.openedAt) >= olderThanSeconds * 1_000;
}

function fitsRun(
  row: RunRow,
  { status, initiator, server }: Omit<RunQuery, 'most' | 'cursor'>,
  person: Compared,
): boolean {
  if (status !== undefined && row.status !== status) return false;
  if (server !== undefined && !row.servers.includes(server)) return false;
  return initiator === undefined || isSamePerson(person, row.initiator, initiator);
}

function rowIn(
  request: ApprovalRequest,
  { runId, initiator }: RunRow,
  offers: Iterable<RequestRow['offers'][number]>,
): RequestRow {
  const { callId, digest, server, tool, tenant, openedAt, deadline, about, votes = [], remindedAt } = request;
  return {
    run: runId,
    callId,
    digest,
    server,
    tool,
    ...(about === undefined ? {} : { about: about.kind }),
    tenant,
    initiator,
    openedAt,
    deadline,
    agreed: votes.map(({ approver }) => approver.id),
    reminded: remindedAt !== undefined,
    offers: [...offers],
  };
}

const Key = z.array(z.string().max(1_000)).max(3);

function nextOf(sorted: readonly { readonly key: readonly string[] }[], most: number): { readonly next?: string } {
  const last = sorted[most - 1];
  if (last === undefined || sorted.length <= most) return {};
  return { next: Buffer.from(JSON.stringify(last.key)).toString('base64url') };
}

function keyIn(cursor: string, parts: number): readonly string[] {
  const key = Key.safeParse(jsonOf(Buffer.from(cursor, 'base64url').toString()));
  if (key.success && key.data.length === parts) return key.data;
  throw new Misfit([{ path: 'cursor', reason: 'must be the `next` of an earlier page of this list' }], 'query');
}

export function noRun(runId: string): CountersignError {
  return new CountersignError(
    'RUN_NOT_FOUND',
    `There is no run ${runId} that you may see. Check its id: lists name the runs that you may see.`,
    { runId },
  );
}

function noCall(runId: string, callId: string): CountersignError {
  const message = `Run ${runId} has no request for call ${callId} that you may see. Check its id: the requests of the run name theirs.`;
  return new CountersignError('CALL_UNKNOWN', message, { runId, callId });
}
