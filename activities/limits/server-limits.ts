/**
 * Decides whether a call may go to a server now: by concurrency, rate, the server's own wish for time, and the breaker.
 *
 * It owns the counts of this process, and runs dispatches and lists within them. It does not own the breaker
 * (`breaker.ts`), nor waiting: a caller that is held back is told for how long, and occupies no worker slot meanwhile.
 * 1. A server is its address: under another name, or in a tenant's catalog, it is the same one.
 * 2. `enter` and `leave` belong together; a second `leave` changes nothing.
 * 3. A 429 is about the caller (RFC 6585 §4) and holds back calls of that tenant; a 503 is about the server.
 * 4. Nothing here is shared between processes, and a restart forgets it: it protects a server, and proves nothing.
 */
import { CountersignError, type ErrorCode } from '../../contracts/errors.ts';
import type { HeldBy } from '../../contracts/schemas/call.ts';
import { DEFAULT_WAIT_SECONDS, type ServerLimits as Limits } from '../../contracts/schemas/config.ts';
import type { DispatchInput, DispatchResult } from '../../contracts/wire/tools.ts';
import { currentScheduler } from '../kit/activity.ts';
import { signOfCall } from '../mcp/classify-failure.ts';
import { signOfList } from '../mcp/listing.ts';
import type { CallEnding, Health, ServerSign, ToolServer } from '../mcp/port.ts';
import { type Breaker, CLOSED, ended, mustWait, passed } from './breaker.ts';

/** One that asks for more is believed for the call that it answered alone. */
const LONGEST_HOLD_MS = 300_000;
const MOST_UNLISTED = 1_000;
const WHOLE_SERVER = '';

export interface LimitedServer {
  readonly name: string;
  readonly limits?: Limits;
}

export interface Caller {
  /** Canonical server URL. */
  readonly url: string;
  readonly tenant: string;
  /** Key of the call, the same each time it comes back. */
  readonly key: string;
  /** How often the call has come, from 1. */
  readonly attempt: number;
}

interface HeldBack {
  readonly kind: 'held';
  readonly by: HeldBy;
  readonly code: ErrorCode;
  readonly message: string;
  readonly retryAfterMs: number;
  readonly atMostSeconds: number;
}

export interface Entered {
  readonly kind: 'entered';
  /** Counts one more request from the same place, which waits for nothing. */
  more(): void;
  leave(health: Health, asked?: ServerSign['asked']): void;
}

/**
 * Events for operators. `server` is the configured name; undefined for one that only a run or a catalog knows, and
 * `calls` are then those of all such servers: operators see them under one name.
 */
export type LimitEvent =
  | { readonly kind: 'running'; readonly server: string | undefined; readonly calls: number }
  | { readonly kind: 'held'; readonly server: string | undefined; readonly by: HeldBy }
  | { readonly kind: 'breaker'; readonly server: string | undefined; readonly state: Breaker['state'] }
  | { readonly kind: 'asked'; readonly server: string | undefined; readonly ms: number; readonly tenant?: string };

interface Server {
  readonly name: string | undefined;
  readonly limits: Limits | undefined;
  readonly rate: Rate | undefined;
  breaker: Breaker;
  running: number;
  begun: readonly number[];
  /** Tenant, or the whole server → the time until which it is left alone. */
  readonly asked: Map<string, number>;
  readonly line: Line;
}

export interface ServerLimitsParts {
  readonly configured: ReadonlyMap<string, LimitedServer>;
  readonly tell: (event: LimitEvent) => void;
  /** Ms of a clock that only goes forward. */
  readonly now?: () => number;
  /** From 0 up to 1. */
  readonly random?: () => number;
}

export class ServerLimits {
  readonly #parts: Required<ServerLimitsParts>;
  readonly #servers = new Map<string, Server>();
  #unlisted = 0;

  constructor({ now = () => performance.now(), random = Math.random, ...parts }: ServerLimitsParts) {
    this.#parts = { now, random, ...parts };
  }

