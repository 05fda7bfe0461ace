/**
 * Reads which steps a run tries again, and why. The source is Temporal's list of pending activities, since no
 * history tells of attempts.
 *
 * 1. A namespace writer can make an activity fail with any text. Texts are cut here, and escaped where they are shown.
 * 2. A step that cannot be read is left out; it ends nothing.
 */
import type { Client } from '@temporalio/client';
import { decodeOptionalFailureToOptionalError } from '@temporalio/common/lib/internal-non-workflow/index.js';
import { tsToMs } from '@temporalio/common/lib/time.js';
import { codedFailureIn } from '../../contracts/failure.ts';
import { bounded } from '../../domain/text/escape.ts';
import { readable } from '../engine/executions.ts';

export interface Retry {
  /** Description of the step, in our words: `list tools of files`, `turn 3: main`. */
  readonly step: string;
  /** Code of the last failed attempt; `INTERNAL` if it has none. */
  readonly code: string;
  readonly message: string;
  /** Number of the next attempt, or of the one in flight; at least 2. */
  readonly attempt: number;
  /** Time of the first attempt, if it is found. */
  readonly since?: string;
  /** Time of the next attempt; absent while one is in flight. */
  readonly next?: string;
}

const LONGEST_MESSAGE = 300;
const LONGEST_STEP = 200;
/** Number of events read from the end of the history: a pending activity was scheduled not long ago. */
const LOOKED_AT = 200;

type Described = Awaited<ReturnType<ReturnType<Client['workflow']['getHandle']>['describe']>>;
type Pending = NonNullable<Described['raw']['pendingActivities']>[number];

export async function readRetries(client: Client, workflowId: string, runId?: string): Promise<readonly Retry[]> {
  return await retriesIn(client, await client.workflow.getHandle(workflowId, runId).describe());
}

export async function retriesIn(client: Client, { raw, workflowId, runId }: Described): Promise<readonly Retry[]> {
  const failing = (raw.pendingActivities ?? []).filter(({ lastFailure }) => lastFailure);
  if (failing.length === 0) return [];
  const begun = await scheduled(client, { workflowId, runId }).catch(() => new Map<string, Begun>());
  return await Promise.all(failing.map(async (each) => await retryOf(client, each, begun.get(each.activityId ?? ''))));
}

async function retryOf({ options }: Client, pending: Pending, begun: Begun | undefined): Promise<Retry> {
  const { activityType, attempt, lastFailure, nextAttemptScheduleTime } = pending;
  const error = await decodeOptionalFailureToOptionalError(options.loadedDataConverter, lastFailure).catch(
    () => undefined,
  );
  const { code = 'INTERNAL', message = error?.message ?? '' } = codedFailureIn(error) ?? {};
  const next = nextAttemptScheduleTime ? tsToMs(nextAttemptScheduleTime) : 0;
  return {
    step: bounded(begun?.summary ?? activityType?.name ?? 'a step', LONGEST_STEP),
    code,
    message: bounded(message, LONGEST_MESSAGE),
    attempt: attempt ?? 0,
    ...(begun?.at === undefined ? {} : { since: new Date(begun.at).toISOString() }),
    ...(next > 0 ? { next: new Date(next).toISOString() } : {}),
  };
}

interface Begun {
  readonly at?: number;
  readonly summary?: string;
}

/** Reads when activities were scheduled, by activity id. */
async function scheduled(
  client: Client,
  execution: { readonly workflowId: string; readonly runId: string },
): Promise<Map<string, Begun>> {
  const { connection, options } = client;
  const { history } = await connection.workflowService.getWorkflowExecutionHistoryReverse({
    namespace: options.namespace,
    execution,
    maximumPageSize: LOOKED_AT,
  });
  const begun = new Map<string, Begun>();
  for (const { activityTaskScheduledEventAttributes: activity, eventTime, userMetadata } of history?.events ?? []) {
    if (!activity?.activityId) continue;
    const summary = userMetadata?.summary && (await readable(client, [userMetadata.summary]));
    begun.set(activity.activityId, {
      ...(eventTime ? { at: tsToMs(eventTime) } : {}),
      ...(typeof summary === 'string' ? { summary } : {}),
    });
  }
  return begun;
}

/** Leaves out what was told before. A step is told again when it fails for another reason. */
export function tellingRetriesOnce(tell: (news: readonly Retry[]) => void): (all: readonly Retry[]) => void {
  let told = new Set<string>();
  return (all) => {
    const keyOf = ({ step, code, message }: Retry): string => JSON.stringify([step, code, message]);
    const news = all.filter((retry) => !told.has(keyOf(retry)));
    told = new Set(all.map(keyOf));
    if (news.length > 0) tell(news);
  };
}
