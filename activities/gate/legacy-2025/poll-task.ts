/**
 * The activity that asks a server about the progress of a task. It is short, and safe to repeat because it executes
 * nothing.
 *
 * It does not own when to ask (`domain/legacy-2025/tasks.ts`).
 * 1. The seal proves that the call has left by the gate (`seals.ts`); nothing else in the input is believed.
 * 2. A token is minted for each poll and dropped with it. It never names the call, so nothing can be executed by it
 *    (INV-S2).
 * 3. Every obstacle is reported and may pass; only the end of the task's time makes it final.
 * 4. The last question has as many tries as Temporal gives it, and the report of its last try is final.
 */
import { activityInfo, cancellationSignal, heartbeat } from '@temporalio/activity';
import { defined } from '../../../contracts/defined.ts';
import { CountersignError } from '../../../contracts/errors.ts';
import { codedFailureIn, failureOf } from '../../../contracts/failure.ts';
import { MOST_TRIES, type PollInput, type PollResult } from '../../../contracts/wire/legacy-2025.ts';
import { currentScheduler, unknownOutcome } from '../../kit/activity.ts';
import { lostResult, type TaskQuestion, type TaskReport, type TaskServer } from '../../mcp/legacy-2025/tasks.ts';
import { pulsing } from '../../mcp/pulse.ts';
import type { TokenRequest } from '../../tokens/port.ts';
import { checkCatalog, checkRun } from '../dispatch-check.ts';
import { type CallToolParts, resultOf } from '../send.ts';
import { accessTo, connectionOf, tokenRequest } from '../../discovery/access.ts';
import { openedTask } from './seals.ts';
import { withToken } from '../../tokens/broker.ts';

/**
 * Pause before another try, in ms, multiplied by the number of the try. A server that is being deployed is back by
 * then, or soon. The bound is there because somebody waits for the end of the run.
 */
const AGAIN_MS = 5_000;
const LONGEST_AGAIN_MS = 30_000;

type Unreached = Extract<TaskReport, { kind: 'unreached' }>;

export interface PollTaskParts extends Pick<
  CallToolParts,
  'config' | 'loadToolset' | 'readCatalog' | 'broker' | 'seal'
> {
  readonly tasks: TaskServer;
}

export function createPollTask(parts: PollTaskParts): (input: PollInput) => Promise<PollResult> {
  return pulsing(heartbeat, async (input: PollInput): Promise<PollResult> => {
    const mistaken = checkRun(input.run, currentScheduler());
    if (mistaken !== undefined) throw new CountersignError('DISPATCH_FORBIDDEN', mistaken.message);
    const isLast = input.giveUp !== undefined && isLastTry();
    const report = await polled(parts, input, isLast).catch(unreachedBy);
    if (report.kind === 'unreached') {
      // This worker shuts down, or the caller wants to ask something else: no report of that moment is final.
      cancellationSignal().throwIfAborted();
      if (input.giveUp !== undefined && !isLast) throw again(report);
    }
    return resultFrom(input, report);
  });
}

function unreachedBy(error: unknown): Unreached {
  cancellationSignal().throwIfAborted();
  const coded = codedFailureIn(error);
  if (coded === undefined) throw error;
  const { retryAfterMs } = coded.facts;
  return { kind: 'unreached', reason: coded.message, ...(typeof retryAfterMs === 'number' ? { retryAfterMs } : {}) };
}

/** Makes Temporal try once more, at another worker if this one is gone by then. */
function again(report: Unreached): Error {
  const wanted = report.retryAfterMs ?? AGAIN_MS * activityInfo().attempt;
  return failureOf('TOOL_UNAVAILABLE', reasonOf(report), {}, Math.min(wanted, LONGEST_AGAIN_MS));
}

