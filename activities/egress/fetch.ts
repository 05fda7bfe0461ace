/**
 * All requests of activities pass through this file: to servers, issuers, models, receivers, buckets and key sets.
 *
 * It does not own deadlines: each user has its own. A silent stream is not a dead one, so no time ends it here.
 * 1. Only origins that the configuration names may be asked, and of these only the ones that an outlet was opened for.
 * 2. URL and address are judged before each connection. A forbidden one is `EGRESS_FORBIDDEN`, and nothing is sent.
 * 3. No redirect is followed. A caller that follows one asks here again, and is held to the outlet's origins.
 * 4. Headers of an answer are bounded, and so is its body, after decompression.
 * 5. No proxy of the environment is used: it would resolve names anew, unchecked.
 * One file, because a request is judged, connected and bounded in one place, which nothing goes around.
 */
import { type LookupAddress, promises as dns } from 'node:dns';
import { isIP, type LookupFunction } from 'node:net';
import { Agent, buildConnector, type Dispatcher, fetch } from 'undici';
import { CountersignError } from '../../contracts/errors.ts';
import type { Config } from '../../contracts/schemas/config.ts';
import { isLocalName, isSecurelyReached } from '../../domain/text/urls.ts';
import { causesOf } from '../kit/network.ts';
import { type Address, addressOf, holding, lastIpv4, rangeHolding } from './address.ts';

/** Status line and headers of one answer. */
const MAX_HEADER_BYTES = 16_384;

export interface BodyWatch {
  /** The body has exceeded its bound, and fails with `ResponseTooLarge`. */
  readonly onTooLarge?: () => void;
  /** Called for each chunk, after decompression. */
  readonly onBytes?: (count: number) => void;
}

export interface Bounds {
  /** Limit of one body; of an event stream, of each event. */
  readonly maxBytes: number;
  /** Limit of the values in the JSON of one body or event, for answers that are parsed and not trusted. */
  readonly maxValues?: number | undefined;
  /** Bounds an event stream as a whole, too, if none is expected to go on for hours. */
  readonly wholeStreams?: boolean;
}

export type ByteCap = Bounds & BodyWatch;

/** Behaves as the standard `fetch`. @throws CountersignError `EGRESS_FORBIDDEN` */
export type GuardedFetch = (url: string | URL, init?: RequestInit, watch?: BodyWatch) => Promise<Response>;

export interface OutletOptions extends Bounds {
  readonly what: string;
  /** URLs whose origins may be asked. */
  readonly to: readonly string[];
  /** Gives each request a connection of its own: a server may close an idle one just as it is used. */
  readonly unshared?: boolean;
  /** How long a connection is kept without a request, ms. Default: undici's, or what the server says. */
  readonly idleMs?: number;
  /** A request is about to be written to a connection. Before that nothing of it has left. */
  readonly onWriting?: () => void;
}

export interface Outlet {
  readonly fetch: GuardedFetch;
  /** True while a request waits, or an answer is not at its end. */
  isBusy(): boolean;
  close(): Promise<void>;
}

export interface Egress {
  /**
   * Resolves a host that is asked in another way than by HTTP, for one connection.
   * @param what names the field in errors
   * @throws CountersignError `EGRESS_FORBIDDEN`; an error of the network, if the name has no address
   */
  address(what: string, hostname: string): Promise<string>;
  outlet(options: OutletOptions): Outlet;
}

export interface EgressOptions {
  readonly rules: EgressRules;
  /** Origins that the configuration names. */
  readonly origins: { has(origin: string): boolean };
  readonly resolve?: Resolve;
}

