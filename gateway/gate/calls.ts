/**
 * Has the calls of MCP clients made, each as a single call (`client/run/single-call.ts`), and finds what became of
 * them.
 *
 * 1. A call is started once. An equal call finds the one that waits, or whose outcome no client has got, by its ticket;
 *    after the delivery it is a new one (docs/adr/0078).
 * 2. A reference reads, and starts nothing, whatever comes with it. What a ticket leads to counts only if it was
 *    started for the ticket.
 * 3. A call is held for a bounded time, and a task for as long as its client's token is good. Who is answered that it
 *    waits may come back to any gateway, after any restart.
 */
import { randomUUID } from 'node:crypto';
import { setTimeout as pause } from 'node:timers/promises';
import type { CallToolResult } from '@modelcontextprotocol/server';
import { LRUCache } from 'lru-cache';
import type { Starter, Ticket, Tickets } from '../../client/gate/tickets.ts';
import { callAsRun } from '../../client/run/single-call.ts';
import { CountersignError, ERRORS } from '../../contracts/errors.ts';
import type { GateConfig } from '../../contracts/schemas/gateway.ts';
import type { JsonObject } from '../../contracts/schemas/json.ts';
import type { Dispatch } from '../../contracts/schemas/run-spec.ts';
import { isGateRun, mayStart, type Owner, ownerOf, RUN_PREFIX, ticketIdOf } from '../../domain/gate/ticket.ts';
import { isSamePerson } from '../../domain/policy/approvers.ts';
import type { Waiters } from '../http/streams.ts';
import { keyOf } from '../http/server.ts';
import { SKEW_SECONDS } from '../identity/keys.ts';
import type { Asker } from '../identity/person.ts';
import type { Offer } from './offers.ts';
import type { Outcomes } from './outcomes.ts';
import { type Pending, pendingReply, refusedReply, statusOf, unknownReply } from './replies.ts';

export interface Caller {
  readonly asker: Asker;
  /** Name of the client, as its token or key says. */
  readonly client: string;
  /** The one server that is offered at the address of the call; absent: all. */
  readonly server?: string | undefined;
}

/** One request of a client, until it has its answer. */
export interface Exchange {
  /** Aborted when the client has gone, or the gateway stops. */
  readonly gone: AbortSignal;
  /** True once the client has gone: it is told nothing any more. */
  readonly hasLeft: () => boolean;
  /** Tells the client that its call goes on; absent if it did not ask for that. */
  readonly progress?: ((words: string) => void) | undefined;
  /** Resolves once the answer has left, to false if the client has gone without it. */
  readonly delivered: Promise<boolean>;
}

export interface GateCallsParts {
  readonly tickets: Tickets;
  readonly outcomes: Pick<Outcomes, 'endOf' | 'pendingOf' | 'wordsOf'>;
  /** Starts the call in the caller's name, once for each run id; false if it was started before. */
  readonly start: (caller: Caller, call: StartedAs) => Promise<boolean>;
  /** Tells the run of a call that its client is there, until this time in epoch ms. */
  readonly present: (runId: string, until: number) => Promise<void>;
  readonly waiters: Pick<Waiters, 'hold'>;
  readonly isRepeatable: (offer: Offer) => boolean;
  readonly onAnswer?: ((status: string) => void) | undefined;
}

export interface Called {
  readonly server: string;
  readonly tool: string;
  readonly arguments: JsonObject;
}

export interface Made {
  /** Id of its run: its reference, and its id as a task. */
  readonly runId: string;
  readonly ticketId: string;
  /** The ticket that its outcome ends; absent if it has none, or has another client's. */
  readonly ticket: Ticket | undefined;
  /** True if it leaves only while this client is there. */
  readonly isOnReturn: boolean;
}

export interface Told {
  readonly reply: CallToolResult;
  /** Set if the call goes on: which one, and how far it is. */
  readonly goesOn?: { readonly made: Made; readonly pending: Pending };
}