  enter(caller: Caller): Entered | HeldBack {
    const now = this.#parts.now();
    const server = this.#serverAt(caller.url, now);
    const { name } = server;
    const held = this.#holding(server, caller, now);
    if (held !== undefined) {
      this.#parts.tell({ kind: 'held', server: name, by: held.by });
      return held;
    }
    server.line.leave(caller.key);
    let tries = false;
    if (server.limits?.breaker !== undefined) {
      const pass = passed(server.breaker, caller.tenant, now);
      tries = pass.tries;
      this.#change(server, pass.breaker);
    }
    const begin = (at: number): void => {
      if (server.rate !== undefined) server.begun = [...within(server.rate, server.begun, at), at];
    };
    begin(now);
    this.#count(server, 1);
    let isIn = true;
    return {
      kind: 'entered',
      more: () => begin(this.#parts.now()),
      leave: (health, asked) => {
        if (!isIn) return;
        isIn = false;
        this.#leave(server, caller, { health, asked, tries });
      },
    };
  }

  #leave(server: Server, { tenant }: Caller, { tries, health, asked }: ServerSign & { readonly tries: boolean }): void {
    const now = this.#parts.now();
    const { name, limits } = server;
    const rule = limits?.breaker;
    this.#count(server, -1);
    if (rule !== undefined) this.#change(server, ended(server.breaker, rule, { tenant, health, tries }, now));
    if (asked === undefined || asked.ms <= 0) return;
    const ofTenant = asked.code === 'TOOL_RATE_LIMITED';
    const who = ofTenant ? tenant : WHOLE_SERVER;
    const ms = Math.min(asked.ms, LONGEST_HOLD_MS);
    for (const [other, until] of server.asked) if (until <= now && other !== who) server.asked.delete(other);
    // The latest answer counts, also if it asks for less than an earlier one.
    const isNew = (server.asked.get(who) ?? 0) <= now;
    server.asked.set(who, now + ms);
    if (isNew) this.#parts.tell({ kind: 'asked', server: name, ms, ...(ofTenant ? { tenant } : {}) });
  }

  #count(server: Server, change: 1 | -1): void {
    const { name } = server;
    server.running += change;
    if (name === undefined) this.#unlisted += change;
    this.#parts.tell({ kind: 'running', server: name, calls: name === undefined ? this.#unlisted : server.running });
  }

  #change(server: Server, next: Breaker): void {
    const before = server.breaker.state;
    server.breaker = next;
    if (next.state !== before) this.#parts.tell({ kind: 'breaker', server: server.name, state: next.state });
  }

  #holding(server: Server, caller: Caller, now: number): HeldBack | undefined {
    const { limits, rate, line } = server;
    const rule = limits?.breaker;
    const back = (ms: number, by: HeldBy, why: string): HeldBack => this.#back(server, caller, ms, by, why);
    const until = Math.max(server.asked.get(WHOLE_SERVER) ?? 0, server.asked.get(caller.tenant) ?? 0);
    if (until > now) return back(until - now, 'retry-after', 'asked to be left alone for a while (Retry-After)');
    const closed = rule === undefined ? 0 : mustWait(server.breaker, rule, caller.tenant, now);
    if (closed > 0) return back(closed, 'breaker', 'failed again and again, and is left alone for a while');
    const most = limits?.concurrency;
    if (most !== undefined && server.running >= most)
      return back(line.untilFree(caller.key, most, now), 'concurrency', `takes at most ${most} calls at once`);
    if (rate === undefined) return undefined;
    const late = untilNext(rate, server.begun, now, line.ahead(caller.key, now));
    return late > 0 ? back(late, 'rate', `takes at most ${rate.most} calls in ${rate.windowMs} ms`) : undefined;
  }

  #back({ name, limits, line }: Server, { key, attempt }: Caller, ms: number, by: HeldBy, why: string): HeldBack {
    const { now, random } = this.#parts;
    const retryAfterMs = line.wait(key, ms, attempt, now(), random());
    return {
      kind: 'held',
      by,
      code: by === 'breaker' ? 'TOOL_UNAVAILABLE' : 'TOOL_RATE_LIMITED',
      message: `Server ${name === undefined ? '' : `"${name}" `}${why}.`,
      retryAfterMs,
      atMostSeconds: limits?.waitSeconds ?? DEFAULT_WAIT_SECONDS,
    };
  }

  #serverAt(url: string, now: number): Server {
    const known = this.#servers.get(url);
    if (known !== undefined) return known;
    if (this.#servers.size >= MOST_UNLISTED + this.#parts.configured.size) this.#forgetIdle(now);
    const { name, limits } = this.#parts.configured.get(url) ?? {};
    const server: Server = {
      name,
      limits,
      rate: limits?.perSecond === undefined ? undefined : rateOf(limits.perSecond),
      breaker: CLOSED,
      running: 0,
      begun: [],
      asked: new Map(),
      line: new Line(),
    };
    this.#servers.set(url, server);
    return server;
  }

  #forgetIdle(now: number): void {
    for (const [url, { limits, running, asked }] of this.#servers) {
      const isAsked = [...asked.values()].some((until) => until > now);
      if (limits === undefined && running === 0 && !isAsked) this.#servers.delete(url);
    }
  }
}

