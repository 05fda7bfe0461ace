/**
 * Resets a run that no worker can replay to its last task that can be replayed (docs/adr/0045).
 *
 * Owns: the list of what is undone, and the reset. Does not own: which task that is (a replay finds it), or what the
 * run does afterwards.
 * 1. The reset applies only to the execution that was inspected. A run that has gone on meanwhile is left alone.
 * 2. A reset that is requested twice is done once.
 */
import { type Client, WorkflowNotFoundError } from '@temporalio/client';
import { tsToMs } from '@temporalio/common/lib/time.js';
import { defined } from '../../contracts/defined.ts';
import { CountersignError } from '../../contracts/errors.ts';
import { ACTIVITIES, STRETCHING } from '../../contracts/names.ts';
import { endingOf, type SendEnding, stretchedSends } from '../../domain/history/discarded-send.ts';
import { activityIn, type History, type HistoryEvent, readable } from '../engine/executions.ts';
import { type Subject, troubleOf } from '../engine/trouble.ts';
import { fieldOf, listAt, textAt } from '../ledger/files.ts';

/** Temporal sends messages and stops to the run again after the reset (temporal.api.enums.v1.ResetReapplyType). */
const REAPPLY_ALL = 3;

export interface Recovery {
  readonly runId: string;
  readonly execution: string;
  /** The same as in `RecoverOptions`. */
  readonly task: number;
  readonly discarded: Awaited<ReturnType<typeof discardedPart>>;
  /** The Temporal run that goes on; absent if nothing was done. */
  readonly became?: string;
}

export interface RecoverOptions {
  /** Event id of a completed workflow task: it and everything after it are undone. */
  readonly task: number;
  /** The Temporal run to which the event belongs. */
  readonly execution: string;
  /** Temporal keeps this text with the reset. */
  readonly reason?: string;
  /** Only reports what would be undone. */
  readonly dry?: boolean;
}

/**
 * Reads the newest execution of a workflow, and its history; `runId` is that of Temporal.
 * @param about how a workflow that is not there is named
 * @throws CountersignError `RUN_NOT_FOUND`, `CATALOG_NOT_FOUND`
 */
export async function livingHistory(client: Client, workflowId: string, about: Subject = workflowId) {
  const { runId, status } = await client.workflow
    .getHandle(workflowId)
    .describe()
    .catch((error: unknown) => {
      // Whoever asks for several things of a service does not know which of them is not there.
      throw error instanceof WorkflowNotFoundError ? troubleOf(error, about) : error;
    });
  const history = await client.workflow.getHandle(workflowId, runId).fetchHistory();
  return { runId, isOpen: status.name === 'RUNNING', history };
}

/** Resets the run, or only reports with `dry`. @throws CountersignError `USAGE`, `RUN_CLOSED` */
export async function recover(client: Client, workflowId: string, options: RecoverOptions): Promise<Recovery> {
  const { task, execution, reason = 'countersign recover', dry = false } = options;
  const { runId, isOpen, history } = await livingHistory(client, workflowId);
  const facts = { runId: workflowId };
  if (runId !== execution) {
    const message = `Run ${workflowId} has gone on in another Temporal run. Look at it anew.`;
    throw new CountersignError('USAGE', message, facts);
  }
  if (!isOpen) throw new CountersignError('RUN_CLOSED', `Run ${workflowId} has ended.`, facts);
  const event = history.events?.find(({ eventId }) => Number(eventId) === task);
  if (!event?.workflowTaskCompletedEventAttributes)
    throw new CountersignError('USAGE', `Event ${task} of run ${workflowId} completes no workflow task.`, facts);
  const found = { runId: workflowId, execution, task, discarded: await discardedPart(client, history, task) };
  if (dry) return found;
  const answer = await client.workflowService.resetWorkflowExecution({
    namespace: client.options.namespace,
    workflowExecution: { workflowId, runId },
    reason,
    requestId: `recover/${runId}/${task}`,
    workflowTaskFinishEventId: event.eventId ?? null,
    resetReapplyType: REAPPLY_ALL,
  });
  return { ...found, became: answer.runId };
}

export interface DiscardedCall {
  readonly callId: string;
  readonly server: string;
  readonly tool: string;
  /** Time at which a worker got the call. */
  readonly at: string;
  readonly ending: SendEnding;
  /** True for a repeatable tool, by the policy of then: the run sends the call again by itself. */
  readonly repeatable: boolean;
}

export type DiscardedAnswer = ReturnType<typeof answerOf>;