export interface Found extends Made {
  readonly starter: Starter;
  /** True if the caller is the client that made it. */
  readonly isOwn: boolean;
}

export interface StartedAs {
  readonly runId: string;
  readonly ticketId: string;
  readonly called: Called;
  readonly dispatch?: Dispatch;
}

type Begun = { readonly isOnReturn: boolean } | { readonly refused: CallToolResult };

/** A client that asked for it hears so often that its call goes on. */
const PROGRESS_MS = 10_000;
/** A client that is held, or polls its task, is said to be there for so long at a time. */
const LEASE_MS = 15_000;
const MOST_LEASES = 10_000;
const FORGOTTEN = 'It was made before, and what became of it is no longer on record.';
/** Longest time for which the answer that a call waits itself waits for the words about it. */
const MOST_LOOKING_MS = 3_000;

export class GateCalls {
  readonly #parts: GateCallsParts;
  readonly #holdMs: number;
  readonly #dispatch: Dispatch;
  /** Run id → until when its client was said to be there, epoch ms. */
  readonly #leases = new LRUCache<string, number>({ max: MOST_LEASES });

  constructor(parts: GateCallsParts, { holdSeconds, dispatch }: Pick<GateConfig, 'holdSeconds' | 'dispatch'>) {
    this.#parts = parts;
    this.#holdMs = holdSeconds * 1_000;
    this.#dispatch = dispatch;
  }

  /** @throws CountersignError `ENGINE_UNAVAILABLE`, `RATE_LIMITED`, … if it is not known whether the call was made */
  async call(caller: Caller, offer: Offer, args: JsonObject, exchange: Exchange): Promise<Told> {
    const until = this.#until(caller);
    const made = await this.make(caller, offer, args, exchange);
    return 'reply' in made ? made : await this.#outcome(caller, made, exchange, until);
  }

  /** Makes a call, or finds the one that an equal call has made, without waiting. @throws CountersignError as `call` */
  async make(caller: Caller, offer: Offer, args: JsonObject, exchange: Exchange): Promise<Made | Told> {
    const { tickets } = this.#parts;
    const called: Called = { server: offer.server, tool: offer.definition.name, arguments: args };
    const unfit = refusalOf(caller, called);
    if (unfit !== undefined) return this.#told(unfit);
    const ticketId = this.#ticketOf(caller, called);
    const ticket = this.#parts.isRepeatable(offer) ? await tickets.find(ticketId) : await tickets.take(ticketId);
    const runId = ticket?.runId ?? `${RUN_PREFIX}${randomUUID()}`;
    const begun = await this.#begun(caller, { runId, ticketId, called }, ticket);
    if (!('refused' in begun)) return { runId, ticketId, ticket, isOnReturn: begun.isOnReturn };
    if (ticket !== undefined) tickets.delivering(ticket, exchange.delivered);
    return this.#told(begun.refused);
  }

  /** @param called the call that came with the reference, which must be the same */
  async result(caller: Caller, reference: string, exchange: Exchange, called?: Called): Promise<Told> {
    const until = this.#until(caller);
    const found = await this.findMatching(caller, reference, called);
    return 'reply' in found ? found : await this.#outcome(caller, found, exchange, until);
  }

