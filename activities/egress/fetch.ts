/**
 * All requests of activities pass through this file: to servers, issuers, models, receivers, buckets and key sets.
 *
 * It does not own deadlines: each user has its own. A silent stream is not a dead one, so no time ends it here.
 * 1. Only origins that the configuration names may be asked, and of these only the ones that an outlet was opened for.
 * 2. URL and address are judged (`guard.ts`) before each connection. A forbidden one is `EGRESS_FORBIDDEN`, and nothing
 *    is sent.
 * 3. No redirect is followed. A caller that follows one asks here again, and is held to the outlet's origins.
 * 4. Headers of an answer are bounded, and so is its body, after decompression.
 * 5. No proxy of the environment is used: it would resolve names anew, unchecked.
 */
import { Agent, fetch } from 'undici';
import {
  addressForbiddenIn,
  egressForbidden,
  type EgressRules,
  guardedConnector,
  type Resolve,
  systemResolve,
  urlObjection,
} from './guard.ts';

/** Status line and headers of one answer, in bytes. */
const MAX_HEADER_BYTES = 16_384;

/** Callbacks about a body while it is read. */
export interface BodyWatch {
  /** The body has exceeded its bound, and fails with `ResponseTooLarge`. */
  readonly onTooLarge?: () => void;
  /** Called for each chunk, after decompression. */
  readonly onBytes?: (count: number) => void;
}

/** Bounds of one answer. */
export interface Bounds {
  /** Limit of one body; of an event stream, of each event. */
  readonly maxBytes: number;
  /**
   * Limit of the values in the JSON of one body or event, for answers that are parsed and not trusted. Default: no
   * limit.
   */
  readonly maxValues?: number | undefined;
  /** Bounds an event stream as a whole, too, if none is expected to go on for hours. */
  readonly wholeStreams?: boolean;
}

export type ByteCap = Bounds & BodyWatch;

/** Behaves as the standard `fetch`. @throws CountersignError `EGRESS_FORBIDDEN` */
export type GuardedFetch = (url: string | URL, init?: RequestInit, watch?: BodyWatch) => Promise<Response>;

export interface OutletOptions extends Bounds {
  /** Names the field or the server in errors. */
  readonly what: string;
  /** URLs whose origins may be asked. */
  readonly to: readonly string[];
  /** Gives each request a connection of its own: a server may close an idle one just as it is used. */
  readonly unshared?: boolean;
  readonly onConnected?: () => void;
}

export interface Outlet {
  readonly fetch: GuardedFetch;
  /** Ends the outlet's connections. */
  close(): Promise<void>;
}

export interface Egress {
  /** Opens an outlet with connections of its own. */
  outlet(options: OutletOptions): Outlet;
}

export interface EgressOptions {
  readonly rules: EgressRules;
  /** Origins that the configuration names. */
  readonly origins: { has(origin: string): boolean };
  /** Replaces the system's resolver. */
  readonly resolve?: Resolve;
}

export function createEgress({ rules, origins, resolve = systemResolve }: EgressOptions): Egress {
  const connect = guardedConnector(rules, resolve);
  return {
    outlet({ what, to, unshared = false, onConnected, ...bounds }) {
      const targets = new Set(to.map((url) => new URL(url).origin));
      const dispatcher = new Agent({
        headersTimeout: 0,
        bodyTimeout: 0,
        maxHeaderSize: MAX_HEADER_BYTES,
        // Undici's setting for unshared connections: `connection: close` is sent with each request.
        ...(unshared ? { pipelining: 0 } : {}),
        connect: (target, callback) =>
          connect(target, (...outcome) => {
            if (outcome[0] === null) onConnected?.();
            callback(...outcome);
          }),
      });
      const check = (url: string): void => {
        const { origin, hostname } = URL.canParse(url) ? new URL(url) : { origin: '', hostname: 'its address' };
        const reason =
          urlObjection(url, rules) ?? (targets.has(origin) && origins.has(origin) ? undefined : unlisted(origin));
        if (reason !== undefined) throw egressForbidden(what, hostname, reason);
      };
      return {
        fetch: async (url, init, watch = {}) => {
          check(String(url));
          try {
            // Sound: undici's init and Node's describe the same standard.
            const own = { ...(init as object), redirect: 'manual', dispatcher } as const;
            // Sound: undici's response and Node's describe the same standard.
            const response = (await fetch(url, own)) as unknown as Response;
            return capResponse(response, { ...bounds, ...watch });
          } catch (error) {
            const forbidden = addressForbiddenIn(error);
            throw forbidden === undefined ? error : egressForbidden(what, forbidden.host, forbidden.reason);
          }
        },
        close: () => dispatcher.destroy(),
      };
    },
  };
}

function unlisted(origin: string): string {
  return `is of the origin ${origin}, which may not be contacted for this. An operator names it where it belongs in the configuration; a token endpoint elsewhere than its issuer in egress.issuerEndpoints`;
}

// Bounds the memory and the time that one response may take, whatever the server sends.
//
// 1. A plain body is bounded as a whole, and an event stream per event, because a long call may report progress for
//    hours. All events together are bounded too, so that no large event follows the other.
// 2. Bytes are counted after decompression: a small compressed body may be a large one.
// 3. Values of JSON are counted too. Three bytes (`{},`) make an object that takes twenty times as much memory.
// 4. A value is counted by its mark: `{`, `[` or `,` outside of strings. A text without marks holds one value, and a
//    body has at most one value more than marks. The count is never below the values that `JSON.parse` makes before it
//    fails, since it holds that many at once.
// 5. The lines of an event stream are counted as they come. A line end also ends a string, since JSON has no line end
//    in one: so other fields of an event hide nothing that is counted. Each line of a stream counts as well: its parser
//    makes something of every line, of an unknown field an error.