// Never more than so many begin in any stretch of time, wherever it begins. A log of times says so: a token bucket lets
// twice its size through around the moment at which it is full.

interface Rate {
  readonly most: number;
  readonly windowMs: number;
}

/** `perSecond` 5 means 5 in any second; 0.5 means 1 in any two seconds; 2.5 means 2 in any 800 ms. */
export function rateOf(perSecond: number): Rate {
  const most = Math.max(1, Math.floor(perSecond));
  return { most, windowMs: Math.ceil((most * 1_000) / perSecond) };
}

/** Returns the times that still count. @param begun oldest first */
export function within({ windowMs }: Rate, begun: readonly number[], now: number): readonly number[] {
  return begun.filter((at) => now - at < windowMs);
}

/** Says how long the next must wait behind the `ahead` others that wait already, in ms; 0 if it may begin now. */
export function untilNext(rate: Rate, begun: readonly number[], now: number, ahead = 0): number {
  const counted = within(rate, begun, now);
  if (counted.length < rate.most) return 0;
  // Those that wait already take the places that become free first, window by window.
  const windows = Math.floor(ahead / rate.most);
  // Sound: at least `most` times are counted, and `most` is at least 1.
  const freed = counted[counted.length - rate.most + (ahead % rate.most)] as number;
  return Math.max(1, freed + rate.windowMs * (windows + 1) - now);
}

// Estimates how long a call should stay away. One that is told too little comes back and is told again.

const SHORTEST_MS = 100;
const LONGEST_MS = 30_000;
/** Calls that come back in vain come more and more rarely, because each return is in the run's history. */
const RAREST_MS = 10_000;
const LATE_MS = 5_000;
/** Share of the wait that is added at random, so that waiting calls do not come back together. */
const SPREAD = 0.25;
const WIDEST_MS = 10_000;
/** Assumed duration of a call. */
const CALL_MS = 1_000;
const MOST_WAITING = 10_000;

class Line {
  /** Key of a call → when it comes back, epoch ms. */
  readonly #waiting = new Map<string, number>();

  leave(key: string): void {
    this.#waiting.delete(key);
  }