  async findMatching(caller: Caller, reference: string, called: Called | undefined): Promise<Found | Told> {
    const found = await this.find(caller, reference);
    if (found === undefined) {
      const message = `No call of yours with reference "${reference}" is on record. This request ran nothing.`;
      return this.#told(refusedReply('CALL_UNKNOWN', message));
    }
    if (called === undefined || this.#ticketOf(caller, called) === found.ticketId) return found;
    const message = `Reference "${reference}" is of another call: its tool, its arguments or the client that made it differ. Nothing was run. Without the reference this is a call of its own.`;
    return this.#told(refusedReply('DIGEST_MISMATCH', message, reference));
  }

  /** Finds the call that has this reference, if it was made in the name of the caller's person. */
  async find(caller: Caller, reference: string): Promise<Found | undefined> {
    const { tickets } = this.#parts;
    const starter = isGateRun(reference) ? await tickets.starterOf(reference) : undefined;
    const ticketId = starter?.ticketId;
    if (starter === undefined || ticketId === undefined || !isOf(caller, starter)) return undefined;
    // A token for one server tells nothing of the others.
    if (caller.server !== undefined && !starter.servers.includes(caller.server)) return undefined;
    // Another client of the same person may read, and takes nothing away from the one whose call it is.
    const isOwn = ticketId.startsWith(ownerOf(idsOf(caller)));
    const ticket = isOwn ? await tickets.find(ticketId) : undefined;
    return {
      runId: reference,
      ticketId,
      ticket: ticket?.runId === reference ? ticket : undefined,
      starter,
      isOwn,
      isOnReturn: isOwn && starter.isOnReturn,
    };
  }

  /**
   * Waits for the outcome of a call for as long as its client is there, and its token good.
   * @returns undefined if the client has gone, its token has ended, or the gateway stops
   * @throws CountersignError `RATE_LIMITED` if too many wait already
   */
  async untilEnded(caller: Caller, made: Made, exchange: Exchange): Promise<CallToolResult | undefined> {
    const { runId, ticket } = made;
    const { tickets, waiters, outcomes } = this.#parts;
    const wait = async (): Promise<CallToolResult | undefined> => {
      let end: CallToolResult | undefined;
      while (end === undefined && !exchange.gone.aborted && Date.now() < goodUntil(caller)) {
        const until = this.#until(caller);
        const ended = outcomes.endOf(runId, { deadlineMs: Math.max(1, until - Date.now()), gone: exchange.gone });
        end = await this.#held(ended, made, exchange, until);
      }
      return end;
    };
    const end = await waiters.hold(keyOf(caller.asker), wait);
    if (end !== undefined && ticket !== undefined) tickets.delivering(ticket, exchange.delivered);
    return end === undefined ? undefined : this.#told(end).reply;
  }

  /** Calls are held from the arrival of their request on: clients count from there, too. */
  #until(caller: Caller): number {
    return Math.min(Date.now() + this.#holdMs, goodUntil(caller));
  }

  #ticketOf(caller: Caller, called: Called): string {
    return ticketIdOf({ ...idsOf(caller), ...called });
  }

