/**
 * Reads a run that answers nothing because its workflow tasks fail. It reads the run's history, as far as this build
 * replays it.
 *
 * 1. A run counts as stuck only if its history says that a task has failed, or a worker has answered that it cannot
 *    replay the run: one that waits has no task until something comes. A run that no worker serves is not read like
 *    this.
 * 2. A command that shows such a run says up to which event it was read.
 */
import { troubleOf, unreadableBy } from '../../client/engine/trouble.ts';
import { comingTask, failingTask } from '../../client/engine/executions.ts';
import { entriesFrom } from '../../client/ledger/ledger.ts';
import { discardedPart, livingHistory } from '../../client/run/recovery.ts';
import { TimeIsUp } from '../../client/run/watch.ts';
import { defined } from '../../contracts/defined.ts';
import { CountersignError, type ErrorCode } from '../../contracts/errors.ts';
import type { LedgerEntry } from '../../contracts/schemas/ledger.ts';
import type { LedgerPage } from '../../contracts/schemas/run-state.ts';
import type { ReplayOptions } from '../../workers/replay/replay.ts';
import { artifactReader, type ClientSettings, inTime, type Session } from './session.ts';

export type StuckRun = NonNullable<Awaited<ReturnType<typeof readStuck>>>;

const MAY_BE_STUCK: readonly ErrorCode[] = [
  'RUN_STUCK',
  'CATALOG_UNAVAILABLE',
  'ENGINE_UNAVAILABLE',
  'RESULT_UNCERTAIN',
];
const SILENCE: readonly ErrorCode[] = ['ENGINE_UNAVAILABLE', 'RESULT_UNCERTAIN'];
const LAST_CALLS = 10;

/**
 * Returns the run's answer, or what can be read of the run if it is stuck.
 * @throws the error of `ask` if the run is not stuck
 */
export async function toldOrRead<T>(
  session: Session,
  runId: string,
  ask: () => Promise<T>,
): Promise<{ readonly told: T; readonly stuck?: undefined } | { readonly told?: undefined; readonly stuck: StuckRun }> {
  try {
    return { told: await ask() };
  } catch (error) {
    if (!(error instanceof CountersignError) || !MAY_BE_STUCK.includes(error.code)) throw error;
    // A watch whose time is over was answered until then, so the run is not stuck.
    if (error.cause instanceof TimeIsUp) throw error;
    const stuck = await readStuck(session, runId, error).catch((unread: unknown) => {
      const { code, message } = troubleOf(unread, runId);
      // Nobody answers at all, which the first error says already.
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

async function readStuck(session: Session, runId: string, error: CountersignError) {
  const { client, settings } = session;
  const { history, runId: execution } = await inTime(session, async () => await livingHistory(client, runId));
  const answer = unreadableBy(error);
  const failing = failingTask(history) ?? (answer && comingTask(history, answer));
  if (failing === undefined) return undefined;
  const options = await readingOptions(settings, client.options.namespace);
  const { answersOf, soundnessOf } = await import('../../workers/replay/replayed-run.ts');
  const soundness = await soundnessOf(runId, history, options);
  /** Event id of the completed workflow task that cannot be replayed; absent if all can. */
  const part = defined({ task: soundness.kind === 'whole' ? undefined : soundness.task });
  const { answers, upTo } = await answersOf(runId, { history, runId: execution, ...part }, options);
  const { calls } = await discardedPart(client, history, 0);
  return {
    runId,
    failing,
    /** The newest event that could be read; `of` is the newest event of the history. */
    upTo,
    of: Number(history.events?.at(-1)?.eventId ?? 0),
    ...part,
    answers,
    /** The last calls in the whole history that were handed to a worker. */
    calls: calls.slice(-LAST_CALLS),
  };
}

/**
 * Reads the ledger of a stuck run, including stored segments.
 * @throws CountersignError `RUN_STUCK` if none of it can be read, `ARTIFACT_…`
 */
export async function ledgerOfStuck(
  { settings }: Session,
  stuck: StuckRun,
  cursor = 0,
): Promise<readonly LedgerEntry[]> {
  const { runId, answers } = stuck;
  const { ledger } = answers;
  if (ledger === undefined) throw nothingOf(stuck, 'the ledger');
  const entries: LedgerEntry[] = [];
  const source = { workflowId: runId, artifacts: artifactReader(settings.artifacts) };
  for await (const entry of entriesFrom(source, cursor, async (from) => pageFrom(ledger, from))) entries.push(entry);
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

let bundled: Promise<ReplayOptions['bundle']> | undefined;

/** Bundles the workflow code together with the code that reads its answers. The first call takes some seconds. */
export async function readingOptions(config: ClientSettings, namespace: string): Promise<ReplayOptions> {
  const { bundleForReading } = await import('../../workers/replay/replayed-run.ts');
  const { installSilentLog } = await import('./runtime.ts');
  installSilentLog();
  return { bundle: await (bundled ??= bundleForReading()), config, namespace };
}