async function polled(parts: PollTaskParts, input: PollInput, isLast: boolean): Promise<TaskReport> {
  const { config, broker, tasks } = parts;
  const { run, server, target } = input;
  const opened = await openedTask(input, parts.seal);
  if (opened === undefined)
    return {
      kind: 'unreached',
      reason:
        'this worker has no key (grants.keys) that opens what finds the task, or the run no longer has the grant with which it was begun',
    };
  const catalog = await parts.readCatalog({ tenant: run.initiator.tenant, server: server.name });
  const gone = checkCatalog(server, catalog);
  if (gone !== undefined) return { kind: 'unreached', reason: gone.message };
  const pinned = (await parts.loadToolset(input.toolset)).find(({ modelName }) => modelName === input.name);
  const access = accessTo(config, server, catalog);
  if (target.serverUrl !== server.url)
    throw new CountersignError('DISPATCH_FORBIDDEN', 'The task is at another address than its server.');
  const { id, authorization, shown } = opened;
  const signal = cancellationSignal();
  const request: TokenRequest = {
    ...tokenRequest({ run, server }, catalog, signal),
    tool: target.tool,
    ...authorization,
  };
  const { resultBytes, sharedBy } = input.limits;
  const question: TaskQuestion = {
    id,
    tool: target.tool,
    giveUp: input.giveUp !== undefined,
    isLast,
    definition: { outputSchema: pinned?.definition.outputSchema },
    resultBytes,
    ...defined({ sharedBy }),
    signal,
  };
  const got = await withToken(broker, request, {
    use: async (token, known) => await tasks.ask(connectionOf(server, access, token, [...shown, ...known]), question),
    isRefused: (report) => report.kind === 'unreached' && report.unauthorized === true,
  });
  if (got.kind === 'none') throw got.error;
  if ('noOther' in got) throw got.noOther;
  return got.used;
}

function reasonOf({ reason, ended }: Unreached): string {
  return ended === undefined ? reason : `it is ${ended}, but: ${reason}`;
}

function resultFrom(input: PollInput, report: TaskReport): PollResult {
  const { server, target, giveUp } = input;
  const task = `Tool "${target.tool}" of server "${server.name}" was begun as a task`;
  const unknown = (reason: string, said = 'and may or may not have run'): PollResult => {
    return unknownOutcome(`${task} ${said}: ${reason}. Find out at the server before anything is done again.`);
  };
  const because = giveUp === undefined ? '' : `${GIVEN_UP[giveUp]}; `;
  switch (report.kind) {
    case 'working':
      // A task that is given up no longer counts as running: its server was asked to cancel it.
      return giveUp === undefined ? report : unknown(`${because}the server still works on it`);
    case 'unreached': {
      const { reason, retryAfterMs, ended } = report;
      if (giveUp !== undefined)
        return ended === undefined
          ? unknown(`${because}the server could not be asked to cancel it: ${reason}`)
          : resultFrom(input, lostResult(ended, reason));
      const message = `the server could not be asked: ${reasonOf(report)}`;
      return { kind: 'unreached', message, ...defined({ retryAfterMs }) };
    }
    case 'lost':
      return unknown(`${because}${report.reason}`, report.completed === true ? COMPLETED : undefined);
    case 'over': {
      const { ending } = report;
      const isResult = ending.kind !== 'input' && ending.kind !== 'task';
      const result = isResult ? resultOf(ending, undefined, {}) : undefined;
      if (result?.kind === 'ended') return { kind: 'ended', outcome: result.outcome };
      return unknown('its result could not be read');
    }
  }
}

/** The result, which cannot be had, says whether the task did what it should. */
const COMPLETED = 'and has completed, as its server says; with what result cannot be had';

const GIVEN_UP: Readonly<Record<NonNullable<PollInput['giveUp']>, string>> = {
  withdrawn: 'the run ended before it',
  time: 'its time is over',
};

/** Time in ms that must be left for this try, the pause after it and one more try. */
const NEEDED_MS = 120_000;

/** True if the current try is the last one. Must be called where the try begins. */
function isLastTry(): boolean {
  // Temporal servers do not report the number of attempts (1.29).
  const { attempt, retryPolicy, scheduledTimestampMs, scheduleToCloseTimeoutMs } = activityInfo();
  const end = scheduledTimestampMs + scheduleToCloseTimeoutMs;
  return attempt >= (retryPolicy?.maximumAttempts ?? MOST_TRIES) || Date.now() + NEEDED_MS > end;
}
