/**
 * Tickets of calls that MCP clients make: which run makes a call, and that its outcome was delivered (docs/adr/0078).
 *
 * 1. Temporal decides who comes first: any number of gateways find the same ticket for equal calls.
 * 2. Only the end of that very ticket is told, so a late word never ends the ticket of a newer call.
 */
import { setTimeout as pause } from 'node:timers/promises';
import type { WorkflowExecutionDescription, WorkflowExecutionInfo } from '@temporalio/client';
import { tsToMs } from '@temporalio/common/lib/time.js';
import { defined } from '../../contracts/defined.ts';
import { CountersignError } from '../../contracts/errors.ts';
import {
  DISPATCH_MEMO,
  RUN_WORKFLOW,
  SEARCH_ATTRIBUTES,
  SIGNALS,
  TICKET_MEMO,
  TICKET_RUN_MEMO,
  TICKET_WORKFLOW,
} from '../../contracts/names.ts';
import { Limits } from '../../contracts/schemas/run-spec.ts';
import { type Owner, ownerOf, RUN_PREFIX, runOfTicket } from '../../domain/gate/ticket.ts';
import type { Engine } from '../engine/engine.ts';
import { ifThere } from '../engine/executions.ts';
import { quoted } from '../run/inbox.ts';

export type Ticket = ReturnType<typeof ticketIn>;

interface TicketOptions {
  readonly taskQueue: string;
  /** Time for which an outcome is kept that nobody has come for, from the latest end of its run on. */
  readonly keepSeconds: number;
}

export type Starter = NonNullable<Awaited<ReturnType<Tickets['starterOf']>>>;

/** Runs on one page: each of them is asked what became of it. */
const PAGE_SIZE = 10;
/** Runs of a person that are looked through for a list: one page of Temporal. */
const MOST_LISTED = 1_000;

/** Longest time for which an equal call waits for a delivery. */
const MOST_TELLING_MS = 2_000;

/** A ticket outlives the run of its call: a single call has the wall clock of every run that states none. */
const LONGEST_CALL_SECONDS = Limits.parse({}).wallClockSeconds;

export class Tickets {
  #retention: Promise<number | undefined> | undefined;
  readonly #engine: Engine;
  readonly #options: TicketOptions;
  /** Ticket id → the delivery under way. An equal call of this process waits for it, and finds no old outcome. */
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

  /** Finds the ticket that an equal call holds. @throws CountersignError `ENGINE_UNAVAILABLE` */
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
    // A reader that takes nothing holds up nobody else.
    if (telling !== undefined) await Promise.race([telling, pause(MOST_TELLING_MS, undefined, { ref: false })]);
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

