/**
 * Tickets of calls that MCP clients make: which run makes a call, and that its outcome was delivered (docs/adr/0078).
 *
 * 1. Temporal decides who comes first: any number of gateways find the same ticket for equal calls.
 * 2. Only the end of that very ticket is told, so a late word never ends the ticket of a newer call.
 */
import { setTimeout as pause } from 'node:timers/promises';
import type { WorkflowExecutionDescription } from '@temporalio/client';
import { CountersignError } from '../../contracts/errors.ts';
import { SEARCH_ATTRIBUTES, SIGNALS, TICKET_MEMO, TICKET_RUN_MEMO, TICKET_WORKFLOW } from '../../contracts/names.ts';
import { Limits } from '../../contracts/schemas/run-spec.ts';
import { runOfTicket } from '../../domain/gate/ticket.ts';
import type { Engine } from '../engine/engine.ts';

export interface Ticket {
  readonly ticketId: string;
  /** Temporal run id of the ticket. */
  readonly execution: string;
  /** Id of the run that makes the call. */
  readonly runId: string;
  readonly ageMs: number;
}

export interface TicketOptions {
  readonly taskQueue: string;
  /** Time for which an outcome is kept that nobody has come for, from the latest end of its run on. */
  readonly keepSeconds: number;
}

/** Who started a run. */
export interface Starter {
  readonly initiator: string | undefined;
  readonly tenant: string | undefined;
  /** Id of the ticket under which the run was started; absent if it was not started for an MCP client. */
  readonly ticketId: string | undefined;
}

/** Longest time for which an equal call waits for a delivery. */
const MOST_TELLING_MS = 2_000;

/** A ticket outlives the run of its call: a single call has the wall clock of every run that states none. */
const LONGEST_CALL_SECONDS = Limits.parse({}).wallClockSeconds;

export class Tickets {
  readonly #engine: Engine;
  readonly #options: TicketOptions;
  /** Ticket id → the delivery that is under way. An equal call of this process waits for it, and so finds no old outcome. */
  readonly #telling = new Map<string, Promise<void>>();

  constructor(engine: Engine, options: TicketOptions) {
    this.#engine = engine;
    this.#options = options;
  }

  /**
   * Takes the ticket of a call, or finds the one that an equal call holds.
   * @param runId the run that makes the call, if it was started already
   * @throws CountersignError `ENGINE_UNAVAILABLE`
   */
  async take(ticketId: string, runId?: string): Promise<Ticket> {
    await this.#settled(ticketId);
    const { taskQueue, keepSeconds } = this.#options;
    const { workflow } = this.#engine.client;
    return await this.#engine.call(ticketId, async () => {
      const { firstExecutionRunId } = await workflow.start(TICKET_WORKFLOW, {
        workflowId: ticketId,
        taskQueue,
        workflowIdConflictPolicy: 'USE_EXISTING',
        workflowIdReusePolicy: 'ALLOW_DUPLICATE',
        workflowExecutionTimeout: (LONGEST_CALL_SECONDS + keepSeconds) * 1_000,
        staticSummary: 'holds the outcome of a call until its client has it',
        ...(runId !== undefined && { memo: { [TICKET_RUN_MEMO]: runId } }),
      });
      return ticketIn(await workflow.getHandle(ticketId, firstExecutionRunId).describe());
    });
  }

  /**
   * Finds the ticket that an equal call holds.
   * @throws CountersignError `ENGINE_UNAVAILABLE`
   */
  async find(ticketId: string): Promise<Ticket | undefined> {
    await this.#settled(ticketId);
    const described = await this.#described(ticketId);
    return described?.status.name === 'RUNNING' ? ticketIn(described) : undefined;
  }

  /**
   * Ends a ticket once its outcome was delivered: from then on an equal call is a new one.
   * @param delivered resolves to false if the caller has gone without it
   */
  delivering({ ticketId, execution }: Ticket, delivered: Promise<boolean>): void {
    const telling = delivered.then(async (isDelivered) => {
      if (isDelivered) await this.#tell(ticketId, execution);
    });
    this.#telling.set(ticketId, telling);
    void telling.finally(() => {
      if (this.#telling.get(ticketId) === telling) this.#telling.delete(ticketId);
    });
  }

  /** A client may make an equal call before its connection has told that it has the outcome of the one before. */
  async #settled(ticketId: string): Promise<void> {
    const telling = this.#telling.get(ticketId);
    if (telling === undefined) return;
    const over = new AbortController();
    // A reader that takes nothing holds up nobody else.
    const late = pause(MOST_TELLING_MS, undefined, { signal: over.signal }).catch(() => undefined);
    await Promise.race([telling, late]);
    over.abort();
  }

  /** The word is durable before a worker takes it; its end is waited for, so that the next call finds no old ticket. */
  async #tell(ticketId: string, execution: string): Promise<void> {
    const handle = this.#engine.client.workflow.getHandle(ticketId, execution);
    try {
      await this.#engine.call(ticketId, () => handle.signal(SIGNALS.delivered));
      await this.#engine.call(ticketId, () => handle.result(), MOST_TELLING_MS);
    } catch (error) {
      // Without the word an equal call gets the same outcome once more, and nothing runs for it.
      if (!(error instanceof CountersignError)) throw error;
    }
  }

  /** Waits until what was delivered is told. */
  async settled(): Promise<void> {
    await Promise.all(this.#telling.values());
  }

  /**
   * Says in whose name a run was started; undefined if there is no such run.
   * @throws CountersignError `ENGINE_UNAVAILABLE`
   */
  async starterOf(runId: string): Promise<Starter | undefined> {
    const described = await this.#described(runId);
    if (described === undefined) return undefined;
    const { typedSearchAttributes: read, memo } = described;
    const ticketId: unknown = memo?.[TICKET_MEMO];
    return {
      initiator: read.get(SEARCH_ATTRIBUTES.initiator),
      tenant: read.get(SEARCH_ATTRIBUTES.tenant),
      ticketId: typeof ticketId === 'string' ? ticketId : undefined,
    };
  }

  async #described(workflowId: string): Promise<WorkflowExecutionDescription | undefined> {
    try {
      return await this.#engine.call(workflowId, () => this.#engine.client.workflow.getHandle(workflowId).describe());
    } catch (error) {
      if (error instanceof CountersignError && error.code === 'RUN_NOT_FOUND') return undefined;
      throw error;
    }
  }
}

function ticketIn({ workflowId, runId: execution, startTime, memo, type }: WorkflowExecutionDescription): Ticket {
  if (type !== TICKET_WORKFLOW) {
    const message = `Workflow ${workflowId} is no ticket: something else was started under its id. Stop it, and make the call again.`;
    throw new CountersignError('RUN_ID_CONFLICT', message, { runId: workflowId });
  }
  const named: unknown = memo?.[TICKET_RUN_MEMO];
  return {
    ticketId: workflowId,
    execution,
    runId: typeof named === 'string' ? named : runOfTicket(execution),
    ageMs: Date.now() - startTime.getTime(),
  };
}
