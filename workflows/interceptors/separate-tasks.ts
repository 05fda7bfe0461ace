/**
 * Leaves a command in each workflow task of a run or catalog that brings events and would leave none (docs/adr/0087).
 *
 * The SDK joins two such tasks in a row if the run is rebuilt for an update that follows them directly. Later replays
 * separate them, and their commands come in another order, so that the run is stuck, or at another time.
 *
 * 1. The command removes a memo field that was never there: one event, of which nobody sees anything.
 * 2. The first such task of an execution leaves a marker instead (`PATCHES`). Tasks before it stay as they are, so that
 *    executions which began without this module replay (INV-D1).
 * 3. A replay decides by the same: jobs, commands, the length of the history, and the marker. Only the first activation
 *    of a task may leave something: a replay learns of the marker there, and a later one may come after the end.
 * 4. A rejected update is in no history. A task that brings nothing else leaves nothing.
 * 5. A run without the marker may have been joined for the update that it hears of now, by this or an older build. The
 *    marker then stands before the acceptance, and later replays join the same tasks.
 * 6. A query is no task, and gets no command. Tickets and digests take no updates, and stay as they are.
 */
import { defaultPayloadConverter } from '@temporalio/common';
import {
  type ActivateInput,
  type ConcludeActivationInput,
  patched,
  workflowInfo,
  type WorkflowInterceptors,
} from '@temporalio/workflow';
import { CATALOG_WORKFLOW, RUN_WORKFLOW, TASK_MEMO } from '../../contracts/names.ts';

export type Command = ConcludeActivationInput['commands'][number];

export function interceptors(): WorkflowInterceptors {
  const tasks = new Tasks(() => patched('separate-tasks'));
  return {
    internals: [
      {
        activate: (input, next) => {
          if (SEPARATED.includes(workflowInfo().workflowType)) tasks.begin(input);
          next(input);
        },
        concludeActivation: (input, next) => ({ commands: tasks.end(next(input).commands) }),
      },
    ],
  };
}

const SEPARATED: readonly string[] = [RUN_WORKFLOW, CATALOG_WORKFLOW];

/** The tasks of one execution in one worker's memory. */
export class Tasks {
  readonly #replayMarker: () => boolean;
  /** True once the marker is in the history, or on its way there. */
  #isMarked = false;
  #isReplaying = false;
  /** The history's length tells the task: its activations have the same. */
  #historyLength = 0;
  /** What the present activation brings, if it is the first of its task. */
  #brings = NOTHING;
  readonly #accepted = new Set<string>();

  /** @param replayMarker leaves the marker again if the history has it at this task, and says whether it has */
  constructor(replayMarker: () => boolean) {
    this.#replayMarker = replayMarker;
  }

  begin({ activation }: ActivateInput): void {
    const jobs = activation.jobs ?? [];
    if (jobs.some(({ queryWorkflow }) => queryWorkflow)) return;
    const length = activation.historyLength ?? 0;
    const isFirst = length !== this.#historyLength;
    this.#historyLength = length;
    if (!isFirst) return;
    this.#isReplaying = activation.isReplaying === true;
    this.#brings = {
      events: jobs.some(({ doUpdate }) => !doUpdate),
      both:
        jobs.some(({ doUpdate, initializeWorkflow }) => !doUpdate && !initializeWorkflow) &&
        jobs.some(({ doUpdate }) => doUpdate),
    };
    if (this.#isReplaying && this.#brings.events) this.#isMarked ||= this.#replayMarker();
  }

  end(commands: Command[]): Command[] {
    const { events, both } = this.#brings;
    this.#brings = NOTHING;
    const isEmpty = events && !leavesEvent(commands, this.#accepted);
    for (const { updateResponse } of commands) {
      const { protocolInstanceId: id, accepted } = updateResponse ?? {};
      if (id && accepted) this.#accepted.add(id);
      else if (id) this.#accepted.delete(id);
    }
    if (this.#isMarked) return isEmpty ? [...commands, REMOVED] : commands;
    if (this.#isReplaying || !(isEmpty || both)) return commands;
    this.#isMarked = true;
    // First, as in a replay.
    return [MARKER, ...commands];
  }
}

const NOTHING = { events: false, both: false };

// `patched` would leave its command for the next task: the commands of this one are already taken.
export const MARKER: Command = { setPatchMarker: { patchId: 'separate-tasks', deprecated: false } };

/** Temporal removes a field whose payload is empty, and refuses a command without a field. */
export const REMOVED: Command = {
  modifyWorkflowProperties: { upsertedMemo: { fields: { [TASK_MEMO]: defaultPayloadConverter.toPayload(undefined) } } },
};

/** Other commands that always become events. */
const LASTING = [
  'setPatchMarker',
  'upsertWorkflowSearchAttributes',
  'modifyWorkflowProperties',
  'completeWorkflowExecution',
  'failWorkflowExecution',
  'cancelWorkflowExecution',
  'continueAsNewWorkflowExecution',
] as const satisfies readonly (keyof Command)[];

/**
 * True if at least one command certainly becomes an event. The SDK drops what is started and cancelled in one task, and
 * the rejection of an update that was not accepted. Where an activity is cancelled the task may go on, and cancel what
 * it has started here. A cancellation counts as nothing: where it does become an event, one more does no harm.
 *
 * @param accepted updates that were accepted in an earlier task; the failure of one looks like a rejection
 */
export function leavesEvent(commands: readonly Command[], accepted: ReadonlySet<string>): boolean {
  const goesOn = commands.some(({ requestCancelActivity }) => requestCancelActivity);
  const ended = new Set(commands.map(({ cancelTimer }) => cancelTimer?.seq));
  return commands.some((command) => {
    const { startTimer, scheduleActivity, updateResponse } = command;
    if (startTimer) return !goesOn && !ended.has(startTimer.seq);
    if (scheduleActivity) return !goesOn;
    if (updateResponse) return !updateResponse.rejected || accepted.has(updateResponse.protocolInstanceId ?? '');
    return LASTING.some((kind) => command[kind]);
  });
}