  async settled(): Promise<void> {
    await Promise.all(this.#telling.values());
  }

  /** Returns undefined if there is no such run. @throws CountersignError `ENGINE_UNAVAILABLE` */
  async starterOf(runId: string) {
    const described = await this.#described(runId);
    if (described === undefined) return undefined;
    const { typedSearchAttributes: read, memo, closeTime } = described;
    const ticketId: unknown = memo?.[TICKET_MEMO];
    return {
      startedAt: begunAt(described),
      /** Absent while the run goes on. */
      ...defined({ endedAt: closeTime }),
      initiator: read.get(SEARCH_ATTRIBUTES.initiator),
      tenant: read.get(SEARCH_ATTRIBUTES.tenant),
      servers: read.get(SEARCH_ATTRIBUTES.servers) ?? [],
      /** True if its approved call waits until its client is back. */
      isOnReturn: memo?.[DISPATCH_MEMO] === 'on-return',
      /** Id of the ticket under which the run was started; absent if it was not started for an MCP client. */
      ticketId: typeof ticketId === 'string' ? ticketId : undefined,
    };
  }

  /**
   * Lists the calls that one client of a person has made, newest first, among the newest of that person.
   * @param after the last id of the page before
   * @throws CountersignError `USAGE` if no page ends there, `ENGINE_UNAVAILABLE`
   */
  async runsOf({ tenant, person, client }: Owner, after?: string) {
    const conditions = [
      `WorkflowType = ${quoted(RUN_WORKFLOW)}`,
      `WorkflowId STARTS_WITH ${quoted(RUN_PREFIX)}`,
      `${SEARCH_ATTRIBUTES.initiator.name} = ${quoted(person)}`,
      `${SEARCH_ATTRIBUTES.tenant.name} = ${quoted(tenant)}`,
      `ExecutionStatus != 'ContinuedAsNew'`,
    ];
    const owner = ownerOf({ tenant, person, client });
    const own: WorkflowExecutionInfo[] = [];
    let seen = 0;
    for await (const execution of this.#engine.list(conditions.join(' AND '))) {
      const ticketId: unknown = execution.memo?.[TICKET_MEMO];
      if (typeof ticketId === 'string' && ticketId.startsWith(owner)) own.push(execution);
      if ((seen += 1) === MOST_LISTED) break;
    }
    const ids = own
      .toSorted((one, other) => other.startTime.getTime() - one.startTime.getTime())
      .map(({ workflowId }) => workflowId);
    // A page of Temporal's own would be named by the client in bytes that Temporal takes without a check.
    const from = after === undefined ? 0 : ids.indexOf(after) + 1;
    if (after !== undefined && from === 0) throw new CountersignError('USAGE', 'No page of the list ends there.');
    const runIds = ids.slice(from, from + PAGE_SIZE);
    const last = runIds.at(-1);
    /** `next` is what `after` is for the next page; absent on the last one. */
    return { runIds, ...defined({ next: last === ids.at(-1) ? undefined : last }) };
  }

  /** Returns for how long what became of a call can be read, in ms from the start of its run on. */
  async keptMs({ startedAt, endedAt }: Pick<Starter, 'startedAt' | 'endedAt'>): Promise<number> {
    this.#retention ??= this.#retentionMs();
    const retention = (await this.#retention) ?? this.#options.keepSeconds * 1_000;
    const lasts = endedAt === undefined ? LONGEST_CALL_SECONDS * 1_000 : endedAt.getTime() - startedAt.getTime();
    return lasts + retention;
  }

  async #retentionMs(): Promise<number | undefined> {
    const { client, namespace } = this.#engine;
    try {
      const { config } = await this.#engine.call('', () => client.workflowService.describeNamespace({ namespace }));
      const kept = config?.workflowExecutionRetentionTtl ?? undefined;
      return kept === undefined ? undefined : tsToMs(kept);
    } catch {
      // It may not be told to everybody, or not now.
      this.#retention = undefined;
      return undefined;
    }
  }

  async #described(workflowId: string): Promise<WorkflowExecutionDescription | undefined> {
    const handle = this.#engine.client.workflow.getHandle(workflowId);
    return await this.#engine.read(workflowId, () => ifThere(() => handle.describe()));
  }
}

/** A run that continued as new, and a ticket that was reset, began with their first execution. */
function begunAt({ startTime, raw }: WorkflowExecutionDescription): Date {
  const first = raw.workflowExtendedInfo?.originalStartTime ?? undefined;
  return first === undefined ? startTime : new Date(tsToMs(first));
}

function ticketIn(described: WorkflowExecutionDescription) {
  const { workflowId, runId: execution, memo, type, raw } = described;
  if (type !== TICKET_WORKFLOW) {
    const message = `Workflow ${workflowId} is no ticket: something else was started under its id. Stop it, and make the call again.`;
    throw new CountersignError('RUN_ID_CONFLICT', message, { runId: workflowId });
  }
  const named: unknown = memo?.[TICKET_RUN_MEMO];
  return {
    ticketId: workflowId,
    /** Temporal run id of the ticket. */
    execution,
    // A ticket that was reset stays that of its call: another run id would make the call a second time.
    runId: typeof named === 'string' ? named : runOfTicket(raw.workflowExecutionInfo?.firstRunId || execution),
    ageMs: Date.now() - begunAt(described).getTime(),
  };
}
