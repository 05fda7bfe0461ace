/**
 * Reads a server's word on a task: that it made a call a task (MCP 2025-11-25, "Creating a Task"), and the task's
 * progress.
 *
 * Pure. It owns what is believed of that word. It does not own when the server is asked
 * (`domain/legacy-2025/tasks.ts`).
 * 1. The task's id, and that of its session, find the task again and are secret: no other kept value holds them
 *    (INV-S1). Short ones can be guessed, and may be ordinary words or numbers: they are not looked for.
 * 2. Times of a server are hints: a number that makes no sense is left out.
 */
import { type Fields, isFields } from '../../../domain/shapes/inputs.ts';
import { bounded } from '../../../domain/text/escape.ts';
import type { Scrubber } from '../../scrubbing/scrubber.ts';
import { halfway, type Trace, unknown } from '../classify-failure.ts';
import { quoted, secretIds } from '../classify-result.ts';
import type { TaskId } from '../port.ts';
import type { LegacyCalls } from '../mcp-server.ts';

/** UTF-16 units, for each id. */
const LONGEST_ID = 2_048;
const LONGEST_MESSAGE = 200;

const STATUSES = ['working', 'input_required', 'completed', 'failed', 'cancelled'] as const;
export type TaskStatus = (typeof STATUSES)[number];

export interface TaskWord {
  readonly status: TaskStatus;
  readonly pollMs?: number;
  readonly ttlMs?: number;
  readonly message?: string;
}

interface TaskAnswer {
  readonly kind: 'result';
  readonly result: Readonly<Record<string, unknown>> & { readonly task: Fields };
}

/** True if a task was given instead of a result. A server that knows no tasks answers with the result all the same. */
export function isTask(trace: Trace): trace is Extract<Trace, { kind: 'answered' }> & { readonly answer: TaskAnswer } {
  return trace.kind === 'answered' && trace.session !== undefined && isTaskAnswer(trace.answer);
}

export function isTaskAnswer(answer: { readonly kind: string }): answer is TaskAnswer {
  if (!('result' in answer) || !isFields(answer.result)) return false;
  const { task, content } = answer.result;
  return isFields(task) && content === undefined;
}

export const begunTask: LegacyCalls['begunTask'] = (trace, names, scrubbing) => {
  if (!isTask(trace)) return undefined;
  const { task } = trace.answer.result;
  const { taskId } = task;
  const id = { taskId, ...trace.session };
  if (!isTaskId(id)) return halfway(names, 'task', 'it has no id by which it could be found again');
  const said = wordOf(task, scrubbing(secretsOf(id)));
  if (said === undefined) return unknown(names, 'the server made a task of it that has no status');
  const { status: _, ...word } = said;
  return { kind: 'task', id, ...word };
};

function isTaskId(id: { readonly taskId: unknown; readonly sessionId?: string }): id is TaskId {
  const { taskId, sessionId = '' } = id;
  if (typeof taskId !== 'string' || taskId === '') return false;
  return taskId.length <= LONGEST_ID && sessionId.length <= LONGEST_ID;
}

export function secretsOf({ taskId, sessionId }: TaskId): string[] {
  return [taskId, sessionId].flatMap((id) => secretIds(id));
}

export function wordOf(task: Fields, scrub: Scrubber): TaskWord | undefined {
  const { status, statusMessage, pollInterval, ttl } = task;
  const known = STATUSES.find((each) => each === status);
  if (known === undefined) return undefined;
  const message = typeof statusMessage === 'string' ? bounded(quoted(scrub, statusMessage), LONGEST_MESSAGE) : '';
  return {
    status: known,
    ...(isTime(pollInterval) ? { pollMs: pollInterval } : {}),
    ...(isTime(ttl) ? { ttlMs: ttl } : {}),
    ...(message === '' ? {} : { message }),
  };
}

function isTime(value: unknown): value is number {
  return typeof value === 'number' && Number.isFinite(value) && value > 0;
}
