/** Implements the verbs of one run: `show`, `watch`, `result`, `stop` and `say`. */
import { randomUUID } from 'node:crypto';
import type { CallProgress, LedgerEntry, Retry, RunHandle } from '../../client/index.ts';
import { defined } from '../../contracts/defined.ts';
import { CountersignError } from '../../contracts/errors.ts';
import type { RunningTask } from '../../contracts/schemas/legacy-2025.ts';
import type { Say } from '../../contracts/schemas/request.ts';
import type { Advance, RunResult } from '../../contracts/schemas/run-state.ts';
import { visible } from '../../domain/text/escape.ts';
import { lastWord } from '../../domain/text/shell-word.ts';
import { sentUnder } from '../session/consent.ts';
import * as option from '../session/options.ts';
import { withSession } from '../session/session.ts';
import { ledgerOfStuck, toldOrRead } from '../session/stuck-run.ts';
import type { Terminal } from '../session/terminal.ts';
import { print, safeJson, verb } from '../session/verb.ts';
import { entryText } from '../views/ledger.ts';
import { openText, stuckAnswer, stuckError } from '../views/recovery.ts';
import { progressText, resultText, retryText, stateText, taskText } from '../views/run.ts';

export const SHOW = verb({
  name: 'show',
  summary: 'show the state of a run',
  description: 'Show the state of a run: status, open requests, standing decisions, tokens, spend, limits, ledger head',
  args: { run: option.RUN },
  examples: ['show nightly-42', 'show nightly-42 --json'],
  run: async ({ args, session }) => {
    const { told, stuck } = await session(async (opened) =>
      toldOrRead(opened, args.run, async () => {
        const run = opened.countersign.run(args.run);
        return { state: await run.state(), retries: await run.retries() };
      }),
    );
    if (stuck === undefined) {
      const { state, retries } = told;
      return {
        json: { ...state, ...(retries.length === 0 ? {} : { retries }) },
        text: (paint) => stateText(state, Date.now(), paint, retries),
      };
    }
    const { state } = stuck.answers;
    return stuckAnswer(stuck, state, (paint) => [
      state === undefined ? '' : stateText(state, Date.now(), paint),
      openText(stuck, paint),
    ]);
  },
});

export const WATCH = verb({
  name: 'watch',
  summary: 'follow the events of a run as they happen',
  description:
    'Follow the events of a run as they happen, until it ends; with --deadline no longer than that, with --json one entry per line. Interrupted before, it ends with exit code 6',
  args: { run: option.RUN },
  options: { from: option.wholeNumber('<number>', 'number of the first entry wanted (default: 0)') },
  examples: ['watch nightly-42', 'watch nightly-42 --from 17 --json', 'watch nightly-42 --deadline 60'],
  run: async ({ args, options, terminal, session }) => {
    const { json, from = 0, deadline } = options;
    const working = (news: string): void => terminal.err(`working: ${news}\n`);
    // News of tasks belongs to no entry; in JSON every line is an entry.
    const told = {
      onTasks: (tasks: readonly RunningTask[]) => tasks.map(taskText).forEach(working),
      onProgress: (calls: readonly CallProgress[]) => calls.map(progressText).forEach(working),
    };
    const interrupted = terminal.interrupted();
    let next = from;
    let hasEnded = false;
    const tell = (entry: LedgerEntry): void => {
      print(terminal, { json: entry, text: (paint) => entryText(entry, paint) }, json === true);
      next = entry.seq + 1;
      hasEnded = entry.fact.kind === 'run.ended';
    };
    const heard = {
      cursor: from,
      signal: interrupted,
      ...within(deadline),
      onPause: pauseTeller(terminal, options),
      onRetry: (news: readonly Retry[]) =>
        news.forEach((retry) => tellWaiting(terminal, options, retry, retryText(retry))),
      ...(json === true ? {} : told),
    };
    return await session(async (opened) => {
      const { stuck } = await toldOrRead(opened, args.run, async () => {
        for await (const entry of opened.countersign.run(args.run).watch(heard)) tell(entry);
      });
      if (stuck === undefined) {
        // A script that goes on after a watch goes on after the run.
        if (interrupted.aborted && !hasEnded) throw leftWatch(args.run, next);
        return undefined;
      }
      for (const entry of await ledgerOfStuck(opened, stuck, next)) tell(entry);
      throw stuckError(stuck, next);
    });
  },
});

function leftWatch(runId: string, cursor: number): CountersignError {
  const message = `The watch of run ${runId} was interrupted before the run ended; nothing was changed. Watch it again from entry ${cursor} on: countersign watch ${lastWord(runId)} --from ${cursor}`;
  return new CountersignError('RESULT_UNCERTAIN', message, { runId, cursor });
}