/** Thrown into the body's reader; the capped response also tells its owner. */
export class ResponseTooLarge extends Error {
  override readonly name = 'ResponseTooLarge';
  constructor(most: string) {
    super(`the response is larger than ${most}`);
  }
}

const LF = 0x0a;
const CR = 0x0d;

/** Limit of a stream that is bounded per event, as a number of largest events. */
const MOST_FULL_EVENTS = 16;

/** Returns the same response, whose body fails once it is too large. */
export function capResponse(
  response: Response,
  { maxBytes, maxValues, wholeStreams = false, onTooLarge, onBytes }: ByteCap,
): Response {
  const { body } = response;
  if (body === null) return response;
  const isStream = isEventStream(response);
  const perEvent = !wholeStreams && isStream;
  const bytes = gauge(maxBytes, 'bytes', perEvent);
  const values = maxValues === undefined ? undefined : gauge(maxValues, 'values', perEvent);
  const counter = countMarks(isStream ? 'event stream' : 'body');
  let last = 0;
  const cap = new TransformStream<Uint8Array, Uint8Array>({
    transform(chunk, controller) {
      onBytes?.(chunk.length);
      const boundary = perEvent ? lastBoundary(chunk, last) : -1;
      last = chunk.at(-1) ?? last;
      // Events that end inside one chunk are counted with what came before them: at most one chunk too much.
      const before = boundary === -1 ? chunk : chunk.subarray(0, boundary);
      const after = boundary === -1 ? undefined : chunk.subarray(boundary);
      const over =
        bytes(before.length, after?.length) ?? values?.(counter.count(before), after && counter.count(after));
      if (over === undefined) return controller.enqueue(chunk);
      onTooLarge?.();
      controller.error(new ResponseTooLarge(over));
    },
  });
  const { status, statusText, headers } = response;
  return new Response(body.pipeThrough(cap), { status, statusText, headers });
}

/** Returns the bound that is exceeded. @param after those of an event that began in this chunk, if one did */
type Gauge = (before: number, after: number | undefined) => string | undefined;

function gauge(most: number, unit: string, perEvent: boolean): Gauge {
  const mostInAll = perEvent ? most * MOST_FULL_EVENTS : most;
  let count = 0;
  let all = 0;
  return (before, after) => {
    const whole = count + before;
    count = after ?? whole;
    all += before + (after ?? 0);
    if (whole > most || count > most) return `${most} ${unit}`;
    return all > mostInAll ? `${mostInAll} ${unit} in one stream` : undefined;
  };
}

export function isEventStream(response: Response): boolean {
  return /^\s*text\/event-stream\s*(?:;|$)/i.test(response.headers.get('content-type') ?? '');
}

/**
 * Returns the index after the last empty line of `chunk`, which ends an event (WHATWG HTML §9.2.5); -1 if none ends in
 * it.
 */
function lastBoundary(chunk: Uint8Array, before: number): number {
  for (let at = chunk.length - 1; at >= 0; at -= 1) {
    const byte = chunk[at];
    if (byte !== LF && byte !== CR) continue;
    const previous = at > 0 ? chunk[at - 1] : before;
    const secondPrevious = at > 1 ? chunk[at - 2] : at === 1 ? before : undefined;
    const crlf = byte === LF && previous === CR;
    if (crlf ? secondPrevious === LF : previous === byte) return at + 1;
  }
  return -1;
}

const OUTSIDE = 0;
const IN_STRING = 1;
const ESCAPED = 2;
const MARK = 4;

/** State and byte → next state, with `MARK` if the byte counts. One look-up per byte takes some 2 ns. */
const OF_BODIES = steps(0);
const OF_STREAMS = steps(MARK);

export interface MarkCounter {
  /** Counts the marks in this part of the body, which continues the last part. */
  count(part: Uint8Array): number;
}

export function countMarks(of: 'body' | 'event stream'): MarkCounter {
  const table = of === 'body' ? OF_BODIES : OF_STREAMS;
  let state = OUTSIDE;
  return {
    count(part) {
      let marks = 0;
      let now = state;
      for (let at = 0; at < part.length; at += 1) {
        // Sound: both indices are within their arrays.
        const step = table[(now << 8) | (part[at] as number)] as number;
        now = step & 3;
        marks += step >> 2;
      }
      state = now;
      return marks;
    },
  };
}

function steps(lineEnd: 0 | typeof MARK): Uint8Array {
  const table = new Uint8Array(3 * 256);
  const set = (state: number, bytes: string, next: number): void => {
    for (const byte of Buffer.from(bytes)) table[(state << 8) | byte] = next;
  };
  set(OUTSIDE, '"', IN_STRING);
  set(OUTSIDE, '{[,', OUTSIDE | MARK);
  set(OUTSIDE, '\n\r', OUTSIDE | lineEnd);
  // Applies to both states: an escaped character is one byte of the string, and so is the rest of the escape
  // (`\u0022`).
  table.fill(IN_STRING, IN_STRING << 8);
  set(IN_STRING, '\\', ESCAPED);
  set(IN_STRING, '"', OUTSIDE);
  set(IN_STRING, '\n\r', OUTSIDE | lineEnd);
  set(ESCAPED, '\n\r', OUTSIDE | lineEnd);
  return table;
}