export function createEgress({ rules, origins, resolve = systemResolve }: EgressOptions): Egress {
  const connect = guardedConnector(rules, resolve);
  return {
    address: async (what, hostname) => {
      try {
        const [first] = await judgedAddresses(rules, resolve, hostname);
        return first.address;
      } catch (error) {
        throw namedRefusal(what, error);
      }
    },
    outlet({ what, to, unshared = false, idleMs, onWriting, ...bounds }) {
      const targets = new Set(to.map((url) => new URL(url).origin));
      const dispatcher = new WatchedAgent(
        {
          headersTimeout: 0,
          bodyTimeout: 0,
          maxHeaderSize: MAX_HEADER_BYTES,
          // Undici's setting for unshared connections: `connection: close` is sent with each request.
          ...(unshared ? { pipelining: 0 } : {}),
          // A server may ask for less, and not for more.
          ...(idleMs === undefined ? {} : { keepAliveTimeout: idleMs, keepAliveMaxTimeout: idleMs }),
          connect,
        },
        onWriting,
      );
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
            throw namedRefusal(what, error);
          }
        },
        isBusy: () => Object.values(dispatcher.stats).some(({ size }) => size > 0),
        close: () => dispatcher.destroy(),
      };
    },
  };
}

class WatchedAgent extends Agent {
  readonly #onWriting: (() => void) | undefined;

  constructor(options: Agent.Options, onWriting: (() => void) | undefined) {
    super(options);
    this.#onWriting = onWriting;
  }

  override dispatch(options: Dispatcher.DispatchOptions, handler: Dispatcher.DispatchHandler): boolean {
    const onWriting = this.#onWriting;
    if (onWriting === undefined) return super.dispatch(options, handler);
    // Sound: it inherits all methods of the handler, which keeps its state in the object that they are called on.
    const watched = Object.create(handler) as Dispatcher.DispatchHandler;
    const { onConnect } = handler;
    // A handler of another form is not told when it is written: then it counts as written from now on (INV-X1).
    if (onConnect === undefined) onWriting();
    else
      watched.onConnect = (abort) => {
        onWriting();
        onConnect.call(watched, abort);
      };
    return super.dispatch(options, watched);
  }
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
  const count = countMarks(isStream ? 'event stream' : 'body');
  let last = 0;
  const over = (chunk: Uint8Array): string | undefined => {
    onBytes?.(chunk.length);
    const boundary = perEvent ? lastBoundary(chunk, last) : -1;
    last = chunk.at(-1) ?? last;
    // Events that end inside one chunk are counted with what came before them: at most one chunk too much.
    const before = boundary === -1 ? chunk : chunk.subarray(0, boundary);
    const after = boundary === -1 ? undefined : chunk.subarray(boundary);
    return bytes(before.length, after?.length) ?? values?.(count(before), after && count(after));
  };
  // Sound: a body of `fetch` gives bytes.
  const reader = (body as ReadableStream<Uint8Array>).getReader();
  // A source of its own: a transform beside a pipe takes twice the processor time, for each answer.
  const capped = new ReadableStream<Uint8Array>(
    {
      async pull(controller) {
        const { done, value } = await reader.read();
        if (done) return controller.close();
        const most = over(value);
        if (most === undefined) return controller.enqueue(value);
        onTooLarge?.();
        const error = new ResponseTooLarge(most);
        controller.error(error);
        await reader.cancel(error);
      },
      cancel: async (reason) => await reader.cancel(reason),
    },
    { highWaterMark: 0 },
  );
  return new Response(capped, headOf(response));
}

function headOf({ status, statusText, headers }: Response): ResponseInit {
  return {
    // RFC 9110 §15: a status that HTTP does not have counts as a 5xx.
    status: status > 599 ? 500 : status,
    // RFC 9112 §4: the phrase says nothing, and a server may write it in any language.
    statusText: /^[\t\x20-\x7e]*$/.test(statusText) ? statusText : '',
    headers,
  };
}