/** Lists what a reset takes back. @param from event id of the workflow task that is undone, with everything after it */
export async function discardedPart(client: Client, history: History, from: number) {
  const events = history.events ?? [];
  const repeatable = new Set<string>();
  const stretches = new Set<string>();
  const calls = new Map<string, DiscardedCall>();
  const answers: DiscardedAnswer[] = [];
  const admitted = new Map<string, UpdateRequest>();
  for (const event of events) {
    const isDiscarded = Number(event.eventId) >= from;
    const activity = activityIn(event);
    if (activity !== undefined) {
      const { kind, id, payloads } = activity;
      // An unreadable payload is shown as such and not thrown, since the run is broken already.
      const content = await readable(client, payloads);
      if (kind === 'scheduled') {
        if (STRETCHING.includes(activity.name)) stretches.add(id);
        if (isDiscarded && activity.name === ACTIVITIES.callTool) calls.set(id, callOf(event, content));
      } else {
        if (kind === 'completed') for (const callId of repeatableIn(content)) repeatable.add(callId);
        if (isDiscarded && stretches.has(id) && (kind === 'completed' || payloads))
          for (const call of stretchedIn(event, content)) calls.set(`${String(event.eventId)} ${call.callId}`, call);
        const call = calls.get(id);
        const ending = kind === 'completed' ? endingOf(content) : activity.wasStarted ? 'unknown' : 'unsent';
        if (call !== undefined) calls.set(id, { ...call, ending });
      }
    }
    // After a reset Temporal records a message that it sends again as admitted; its acceptance does not repeat it.
    const request = event.workflowExecutionUpdateAdmittedEventAttributes?.request;
    if (request) admitted.set(request.meta?.updateId ?? '', request);
    const acceptance = event.workflowExecutionUpdateAcceptedEventAttributes;
    const accepted = acceptance?.acceptedRequest ?? admitted.get(acceptance?.protocolInstanceId ?? '');
    if (isDiscarded && accepted)
      answers.push(answerOf(accepted, await readable(client, accepted.input?.args?.payloads)));
  }
  return {
    events: events.filter(({ eventId }) => Number(eventId) >= from).length,
    answers,
    calls: [...calls.values()].map((call) => ({ ...call, repeatable: call.repeatable || repeatable.has(call.callId) })),
  };
}

function callOf(event: HistoryEvent, input: unknown): DiscardedCall {
  const target = fieldOf(input, 'target');
  return {
    callId: textAt(input, 'callId') ?? 'cannot be read',
    server: textAt(target, 'server') ?? '',
    tool: textAt(target, 'tool') ?? '',
    at: new Date(tsToMs(event.eventTime)).toISOString(),
    ending: 'unknown',
    repeatable: false,
  };
}

type UpdateRequest = NonNullable<
  NonNullable<HistoryEvent['workflowExecutionUpdateAcceptedEventAttributes']>['acceptedRequest']
>;

function answerOf({ input, meta }: UpdateRequest, message: unknown) {
  const callId = textAt(message, 'callId');
  const by = textAt(fieldOf(message, 'approver') ?? fieldOf(message, 'by'), 'id');
  // For a catalog: the tools whose settings the update sets.
  const tools = listAt(message, 'changes').map((change) => textAt(change, 'tool') ?? '');
  return {
    update: input?.name ?? '',
    id: meta?.updateId ?? '',
    ...defined({ callId, tools: tools.length === 0 ? undefined : tools, by }),
  };
}

/** Returns the calls that were made within a stretch. Only repeatable ones are (docs/adr/0058). */
function stretchedIn(event: HistoryEvent, record: unknown): readonly DiscardedCall[] {
  const sends = stretchedSends(record)?.map(({ callId, server, tool, at, ending }) => {
    return { callId, server, tool, at: new Date(at).toISOString(), ending, repeatable: true };
  });
  return sends ?? [callOf(event, undefined)];
}

/** Returns the calls that are repeatable by their verdict, in the result of a model step, judge or stretch. */
function repeatableIn(result: unknown): readonly string[] {
  const turns = listAt(result, 'turns');
  if (turns.length > 0) return turns.flatMap((turn) => repeatableIn(fieldOf(turn, 'step')));
  const judgements = listAt(fieldOf(result, 'judged') ?? result, 'judgements');
  const repeatable = judgements.filter((each) => fieldOf(each, 'repeatable') === true);
  return repeatable.map((each) => textAt(each, 'callId') ?? '');
}
