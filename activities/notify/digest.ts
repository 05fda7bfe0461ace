/**
 * Sends a digest: one message of what several runs have to tell (docs/adr/0086).
 *
 * 1. A digest has pointers alone. What it says of a request is read of the run when it is sent, and only of a run of
 *    this deployment, by Temporal's word. So a forged pointer tells nothing that is not there, and nobody for whom it
 *    is not.
 * 2. A message has one id for all tries. Each try reads anew: what was decided meanwhile is not told.
 * 3. A run that does not answer holds the others up for about two minutes; then its news are counted, and not named.
 */
import { type Client, WorkflowNotFoundError } from '@temporalio/client';
import { DIGEST_WORKFLOW, QUERIES, RUN_WORKFLOW, SEARCH_ATTRIBUTES, SIGNALS } from '../../contracts/names.ts';
import type { LedgerEntry } from '../../contracts/schemas/ledger.ts';
import type { ApprovalRequest } from '../../contracts/schemas/request.ts';
import type { LedgerPage, RunState } from '../../contracts/schemas/run-state.ts';
import type { DigestInput, ToldRun } from '../../contracts/wire/notify.ts';
import {
  closingIn,
  digestIdOf,
  mayBeTold,
  type News,
  newsIn,
  type NotifyPolicy,
  requestIn,
} from '../../domain/request/gathering.ts';
import { hashOf } from '../../domain/text/canonical.ts';
import { type LinkedRequest, refusedBy, undelivered } from './port.ts';
import { deliver, type HandOver, type SendParts } from './send.ts';

/** Requests that one message names. */
const MOST_NAMED = 50;
const RUNS_AT_ONCE = 8;
/** Time after which no further run is read. A try has 150 s, and its channel a minute of them. */
const MOST_READING_MS = 60_000;
/** Tries in which every run must answer: with the pauses between them about two minutes. */
const PATIENT_TRIES = 6;

/** A run as Temporal and its workers tell it. */
export interface ReportingRun {
  readonly run: ToldRun;
  readonly requests: readonly ApprovalRequest[];
  /** Reads the newest entries of its ledger. */
  readonly ledger: () => Promise<readonly LedgerEntry[]>;
}

export interface DigestParts extends Omit<SendParts, 'readRequests'> {
  readonly policy: () => NotifyPolicy;
  /** Returns undefined if this deployment has no such run. Fails if the run does not answer now. */
  readonly readRun: (workflowId: string) => Promise<ReportingRun | undefined>;
}

export function createSendDigest(parts: DigestParts): (input: DigestInput) => Promise<void> {
  return async (input) => {
    const { channel, to, round, left, gathered } = input;
    const { namespace, workflowType, workflowId, runId, attempt } = parts.scheduler();
    if (workflowType !== DIGEST_WORKFLOW) throw refusedBy(channel, 'tells of several runs for a digest alone');
    const { found, asked, silent } = await foundBy(parts, input, newsIn(gathered));
    const unread = silent.reduce((sum, { news }) => sum + news, 0);
    const failed = (error: Error): Error => {
      parts.tell({ channel, event: 'digest', result: 'failed' });
      return error;
    };
    const ofSilent = `has news of runs that do not answer: ${namesOf(silent)}`;
    if (unread > 0 && attempt <= PATIENT_TRIES) throw failed(undelivered(channel, ofSilent));
    // Later digests wait for this one, so it ends; that it failed is seen.
    if (found.length === 0 && unread > 0) throw failed(refusedBy(channel, ofSilent));
    if (found.length === 0 && left > 0)
      throw failed(refusedBy(channel, `has ${left} messages of runs that could not be read, or had no room`));
    if (found.length === 0) return;
    const more = Math.max(0, found.length - MOST_NAMED) + unread + left;
    const readRequests = async (run: string): Promise<readonly ApprovalRequest[]> => asked.get(run) ?? [];
    await deliver({ ...parts, readRequests }, 'digest', {
      id: `msg_${hashOf([namespace, workflowId, runId, round])}`,
      channel,
      to,
      requests: found.slice(0, MOST_NAMED),
      ...(more === 0 ? {} : { more }),
      repeated: attempt > 1,
    });
  };
}

interface Found {
  readonly found: LinkedRequest[];
  readonly asked: Map<string, readonly ApprovalRequest[]>;
  /** Runs that did not answer, and how much they have to tell. */
  readonly silent: { readonly run: string; readonly news: number }[];
}

function namesOf(silent: Found['silent']): string {
  const [first = '', ...others] = silent.map(({ run }) => run);
  return others.length === 0 ? first : `${first} and ${others.length} more`;
}

