/**
 * Shows the calls of MCP clients as tasks: a task is the run of its call, under the same id (docs/adr/0078).
 *
 * 1. Nothing of a task is kept here: any gateway answers for it, after any restart.
 * 2. A task is read in the name of the person for whom its call was made. Only the client that made the call cancels or
 *    lists it.
 * 3. What a person has not yet approved is cancelled, and nothing else: a call that may have been sent goes on.
 */
import type { CallToolResult } from '@modelcontextprotocol/server';
import type { Tickets } from '../../client/gate/tickets.ts';
import { CountersignError } from '../../contracts/errors.ts';
import { type Caller, type Exchange, type Found, type GateCalls, idsOf, type Made } from './calls.ts';
import type { Outcomes } from './outcomes.ts';
import { type Pending, pendingWords, statusOf } from './replies.ts';

export interface TaskView {
  readonly taskId: string;
  readonly startedAt: Date;
  readonly updatedAt: Date;
  /** Time from the start on within which its outcome can be read. */
  readonly keptMs: number;
  readonly askAgainMs: number;
  readonly words: string;
  /** True while it goes on and nobody is asked. */
  readonly isRunning: boolean;
  /** What became of it, as its client is told; absent while it goes on. */
  readonly end?: CallToolResult;
}

export interface TaskPage {
  readonly tasks: readonly TaskView[];
  readonly next?: string;
}

export type Cancelled =
  | { readonly kind: 'cancelled'; readonly task: TaskView }
  | { readonly kind: 'goes-on' | 'over' | 'foreign' | 'unknown' };

export interface GateTasksParts {
  readonly calls: Pick<GateCalls, 'find' | 'present'>;
  readonly outcomes: Pick<Outcomes, 'endOf' | 'pendingOf' | 'openOf' | 'isUnsent'>;
  readonly tickets: Pick<Tickets, 'keptMs' | 'runsOf' | 'starterOf' | 'delivering'>;
  readonly stop: (caller: Caller, runId: string) => Promise<void>;
}

/** Why a call was stopped whose client has cancelled its task. */
export const WITHDRAWN = 'its client no longer wants it';

/** People take longer than a machine. */
const ASK_AGAIN_MS = { waiting: 5_000, running: 1_000 } as const;
/** The end of a run that has ended is read within this time, if Temporal answers at all. */
const READ_MS = 5_000;

export class GateTasks {
  readonly #parts: GateTasksParts;

  constructor(parts: GateTasksParts) {
    this.#parts = parts;
  }

  /**
   * Shows a call whose client is told of its task for the first time.
   * @param pending how far it is, if that is known
   */
  async begun({ runId }: Made, pending: Pending = { reference: runId, status: 'running' }): Promise<TaskView> {
    const starter = await this.#parts.tickets.starterOf(runId);
    const startedAt = starter?.startedAt ?? new Date();
    return {
      taskId: runId,
      startedAt,
      updatedAt: startedAt,
      keptMs: await this.#parts.tickets.keptMs({ startedAt }),
      ...shownOf(pending),
    };
  }

  /** @returns undefined if the caller's person has no such task */
  async of(caller: Caller, taskId: string): Promise<TaskView | undefined> {
    const found = await this.#parts.calls.find(caller, taskId);
    return found === undefined ? undefined : await this.#askedFor(found);
  }

  /** Shows a task with its whole outcome, which counts as delivered once the answer has left. */
  async whole(caller: Caller, taskId: string, exchange: Exchange): Promise<TaskView | undefined> {
    const found = await this.#parts.calls.find(caller, taskId);
    if (found === undefined) return undefined;
    const view = await this.#askedFor(found, false);
    if (view.end !== undefined) this.#delivering(found, exchange);
    return view;
  }

  /** Newest first. @param from `next` of the page before. @throws CountersignError `USAGE` if there is no such page */
  async list(caller: Caller, from?: string): Promise<TaskPage> {
    const { calls, tickets } = this.#parts;
    const { runIds, next } = await tickets.runsOf(idsOf(caller), from);
    const views = runIds.map(async (runId) => {
      const found = await calls.find(caller, runId);
      return found === undefined ? [] : [await this.#viewOf(found)];
    });
    return { tasks: (await Promise.all(views)).flat(), ...(next !== undefined && { next }) };
  }

  async cancel(caller: Caller, taskId: string, exchange: Exchange): Promise<Cancelled> {
    const { calls, outcomes, stop } = this.#parts;
    const found = await calls.find(caller, taskId);
    if (found === undefined) return { kind: 'unknown' };
    if (!found.isOwn) return { kind: 'foreign' };
    if (found.starter.endedAt !== undefined) return { kind: 'over' };
    // A request about something else than consent is of a call that was sent.
    const isAsked = (await outcomes.openOf(taskId)).some(({ about }) => about === undefined);
    // An approved call that waits for its client has not left either.
    const waits = isAsked || (found.isOnReturn && (await outcomes.isUnsent(taskId)));
    if (!waits) return { kind: 'goes-on' };
    try {
      await stop(caller, taskId);
    } catch (error) {
      // It has ended in this very moment.
      if (error instanceof CountersignError && error.code === 'RUN_CLOSED') return { kind: 'over' };
      throw error;
    }
    const end = await outcomes.endOf(taskId, { deadlineMs: READ_MS });
    if (end === undefined) return { kind: 'goes-on' };
    // It may have been approved and sent in this very moment: its client then has to learn what is known of it.
    if (statusOf(end) !== 'cancelled') return { kind: 'over' };
    this.#delivering(found, exchange);
    return { kind: 'cancelled', task: { ...(await this.#viewOf(found)), updatedAt: new Date(), end } };
  }

  /** A client that asks for a task is there to take its outcome. */
  async #askedFor(found: Found, preview?: boolean): Promise<TaskView> {
    const view = await this.#viewOf(found, preview);
    if (view.end === undefined && view.isRunning) await this.#parts.calls.present(found);
    return view;
  }

  #delivering({ ticket }: Made, { delivered }: Exchange): void {
    if (ticket !== undefined) this.#parts.tickets.delivering(ticket, delivered);
  }

  async #viewOf({ runId, starter }: Found, preview = true): Promise<TaskView> {
    const { outcomes, tickets } = this.#parts;
    const { startedAt, endedAt } = starter;
    const view = { taskId: runId, startedAt, keptMs: await tickets.keptMs(starter), isRunning: false };
    const end = endedAt === undefined ? undefined : await outcomes.endOf(runId, { deadlineMs: READ_MS, preview });
    if (end !== undefined)
      return { ...view, updatedAt: endedAt ?? startedAt, askAgainMs: ASK_AGAIN_MS.running, words: '', end };
    return { ...view, updatedAt: startedAt, ...shownOf(await outcomes.pendingOf(runId)) };
  }
}

function shownOf(pending: Pending): Pick<TaskView, 'askAgainMs' | 'words' | 'isRunning'> {
  const { status } = pending;
  return { askAgainMs: ASK_AGAIN_MS[status], words: pendingWords(pending), isRunning: status === 'running' };
}