function gauge(most: number, unit: string, perEvent: boolean) {
  const mostInAll = perEvent ? most * MOST_FULL_EVENTS : most;
  let count = 0;
  let all = 0;
  /** Returns the bound that is exceeded. @param after those of an event that began in this chunk, if one did */
  return (before: number, after: number | undefined): string | undefined => {
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

/** Returns the index after the last empty line, which ends an event (WHATWG HTML §9.2.5); -1 if there is none. */
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

const QUOTE = 0x22;
const BACKSLASH = 0x5c;
const [OBJECT, LIST, COMMA] = Buffer.from('{[,');

/** Returns a function that counts the marks in the next part of a body. `for … of` would take three times as long. */
export function countMarks(of: 'body' | 'event stream'): (part: Uint8Array) => number {
  const countsLines = of === 'event stream';
  let isInString = false;
  let isEscaped = false;
  return (part) => {
    let marks = 0;
    let [inString, escaped] = [isInString, isEscaped];
    for (let at = 0; at < part.length; at += 1) {
      const byte = part[at];
      if (byte === LF || byte === CR) {
        if (countsLines) marks += 1;
        inString = false;
        escaped = false;
      } else if (escaped) escaped = false;
      else if (byte === QUOTE) inString = !inString;
      else if (inString) escaped = byte === BACKSLASH;
      else if (byte === OBJECT || byte === LIST || byte === COMMA) marks += 1;
    }
    [isInString, isEscaped] = [inString, escaped];
    return marks;
  };
}

// The rules say what may be contacted: by URL before a name is resolved, and by each address after that.
//
// 1. Unreadable text is refused. A host that is an address in any form that the `URL` class reads (decimal, octal,
//    hexadecimal, shortened, fullwidth) is judged as that address.
// 2. No setting lets through metadata services, link-local, multicast and reserved addresses.
// 3. An address that carries another (NAT64) is judged as both; every other disguise of an IPv4 address is refused.
// 4. `localhost` is this machine, whatever a resolver says (RFC 6761 §6.3).

export type EgressRules = Pick<Config['egress'], 'allowLoopback' | 'allowInsecure' | 'allowPrivate'>;

const NAT64 = holding('64:ff9b::/96');
const LOOPBACK = 'this machine. Where that is meant, as in development, set egress.allowLoopback: true';

/** Returns why nothing is sent to a URL, to follow its host or path: "must use https". */
export function urlObjection(url: string, rules: EgressRules): string | undefined {
  if (!URL.canParse(url)) return 'is no URL';
  const parsed = new URL(url);
  const { protocol, username, password, hostname } = parsed;
  if (protocol !== 'https:' && protocol !== 'http:') return 'must use https';
  if (username !== '' || password !== '')
    return 'must not hold a user name or password: a URL is shown in logs and requests';
  if (!isSecurelyReached(parsed, rules.allowInsecure))
    return 'must use https: credentials would go in clear to another host. For tests only, set egress.allowInsecure: true';
  const literal = literalIn(hostname);
  if (literal !== undefined) return addressObjection(literal, rules);
  return isLocalName(hostname) && !rules.allowLoopback ? `is ${LOOPBACK}` : undefined;
}

/** Returns why nothing is sent to an address, to follow its host. @param hostname the name that resolved to it */
export function addressObjection(text: string, rules: EgressRules, hostname = ''): string | undefined {
  const address = addressOf(text);
  if (address === undefined) return 'has an address that cannot be read';
  if (isLocalName(hostname) && rangeHolding(address)?.kind !== 'loopback')
    return 'resolves to another machine than this one';
  return objectionTo(address, rules);
}

function objectionTo(address: Address, rules: EgressRules): string | undefined {
  const range = rangeHolding(address);
  if (range === undefined) return undefined;
  switch (range.kind) {
    case 'loopback':
      return rules.allowLoopback ? undefined : `is ${LOOPBACK}`;
    case 'private':
      if (!rules.allowPrivate.some((cidr) => holding(cidr)(address)))
        return `is ${range.is}, in ${range.cidr}. Where that is meant, name its range in egress.allowPrivate`;
      return NAT64(address) ? objectionTo(lastIpv4(address), rules) : undefined;
    case 'metadata':
    case 'special':
      return `is ${range.is}, to which nothing is sent whatever the configuration says`;
  }
}

/** @param hostname as the `URL` class normalises it, or as a connector gets it */
function literalIn(hostname: string): string | undefined {
  const text = hostname.startsWith('[') && hostname.endsWith(']') ? hostname.slice(1, -1) : hostname;
  return addressOf(text) === undefined ? undefined : text;
}

function egressForbidden(what: string, host: string, reason: string): CountersignError {
  const message = `${what} was not contacted: ${host} ${reason}. Nothing was sent.`;
  return new CountersignError('EGRESS_FORBIDDEN', message, { host, reason });
}

/** Finds the egress refusal in an error that another library has wrapped. */
export function egressRefusalIn(error: unknown): CountersignError | undefined {
  return causesOf(error)
    .filter((at) => at instanceof CountersignError)
    .find(({ code }) => code === 'EGRESS_FORBIDDEN');
}

/** The shared connector does not know what is asked for. */
const UNNAMED = 'The address';

function namedRefusal(what: string, error: unknown): unknown {
  const refusal = egressRefusalIn(error);
  return refusal === undefined
    ? error
    : egressForbidden(what, String(refusal.facts['host']), String(refusal.facts['reason']));
}

// A name is resolved once for each connection, which goes to the addresses that were checked: no second look-up could
// answer otherwise (DNS rebinding). TLS is checked against the name. One forbidden address forbids the name.

/** Returns all addresses of a name, in the order in which they are to be tried. */
type Resolve = (hostname: string) => Promise<readonly Pick<LookupAddress, 'address'>[]>;

const systemResolve: Resolve = async (hostname) => await dns.lookup(hostname, { all: true });

/** Limit for look-up, TCP and TLS together. */
const CONNECT_TIMEOUT_MS = 10_000;

/** All outlets of a process share the connector, so that TLS sessions are resumed. */
function guardedConnector(rules: EgressRules, resolve: Resolve): buildConnector.connector {
  const connect = buildConnector({ timeout: CONNECT_TIMEOUT_MS, lookup: guardedLookup(rules, resolve) });
  return (target, callback) => {
    // Node does not look up a literal address, so it is checked here.
    const reason = isIP(target.hostname) === 0 ? undefined : addressObjection(target.hostname, rules);
    if (reason === undefined) return connect(target, callback);
    queueMicrotask(() => callback(egressForbidden(UNNAMED, target.hostname, reason), null));
  };
}

async function judgedAddresses(
  rules: EgressRules,
  resolve: Resolve,
  hostname: string,
): Promise<[LookupAddress, ...LookupAddress[]]> {
  const resolved = isIP(hostname) === 0 ? await resolve(hostname) : [{ address: hostname }];
  const [first, ...others] = resolved.map(({ address }) => ({ address, family: isIP(address) }));
  if (first === undefined)
    throw Object.assign(new Error(`${hostname} has no address`), { code: 'ENOTFOUND', syscall: 'getaddrinfo' });
  for (const { address } of [first, ...others]) {
    const reason = addressObjection(address, rules, isIP(hostname) === 0 ? hostname : '');
    if (reason !== undefined) throw egressForbidden(UNNAMED, hostname, reason);
  }
  return [first, ...others];
}

function guardedLookup(rules: EgressRules, resolve: Resolve): LookupFunction {
  const answer = async (...[hostname, { all }, callback]: Parameters<LookupFunction>): Promise<void> => {
    let found: [LookupAddress, ...LookupAddress[]];
    try {
      found = await judgedAddresses(rules, resolve, hostname);
    } catch (error) {
      // Sound: Node hands it on as the cause, whatever it is.
      callback(error as NodeJS.ErrnoException, '');
      return;
    }
    if (all === true) callback(null, found);
    else callback(null, found[0].address, found[0].family);
  };
  return (...asked) => void answer(...asked);
}