async function foundBy(parts: DigestParts, digest: DigestInput, news: readonly News[]): Promise<Found> {
  const byRun = new Map<string, News[]>();
  for (const each of news) byRun.set(each.run, [...(byRun.get(each.run) ?? []), each]);
  const runs = [...byRun];
  const all: Found = { found: [], asked: new Map(), silent: [] };
  const end = Date.now() + MOST_READING_MS;
  const read = async (run: string, own: readonly News[]): Promise<readonly LinkedRequest[]> => {
    if (Date.now() > end) throw undelivered(digest.channel, 'has too many runs to read');
    const told = await parts.readRun(run);
    if (told === undefined || told.run.initiator.tenant !== digest.tenant) return [];
    const mine = await tellable(told, own, digest, parts.policy());
    const isTold = ({ callId }: ApprovalRequest): boolean => mine.some((each) => each.callId === callId);
    all.asked.set(run, told.requests.filter(isTold));
    return mine;
  };
  while (runs.length > 0) {
    const some = runs.splice(0, RUNS_AT_ONCE).map(async ([run, own]) => {
      const mine = await read(run, own).catch(() => undefined);
      if (mine === undefined) all.silent.push({ run, news: own.length });
      return mine ?? [];
    });
    all.found.push(...(await Promise.all(some)).flat());
  }
  return all;
}

async function tellable(
  { run, requests, ledger }: ReportingRun,
  news: readonly News[],
  digest: DigestInput,
  policy: NotifyPolicy,
): Promise<readonly LinkedRequest[]> {
  const all: LinkedRequest[] = [];
  for (const each of news) {
    const { event } = each;
    const shown = requestIn(requests, each, Date.now());
    const request = shown ?? (event === 'closed' ? closingIn(await ledger(), each) : undefined);
    if (request !== undefined && mayBeTold(request, each, digest, policy, run.initiator.id))
      all.push({ ...request.told, run, event });
  }
  return all;
}

// The ways to Temporal.

/** Time for one run, of which most is its answer. */
const READ_MS = 10_000;
const HAND_OVER_MS = 10_000;
/** Entries of a ledger in which the end of a request is looked for. */
const MOST_ENTRIES = 500;

/** @param taskQueue of runs */
export function createHandOver(
  { connection, workflow }: Pick<Client, 'connection' | 'workflow'>,
  taskQueue: string,
): HandOver {
  const hasTold = async (workflowId: string, key: string): Promise<boolean> => {
    const handle = workflow.getHandle(workflowId);
    try {
      // One that is under way knows by itself what it has.
      if ((await handle.describe()).status.name !== 'COMPLETED') return false;
      const keys: unknown = await handle.result();
      return Array.isArray(keys) && keys.includes(key);
    } catch (error) {
      if (error instanceof WorkflowNotFoundError) return false;
      throw error;
    }
  };
  return async (digest, gathered, repeated) => {
    const workflowId = digestIdOf(digest);
    await connection.withDeadline(Date.now() + HAND_OVER_MS, async () => {
      if (repeated && (await hasTold(workflowId, gathered.key))) return;
      await workflow.signalWithStart(DIGEST_WORKFLOW, {
        workflowId,
        taskQueue,
        args: [digest],
        signal: SIGNALS.gather,
        signalArgs: [gathered],
        workflowIdReusePolicy: 'ALLOW_DUPLICATE',
        staticSummary: 'gathers what several runs have to tell',
      });
    });
  };
}

/** @param taskQueue of runs: a workflow elsewhere is none of ours, whatever it says */
export function createRunReader(
  { connection, workflow, options }: Pick<Client, 'connection' | 'workflow' | 'options'>,
  taskQueue: string,
): DigestParts['readRun'] {
  const inTime = async <T>(read: () => Promise<T>): Promise<T> =>
    await connection.withDeadline(Date.now() + READ_MS, read);
  return async (workflowId) => {
    const handle = workflow.getHandle(workflowId);
    try {
      return await inTime(async () => {
        const described = await handle.describe();
        const tenant = described.typedSearchAttributes.get(SEARCH_ATTRIBUTES.tenant);
        const id = described.typedSearchAttributes.get(SEARCH_ATTRIBUTES.initiator);
        const isOurs = described.type === RUN_WORKFLOW && described.taskQueue === taskQueue;
        if (!isOurs || tenant === undefined || id === undefined) return undefined;
        return {
          run: { namespace: options.namespace, workflowId, initiator: { id, tenant } },
          requests: await handle.query<ApprovalRequest[]>(QUERIES.requests),
          ledger: async () =>
            await inTime(async () => {
              const { ledgerLength } = await handle.query<RunState>(QUERIES.state);
              const from = Math.max(0, ledgerLength - MOST_ENTRIES);
              return (await handle.query<LedgerPage, [number, number]>(QUERIES.ledger, from, ledgerLength)).entries;
            }),
        };
      });
    } catch (error) {
      if (error instanceof WorkflowNotFoundError) return undefined;
      throw error;
    }
  };
}