  ahead(key: string, now: number): number {
    for (const [other, due] of this.#waiting) if (due + LATE_MS < now) this.#waiting.delete(other);
    return this.#waiting.size - (this.#waiting.has(key) ? 1 : 0);
  }

  /**
   * Estimates the time in ms until a place is free, behind the calls that wait.
   * @param places all places of the server, which are taken
   */
  untilFree(key: string, places: number, now: number): number {
    return Math.min(LONGEST_MS, (CALL_MS * (this.ahead(key, now) + 1)) / places);
  }

  /** Notes that the call waits, and returns for how long. @param random from 0 up to 1 */
  wait(key: string, ms: number, attempt: number, now: number, random: number): number {
    const atLeast = Math.max(ms, Math.min(RAREST_MS, SHORTEST_MS * 2 ** Math.min(attempt - 1, 20)));
    const wait = Math.ceil(atLeast + random * Math.min(WIDEST_MS, atLeast * SPREAD));
    if (this.#waiting.size < MOST_WAITING || this.#waiting.has(key)) this.#waiting.set(key, now + wait);
    return wait;
  }
}

// Runs one dispatch, or one list outside a dispatch, within the limits of its server.
//
// 1. The limits are checked before the token. A list that is held back takes no worker slot: Temporal repeats the
//    activity, and the caller counts the time (`heldSeconds`).
// 2. A place is given back in every case, with what the call showed about the server, or else the list.
// 3. The list and the call share one place, but the rate counts both. The call does not wait for its own list;
//    otherwise a server with a low rate would be listed for ever and never called.

const NOTHING: ServerSign = { health: 'neutral' };

export async function withinLimits(
  limits: ServerLimits,
  server: ToolServer,
  input: DispatchInput,
  send: (server: ToolServer) => Promise<DispatchResult>,
): Promise<DispatchResult> {
  const { run, idempotencyKey: key, attempt } = input;
  const place = limits.enter({ url: input.server.url, tenant: run.initiator.tenant, key, attempt });
  if (place.kind === 'held') {
    const { code, message, retryAfterMs, by, atMostSeconds } = place;
    return { kind: 'not-sent', code, message, retryAfterMs, held: { by, atMostSeconds } };
  }
  let last: CallEnding | undefined;
  let listed: ServerSign | undefined;
  try {
    return await send({
      list: async (...asked) =>
        await watched(
          () => server.list(...asked),
          (sign) => (listed = sign),
        ),
      call: async (connection, call) => {
        // A second attempt with a fresh token after a 401 is the same call.
        if (listed !== undefined && last === undefined) place.more();
        return (last = await server.call(connection, call));
      },
    });
  } finally {
    const timeoutMs = input.limits.callTimeoutSeconds * 1_000;
    const { health, asked } = last === undefined ? (listed ?? NOTHING) : signOfCall(last, timeoutMs);
    place.leave(health, asked);
  }
}

export interface ListingPlace {
  readonly name: string;
  /** Canonical server URL. */
  readonly url: string;
  readonly tenant: string;
}

/** @throws CountersignError `TOOL_RATE_LIMITED` or `TOOL_UNAVAILABLE` if the list is held back */
export async function withinListLimits<Answer>(
  limits: ServerLimits,
  { name, url, tenant }: ListingPlace,
  list: () => Promise<Answer>,
): Promise<Answer> {
  const { workflowId, attempt } = currentScheduler();
  const place = limits.enter({ url, tenant, key: `${workflowId}/tools/list/${name}`, attempt });
  if (place.kind === 'held') {
    const { code, message, retryAfterMs, atMostSeconds } = place;
    const facts = { server: name, retryAfterMs, heldSeconds: atMostSeconds };
    throw new CountersignError(code, `${message} Its tools are listed later.`, facts);
  }
  let listed = NOTHING;
  try {
    return await watched(list, (sign) => (listed = sign));
  } finally {
    place.leave(listed.health, listed.asked);
  }
}

async function watched<Answer>(list: () => Promise<Answer>, tell: (sign: ServerSign) => void): Promise<Answer> {
  try {
    const answer = await list();
    tell({ health: 'up' });
    return answer;
  } catch (error) {
    tell(signOfList(error));
    throw error;
  }
}
