/**
 * A run that answers nothing, because its workflow tasks fail: read from its history, as far as this build replays it.
 *
 * 1. Only where the history says that a task has failed: a run that nobody serves is no run to be read so.
 * 2. Whoever shows it says up to where it was read.
 */
import { type DiscardedCall, discardedPart } from '../client/discarded.ts';
import { entriesFrom } from '../client/ledger.ts';
import { TimeIsUp } from '../client/patient-reader.ts';
import { livingHistory } from '../client/recovery.ts';
import { troubleOf } from '../client/trouble.ts';
import { type FailingTask, failingTask } from '../client/stuck.ts';
import { CountersignError, type ErrorCode } from '../contracts/errors.ts';
import type { LedgerEntry } from '../contracts/schemas/ledger.ts';
import type { LedgerPage } from '../contracts/schemas/run-state.ts';
import type { Answers } from '../workers/replayed-run.ts';
import { artifactReader } from './artifact-reader.ts';
import { readingOptions } from './replayed.ts';
import type { Session } from './session.ts';

export interface StuckRun {
  readonly runId: string;
  readonly failing: FailingTask;
  /** Newest event that what is shown is of, and newest of all. */
  readonly upTo: number;
  readonly of: number;
  /** Event of the completed workflow task that cannot be replayed; absent where all of them can. */
  readonly task?: number;
  readonly answers: Answers;
  /** The last calls that were handed to a worker, of the whole history. */
  readonly calls: readonly DiscardedCall[];
}

const MAY_BE_STUCK: readonly ErrorCode[] = [
  'RUN_STUCK',
  'CATALOG_UNAVAILABLE',
  'ENGINE_UNAVAILABLE',
  'RESULT_UNCERTAIN',
];
const SILENCE: readonly ErrorCode[] = ['ENGINE_UNAVAILABLE', 'RESULT_UNCERTAIN'];
const LAST_CALLS = 10;

/** What it tells, or what can be read of it. @throws what `ask` throws, where it is not stuck */
export async function toldOrRead<T>(
  session: Session,
  runId: string,
  ask: () => Promise<T>,
): Promise<{ readonly told: T; readonly stuck?: undefined } | { readonly told?: undefined; readonly stuck: StuckRun }> {
  try {
    return { told: await ask() };
  } catch (error) {
    if (!(error instanceof CountersignError) || !MAY_BE_STUCK.includes(error.code)) throw error;
    // A watch whose time is over was answered until then.
    if (error.cause instanceof TimeIsUp) throw error;
    const stuck = await readStuck(session, runId).catch((unread: unknown) => {
      const { code, message } = troubleOf(unread, runId);
      // Nobody answers at all: that has been said.
      if (SILENCE.includes(code)) throw error;
      throw new CountersignError(
        error.code,
        `${error.message} Nothing can be read from its history: ${message}`,
        error.facts,
        { cause: unread },
      );
    });
    if (stuck === undefined) throw error;
    return { stuck };
  }
}

async function readStuck({ client, settings, deadlineMs }: Session, runId: string): Promise<StuckRun | undefined> {
  const { history, runId: execution } = await client.connection.withDeadline(
    Date.now() + deadlineMs,
    async () => await livingHistory(client, runId),
  );
  const failing = failingTask(history);
  if (failing === undefined) return undefined;
  const options = await readingOptions(settings, client.options.namespace);
  const { answersOf, soundnessOf } = await import('../workers/replayed-run.ts');
  const soundness = await soundnessOf(runId, history, options);
  const part = soundness.kind === 'whole' ? {} : { task: soundness.task };
  const { answers, upTo } = await answersOf(runId, { history, runId: execution, ...part }, options);
  const { calls } = await discardedPart(client, history, 0);
  return {
    runId,
    failing,
    upTo,
    of: Number(history.events?.at(-1)?.eventId ?? 0),
    ...part,
    answers,
    calls: calls.slice(-LAST_CALLS),
  };
}

/** Its ledger, stored segments included. @throws CountersignError `RUN_STUCK` where nothing of it could be read, `ARTIFACT_…` */
export async function ledgerOfStuck({ settings }: Session, stuck: StuckRun): Promise<readonly LedgerEntry[]> {
  const { runId, answers } = stuck;
  const { ledger } = answers;
  if (ledger === undefined) throw nothingOf(stuck, 'the ledger');
  const entries: LedgerEntry[] = [];
  const source = { workflowId: runId, artifacts: artifactReader(settings.artifacts) };
  for await (const entry of entriesFrom(source, 0, async (from) => pageFrom(ledger, from))) entries.push(entry);
  return entries;
}

/** @param what begins with its article */
export function nothingOf({ runId, failing }: StuckRun, what: string): CountersignError {
  const message = `Nothing of ${what} of ${runId} can be read from its history: ${failing.message}`;
  return new CountersignError('RUN_STUCK', message, { runId });
}

function pageFrom(page: LedgerPage, from: number): LedgerPage {
  const skipped = Math.max(0, from - page.from);
  return { ...page, from: page.from + skipped, entries: page.entries.slice(skipped) };
}