export const RESULT = verb({
  name: 'result',
  summary: 'wait for the end of a run',
  description: 'Wait for the end of a run and print its answer; with --deadline, no longer than that',
  args: { run: option.RUN },
  examples: ['result nightly-42', 'result nightly-42 --deadline 60 --json'],
  run: async ({ args: { run: runId }, options, terminal, session }) => {
    const result = await session(async ({ countersign }) =>
      waitForResult(countersign.run(runId), options.deadline, pauseTeller(terminal, options)),
    );
    return { json: { runId, ...result }, text: (paint) => resultText(runId, result, paint) };
  },
});

/** Groups are claimed with a signing key, since neither message names them itself. */
const CLAIMED_GROUP = option.repeated(
  '<name>',
  'a group that a signing key claims; may be given several times (default: those of a personal key)',
);

export const STOP = verb({
  name: 'stop',
  summary: 'end a run',
  description: 'End a run: what waits is withdrawn, calls in flight finish unless they are cancelled',
  args: { run: option.RUN },
  options: {
    as: option.actor('who stops it'),
    reason: option.needed(option.text('<text>', 'kept in the ledger')),
    group: CLAIMED_GROUP,
    cancelCalls: option.flag('cancel calls in flight too'),
  },
  examples: ['stop nightly-42 --as ann --reason "started by mistake"'],
  run: async ({ args: { run: runId }, options, terminal }) => {
    const { as: by, reason, cancelCalls } = options;
    const inFlight = cancelCalls === true ? 'cancel' : 'finish';
    const { status } = await withSession(terminal, { ...options, claims: options.group }, async ({ countersign }) =>
      countersign.run(runId).stop({ by, reason, inFlight }),
    );
    const shown = visible(runId);
    return {
      json: { runId, stopping: true, status },
      text: (paint) => `Run ${paint('bold', shown)} is stopping. See: countersign result ${lastWord(runId)}`,
    };
  },
});

export const SAY = verb({
  name: 'say',
  summary: 'tell the model of a run something',
  description: 'Add a user message: the model reads it once the calls of its turn have ended',
  args: { run: option.RUN },
  options: {
    as: option.actor('who says it'),
    text: option.needed(option.text('<text>', 'what the model reads')),
    group: CLAIMED_GROUP,
    interrupt: option.flag('withdraw the requests that wait, so that it is read once nothing is in flight'),
    messageId: option.text('<id>', 'id of a message whose answer was lost; sent again under this id, it is read once'),
  },
  examples: [
    'say nightly-42 --as ann --text "ticket 12 is solved, leave it out"',
    'say nightly-42 --as ann --text "wrong customer" --interrupt',
  ],
  run: async ({ args: { run: runId }, options, terminal }) => {
    const { as: from, text: words, interrupt, messageId = randomUUID() } = options;
    const message = { messageId, text: words, from, ...defined({ interrupt }) };
    const { status } = await withSession(terminal, { ...options, claims: options.group }, async ({ countersign }) =>
      sayTo(countersign.run(runId), message),
    );
    const when = interrupt === true ? 'what waited is withdrawn' : 'read when the turn ends';
    return {
      json: { runId, messageId, status },
      text: (paint) => `Run ${paint('bold', visible(runId))} has message ${visible(messageId)}: ${when}.`,
    };
  },
});

export async function sayTo(run: Pick<RunHandle, 'say'>, message: Say): Promise<Advance> {
  const { messageId } = message;
  return await sentUnder(`--message-id ${messageId}`, { messageId }, async () => await run.say(message));
}

/** Nothing if no deadline is given: then the wait has no end of its own. */
export function within(seconds: number | undefined): { readonly deadlineMs?: number } {
  return seconds === undefined ? {} : { deadlineMs: seconds * 1_000 };
}

/**
 * @param deadlineSeconds without it, the wait lasts until the run ends
 * @throws CountersignError `RESULT_UNCERTAIN` if the run goes on
 */
export async function waitForResult(
  run: RunHandle,
  deadlineSeconds: number | undefined,
  onPause: (trouble: CountersignError) => void,
): Promise<RunResult> {
  try {
    return await run.result({ ...within(deadlineSeconds), onPause });
  } catch (error) {
    if (!(error instanceof CountersignError) || error.code !== 'RESULT_UNCERTAIN' || deadlineSeconds === undefined)
      throw error;
    const message = `Run ${run.runId} did not end within ${deadlineSeconds} s; it goes on. See: countersign show ${lastWord(run.runId)}`;
    throw new CountersignError('RESULT_UNCERTAIN', message, { runId: run.runId }, { cause: error });
  }
}

/** Says on standard error why nothing happens: a step is tried again, or nobody answers. */
function tellWaiting(
  terminal: Terminal,
  { json }: option.GlobalOptions,
  waiting: Pick<Retry, 'code' | 'message'> & Partial<Retry>,
  words: string,
): void {
  terminal.err(json === true ? `${safeJson({ waiting })}\n` : `waiting: ${words}\n`);
}

export function pauseTeller(terminal: Terminal, options: option.GlobalOptions): (trouble: CountersignError) => void {
  return ({ code, message }) => tellWaiting(terminal, options, { code, message }, visible(message));
}
