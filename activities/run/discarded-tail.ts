/**
 * Finds calls that were sent by executions which a reset has discarded: the reset forgets them, but the world does not
 * (docs/adr/0045).
 *
 * 1. Only Temporal's own records count, whoever reset the run and how.
 * 2. A run that was never reset costs one small request for each of its executions and each worker.
 * 3. A failed read is a fault that passes. History that Temporal has not kept is reported, and never taken for an empty
 *    one.
 */
import type { Client } from '@temporalio/client';
import { CountersignError } from '../../contracts/errors.ts';
import type { DispatchInput } from '../../contracts/wire/tools.ts';
import { deedOf, type DiscardedSend } from '../../domain/history/discarded-send.ts';
import { type Dispatch, type Execution, Histories } from './executions.ts';

type Asked = Pick<DispatchInput, 'idempotencyKey' | 'target' | 'arguments' | 'decidedIn'>;

export type Discarded =
  | { readonly kind: 'sent'; readonly send: DiscardedSend }
  /** Temporal has not kept all that was discarded. */
  | { readonly kind: 'forgotten' };

/**
 * @param runId the Temporal run that scheduled the dispatch, as Temporal reports it
 * @throws CountersignError `ENGINE_UNAVAILABLE`
 */
export type ReadDiscarded = (workflowId: string, runId: string, asked: Asked) => Promise<Discarded | undefined>;

const DEADLINE_MS = 20_000;
/** Executions that a chain names (`domain/state/run.ts`): in a longer one every reset is too far back to matter. */
const LONG_CHAIN = 200;

export function createDiscardedReader(client: Client): ReadDiscarded {
  const histories = new Histories(client);
  return async (workflowId, runId, asked) => {
    try {
      return await client.connection.withDeadline(
        Date.now() + DEADLINE_MS,
        async () => await discardedBy(histories, workflowId, runId, asked),
      );
    } catch (error) {
      const message =
        'Temporal does not say what the run had sent before it was reset, so nothing is sent for it. It is tried again.';
      throw new CountersignError('ENGINE_UNAVAILABLE', message, {}, { cause: error });
    }
  };
}

async function discardedBy(
  histories: Histories,
  workflowId: string,
  runId: string,
  asked: Asked,
): Promise<Discarded | undefined> {
  const { resetOf, firstRunId } = await histories.origin(workflowId, runId);
  // A run that was never reset counts decisions from its first execution on.
  if (resetOf === undefined && (asked.decidedIn.includes(firstRunId) || asked.decidedIn.length >= LONG_CHAIN))
    return undefined;
  const { own, isCut } = await lineOf(histories, workflowId, runId);
  if (own.every(({ bases }) => bases.length === 0)) return isCut ? { kind: 'forgotten' } : undefined;
  const since = sinceReset(own);
  // A dispatch of this call that began after the reset, after somebody was asked, goes on.
  if (since.some(({ idempotencyKey, ending }) => ending === 'begun' && idempotencyKey === asked.idempotencyKey))
    return undefined;
  const { executions, isWhole } = await discardedIn(histories, workflowId, firstRunId, own);
  const kept = new Set(own.flatMap(({ dispatches }) => dispatches.map(({ mark }) => mark)));
  const sends = executions
    .flatMap(({ dispatches }) => dispatches)
    .filter(({ mark, ending }) => !kept.has(mark) && ending !== 'unsent');
  const send = sentAs(asked, sends, since);
  if (send !== undefined) return { kind: 'sent', send };
  // A reset before the oldest kept execution has discarded something, too.
  return isWhole && !isCut ? undefined : { kind: 'forgotten' };
}

/** Returns a discarded send of this call's own id, or of an equal call that nobody was asked about since. */
function sentAs(asked: Asked, sends: readonly Dispatch[], since: readonly Dispatch[]): DiscardedSend | undefined {
  const { idempotencyKey: key } = asked;
  const deed = deedOf(asked);
  const own = sends.filter(
    // A stretch sent what may be repeated: under this id it says nothing of another call.
    (send) =>
      send.idempotencyKey === undefined ||
      (send.idempotencyKey === key && (!send.inStretch || deed === undefined || send.deed === deed)),
  );
  if (own.length > 0) return newest(own);
  const same = sends.filter((send) => deed !== undefined && send.deed === deed);
  const mine = since.findLast(({ idempotencyKey }) => idempotencyKey === key);
  // Nobody was asked on account of earlier attempts of this call, or of calls that were not sent.
  const before = since.filter(
    (each) =>
      each.deed === deed &&
      each.idempotencyKey !== key &&
      each.ending !== 'unsent' &&
      (mine === undefined || isBefore(each, mine)),
  );
  const callsIn = (dispatches: readonly Dispatch[]): number =>
    new Set(dispatches.map(({ idempotencyKey }) => idempotencyKey)).size;
  return callsIn(before) >= callsIn(same) ? undefined : newest(same);
}

function isBefore(one: Dispatch, other: Dispatch): boolean {
  return one.at === other.at ? one.eventId < other.eventId : one.at < other.at;
}

function newest(sends: readonly Dispatch[]): Dispatch | undefined {
  return sends.toSorted((one, other) => (isBefore(one, other) ? -1 : 1)).at(-1);
}

/** Oldest first. */
function sinceReset(own: readonly Execution[]): Dispatch[] {
  const reset = own.findIndex(({ bases }) => bases.length > 0);
  return own
    .slice(0, reset + 1)
    .toReversed()
    .flatMap(({ dispatches, resetAt }) => dispatches.filter(({ eventId }) => eventId > resetAt));
}

/** Returns the execution and those that it continues, newest first; `isCut` if Temporal has not kept the oldest. */
async function lineOf(
  histories: Histories,
  workflowId: string,
  newestRunId: string,
): Promise<{ readonly own: readonly Execution[]; readonly isCut: boolean }> {
  const own: Execution[] = [];
  for (let runId: string | undefined = newestRunId; runId !== undefined;) {
    const execution: Execution | undefined = await histories.read(workflowId, runId);
    if (execution === undefined) return { own, isCut: true };
    own.push(execution);
    runId = execution.before;
  }
  return { own, isCut: false };
}

/** Returns all other executions of the chain: reset ones, their continuations, and ones of the same base. */
async function discardedIn(
  histories: Histories,
  workflowId: string,
  firstRunId: string,
  own: readonly Execution[],
): Promise<{ readonly executions: readonly Execution[]; readonly isWhole: boolean }> {
  const seen = new Set(own.map(({ runId }) => runId));
  // Two resets of one execution do not name each other; visibility lists both.
  const queue = [...own.flatMap(({ bases }) => bases), ...(await histories.list(workflowId))];
  const executions: Execution[] = [];
  let isWhole = true;
  for (let runId = queue.shift(); runId !== undefined; runId = queue.shift()) {
    if (seen.has(runId)) continue;
    seen.add(runId);
    const execution = await histories.read(workflowId, runId);
    isWhole &&= execution !== undefined;
    // Another run had the workflow id before.
    if (execution === undefined || execution.firstRunId !== firstRunId) continue;
    queue.push(...execution.bases, ...(execution.after === undefined ? [] : [execution.after]));
    executions.push(execution);
  }
  return { executions, isWhole };
}