  /**
   * Says for a moment that the client is there: a call that waits for it leaves, once people have approved it.
   * @param until epoch ms, at which the client is told that the call waits
   */
  async present(
    { runId, isOnReturn }: Pick<Made, 'runId' | 'isOnReturn'>,
    until = Number.POSITIVE_INFINITY,
  ): Promise<void> {
    const now = Date.now();
    const end = Math.min(now + LEASE_MS, until);
    const isSaid = (this.#leases.get(runId) ?? 0) >= Math.min(end, now + LEASE_MS / 2);
    if (!isOnReturn || end <= now || isSaid) return;
    this.#leases.set(runId, end);
    try {
      await this.#parts.present(runId, end);
    } catch (error) {
      // It is over, or Temporal is away: then the client is told that it waits, and comes back.
      if (!(error instanceof CountersignError)) throw error;
    }
  }

  async #begun(caller: Caller, starting: StartedAs, ticket: Ticket | undefined): Promise<Begun> {
    const { runId, ticketId } = starting;
    const isOnReturn = this.#dispatch === 'on-return';
    if (ticket === undefined || mayStart(ticket.ageMs)) {
      try {
        const how = isOnReturn ? { dispatch: this.#dispatch } : {};
        if (await this.#parts.start(caller, { ...starting, ...how })) return { isOnReturn };
      } catch (error) {
        if (!(error instanceof CountersignError)) throw error;
        // A run that this ticket has started before gives this code, too, if the person's groups have changed since.
        if (error.code !== 'RUN_ID_CONFLICT') {
          if (ERRORS[error.code].retryable || error.code === 'INTERNAL') throw error;
          return { refused: refusedReply(error.code, error.message) };
        }
      }
    }
    const starter = await this.#parts.tickets.starterOf(runId);
    if (starter === undefined) return { refused: unknownReply('RUN_NOT_FOUND', FORGOTTEN, runId) };
    if (starter.ticketId === ticketId && isOf(caller, starter)) return { isOnReturn: starter.isOnReturn };
    const message = `Run ${runId} was not started for this call, though it has its id. Stop it, and make the call again.`;
    throw new CountersignError('RUN_ID_CONFLICT', message, { runId });
  }

  /** @param until milliseconds since the epoch, until which the call is held */
  async #outcome({ asker }: Caller, made: Made, exchange: Exchange, until: number): Promise<Told> {
    const { tickets, waiters, outcomes } = this.#parts;
    const { runId, ticketId, ticket } = made;
    const ended = waiters
      .hold(
        keyOf(asker),
        async () => await outcomes.endOf(runId, { deadlineMs: Math.max(1, until - Date.now()), gone: exchange.gone }),
      )
      .catch((error: unknown) => {
        // There is no room to hold it. The call goes on, and its client comes back for the outcome.
        if (error instanceof CountersignError && error.code === 'RATE_LIMITED') return undefined;
        throw error;
      });
    const end = await this.#held(ended, made, exchange, until);
    if (end !== undefined) {
      if (ticket !== undefined) tickets.delivering(ticket, exchange.delivered);
      return this.#told(end);
    }
    const late = pause(MOST_LOOKING_MS, { reference: runId, status: 'running' } as const, { ref: false });
    const pending: Pending = await Promise.race([outcomes.pendingOf(runId), late]);
    // A call that may be repeated has no ticket before its client is told to come back, or people are asked about it.
    const isFound = pending.status === 'waiting' || !exchange.hasLeft();
    if (ticket === undefined && isFound) await tickets.take(ticketId, runId);
    return { ...this.#told(pendingReply(pending)), goesOn: { made, pending } };
  }

  /** @returns undefined if the call goes on */
  async #held(
    ended: Promise<CallToolResult | undefined>,
    made: Made,
    { gone, progress }: Exchange,
    until: number,
  ): Promise<CallToolResult | undefined> {
    const { runId } = made;
    const stay = (): void => void this.present(made, until).catch(() => undefined);
    stay();
    const staying = made.isOnReturn ? setInterval(stay, LEASE_MS / 2).unref() : undefined;
    const ticking =
      progress &&
      setInterval(() => void this.#parts.outcomes.wordsOf(runId).then(progress, () => undefined), PROGRESS_MS).unref();
    const left = new Promise<undefined>((resolve) => {
      if (gone.aborted) resolve(undefined);
      gone.addEventListener('abort', () => resolve(undefined), { once: true });
    });
    // It may fail after nobody waits for it any more.
    ended.catch(() => undefined);
    try {
      return await Promise.race([left, ended]);
    } finally {
      clearInterval(ticking);
      clearInterval(staying);
    }
  }

  #told(reply: CallToolResult): Told {
    this.#parts.onAnswer?.(statusOf(reply));
    return { reply };
  }
}

/** A person whose token has ended is told nothing more, and is no longer there. */
function goodUntil({ asker }: Caller): number {
  return asker.until + SKEW_SECONDS * 1_000;
}

export function idsOf({ asker, client }: Caller): Owner {
  return { tenant: asker.tenant, person: asker.id, client };
}

function isOf({ asker }: Caller, { initiator, tenant }: Starter): boolean {
  return initiator !== undefined && tenant === asker.tenant && isSamePerson(asker, initiator, asker.id);
}

/** Finds what no call can have, before a ticket is taken for it. */
function refusalOf({ asker: { id, tenant } }: Caller, called: Called): CallToolResult | undefined {
  try {
    callAsRun({ ...called, initiator: { id, tenant } });
    return undefined;
  } catch (error) {
    if (error instanceof CountersignError) return refusedReply(error.code, error.message);
    throw error;
  }
}
