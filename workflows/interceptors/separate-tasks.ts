/**
 * Leaves a command in each workflow task of a run or catalog that would leave none (docs/adr/0087).
 *
 * The SDK joins such a task with the next one if an update follows it directly, and only where the run is rebuilt for
 * that update. Later replays know from the history where the update was accepted, and separate both tasks: their
 * commands come in another order, or at another time, and the run is stuck.
 *
 * 1. The command removes a memo field that was never there: one event, which changes nothing that anybody sees.
 * 2. The first such task of an execution leaves a marker instead (`PATCHES`). Tasks before it stay as they are, so that
 *    executions which began without this module replay (INV-D1).
 * 3. A replay decides in the same way, by jobs, commands and marker. A rejected update is in no history, so a task that
 *    brings nothing else leaves nothing.
 * 4. A query is no task, and gets no command.
 * 5. Tickets and digests take no updates, and stay as they are.
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
  const tasks = new Tasks();
  return {
    internals: [
      {
        activate: (input, next) => {
          tasks.begin(input);
          next(input);
        },
        concludeActivation: (input, next) => {
          const { commands } = next(input);
          return { commands: tasks.end(commands) };
        },
      },
    ],
  };
}

class Tasks {
  /** True once the marker is in the history, or on its way there. */
  #isMarked = false;
  #isReplaying = false;
  /** True if something came that is in the history, whatever this task makes of it. */
  #bringsEvents = false;
  /** Updates that have no answer yet. */
  readonly #accepted = new Set<string>();

  begin({ activation: { jobs, isReplaying }, batchIndex }: ActivateInput): void {
    if (batchIndex === 0) this.#bringsEvents = false;
    if (!SEPARATED.includes(workflowInfo().workflowType)) return;
    this.#bringsEvents ||= (jobs ?? []).some(({ queryWorkflow, doUpdate }) => !queryWorkflow && !doUpdate);
    this.#isReplaying = isReplaying === true;
    // A replay learns of a marker at the beginning of the task that left it, and has to leave it again.
    if (this.#isReplaying && this.#bringsEvents) this.#isMarked ||= patched('separate-tasks');
  }

  end(commands: Command[]): Command[] {
    const isEmpty = this.#bringsEvents && !leavesEvent(commands, this.#accepted);
    this.#bringsEvents = false;
    for (const { updateResponse } of commands) {
      const { protocolInstanceId: id, accepted } = updateResponse ?? {};
      if (id && accepted) this.#accepted.add(id);
      else if (id) this.#accepted.delete(id);
    }
    if (!isEmpty) return commands;
    if (this.#isMarked) return [...commands, REMOVED];
    if (this.#isReplaying) return commands;
    this.#isMarked = true;
    // First, as in a replay: other commands may become events as well.
    return [MARKER, ...commands];
  }
}

const SEPARATED: readonly string[] = [RUN_WORKFLOW, CATALOG_WORKFLOW];

// `patched` would leave its command for the next task: the commands of this one are already taken.
const MARKER: Command = { setPatchMarker: { patchId: 'separate-tasks', deprecated: false } };

/** Temporal removes a field whose payload is empty, and refuses a command without a field. */
const REMOVED: Command = {
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
 * the rejection of an update that was not accepted. A cancellation alone counts as nothing: where it does become an
 * event, one more does no harm.
 *
 * @param accepted updates that were accepted in an earlier task; the failure of one looks like a rejection
 */
export function leavesEvent(commands: readonly Command[], accepted: ReadonlySet<string>): boolean {
  const timers = new Set(commands.map(({ cancelTimer }) => cancelTimer?.seq));
  const activities = new Set(commands.map(({ requestCancelActivity }) => requestCancelActivity?.seq));
  return commands.some((command) => {
    const { startTimer, scheduleActivity, updateResponse } = command;
    if (startTimer) return !timers.has(startTimer.seq);
    if (scheduleActivity) return !activities.has(scheduleActivity.seq);
    if (updateResponse) return !updateResponse.rejected || accepted.has(updateResponse.protocolInstanceId ?? '');
    return LASTING.some((kind) => command[kind]);
  });
}
