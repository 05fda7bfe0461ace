/**
 * Walks a server's tool list.
 *
 * It owns pages, limits and the codes of a failed discovery. It does not own which tools may be offered
 * (`definitions.ts`).
 * 1. Pages are read raw: the SDK fails a whole page for one malformed tool.
 * 2. Discovery fails beyond 64 pages, 1,000 tools or 4 MiB of definitions: a part of a catalog, offered as the whole,
 *    would hide what is missing. Only listed tools that can be offered are held.
 */
import { SdkError, SdkErrorCode } from '@modelcontextprotocol/client';
import { defined } from '../../contracts/defined.ts';
import { CountersignError, type ErrorCode, type ErrorFacts } from '../../contracts/errors.ts';
import type { Known, Priors } from './discovery-cache.ts';
import type { Egress, GuardedFetch } from '../egress/fetch.ts';
import type { Scrubber } from '../scrubbing/scrubber.ts';
import type { Health } from '../limits/breaker.ts';
import type { Asked } from '../limits/server-limits.ts';
import { faultOfConnect, reasonOf, refusalIn } from './classify-failure.ts';
import { ListedTools } from './definitions.ts';
import type { Exchange } from './transport.ts';
import type { ServerConnection, ServerFault, ToolListing } from './port.ts';
import { ConnectFailure, NEVER_MS, openSession, type Session } from './session.ts';
import { takesTasks } from './tool-call.ts';

const MAX_PAGES = 64;
const MAX_TOOLS = 1_000;
/** Bytes of the definitions that are kept: they are read and parsed for every run, and held for as long as it works. */
const MAX_BYTES = 4_194_304;
/** Bytes of all pages as they come: content that is not kept is read too. */
const MAX_LISTED_BYTES = 33_554_432;
const WALK_MS = 40_000;

/** The codes that `ToolServer.list` may throw; every other refusal is a failed discovery. */
const KEPT: ReadonlySet<ErrorCode> = new Set(['TOOL_UNAUTHORIZED', 'TOOL_FORBIDDEN', 'TOOL_INSUFFICIENT_SCOPE']);

export interface ListingRequest {
  readonly connection: ServerConnection;
  readonly signal: AbortSignal;
  readonly connectMs: number;
  readonly priors: Priors;
  /** True if the remembered facts about the server may be used; else they are learned anew. */
  readonly known: boolean;
  readonly scrub: Scrubber;
  /** Makes a text of the server fit to be quoted. */
  readonly quote: (text: string) => string;
  readonly egress: Egress;
  readonly fetch?: GuardedFetch;
}

export async function listTools(request: ListingRequest): Promise<ToolListing> {
  const { connection, signal, known, priors } = request;
  const prior = known ? priors.recall(connection) : undefined;
  if (prior === undefined) return await listAs(request, undefined);
  try {
    return await listAs(request, prior);
  } catch (error) {
    // A server that was upgraded or went back fails like this. Its refusal of a token counts.
    if (signal.aborted || !(error instanceof CountersignError) || error.code !== 'DISCOVERY_FAILED') throw error;
    priors.forget(connection);
    return await listAs(request, undefined);
  }
}

async function listAs(request: ListingRequest, prior: Known | undefined): Promise<ToolListing> {
  const { connection, signal, connectMs, priors, scrub, egress, fetch } = request;
  let session: Session;
  try {
    session = await openSession({
      connection,
      signal,
      connectMs,
      egress,
      asks: connection.asks === true ? 'declared' : undefined,
      ...prior,
      ...defined({ fetch }),
    });
  } catch (error) {
    if (!(error instanceof ConnectFailure)) throw error;
    throw failure(
      request,
      error.cause,
      error.exchange,
      error.stopped === undefined ? 'the protocol could not be agreed on' : STOPPED[error.stopped],
      faultOfConnect(error.cause, error.exchange, error.stopped),
    );
  }
  try {
    if (prior === undefined) priors.learn(connection, session);
    const { tools, resources } = session.client.getServerCapabilities() ?? {};
    const linked = resources === undefined ? {} : { resources: true as const };
    if (tools === undefined) return { tools: [], refused: [], ...linked };
    const listed = new ListedTools(scrub, takesTasks(session));
    await walk(session, request, listed);
    return { ...listed.listing(), ...linked };
  } finally {
    await session.close();
  }
}

const STOPPED = {
  cancelled: 'the discovery was cancelled',
  deadline: 'no answer in time',
  lost: 'the connection ended without an answer',
} as const;

async function walk(session: Session, request: ListingRequest, listed: ListedTools): Promise<void> {
  const { transport, wire } = session;
  const ending = new AbortController();
  let stopped: keyof typeof STOPPED | undefined;
  const stop = (why: keyof typeof STOPPED): void => {
    stopped ??= why;
    ending.abort(new SdkError(SdkErrorCode.RequestTimeout, STOPPED[why]));
  };
  const onCancel = (): void => stop('cancelled');
  transport.onLost = () => stop('lost');
  request.signal.addEventListener('abort', onCancel, { once: true });
  if (request.signal.aborted) onCancel();
  const timer = setTimeout(() => stop('deadline'), WALK_MS);
  try {
    const cursors = new Set<string>();
    let count = 0;
    let bytes = 0;
    for (let cursor: string | undefined; ;) {
      const page = await pageAt(session, cursor, ending.signal);
      if ('error' in page)
        throw failure(
          request,
          page.error,
          wire.exchange(),
          stopped === undefined ? 'the answer could not be read' : STOPPED[stopped],
          stopped === 'lost' ? 'failure' : faultOfConnect(page.error, wire.exchange(), stopped),
        );
      const { tools, nextCursor } = page.result;
      if (!Array.isArray(tools)) throw failed(request, 'the answer has no list of tools');
      count += tools.length;
      if (count > MAX_TOOLS) throw failed(request, `it lists more than ${MAX_TOOLS} tools`);
      // The received bytes are counted: a tool may nest too deeply to be written again.
      bytes += wire.exchange().received ?? 0;
      if (bytes > MAX_LISTED_BYTES) throw failed(request, `it lists more than ${MAX_LISTED_BYTES} bytes`);
      for (const tool of tools as readonly unknown[]) listed.add(tool);
      if (listed.bytes > MAX_BYTES)
        throw failed(
          request,
          `its definitions have more than ${MAX_BYTES} bytes, the most of one server. Offer fewer tools or shorter schemas there, or make it two servers`,
        );
      if (typeof nextCursor !== 'string') return;
      if (cursors.has(nextCursor) || cursors.size + 1 >= MAX_PAGES)
        throw failed(request, `its list does not end within ${MAX_PAGES} pages`);
      cursors.add(nextCursor);
      cursor = nextCursor;
    }
  } finally {
    clearTimeout(timer);
    request.signal.removeEventListener('abort', onCancel);
    transport.onLost = undefined;
  }
}

type Page = { readonly result: Readonly<Record<string, unknown>> } | { readonly error: unknown };

async function pageAt({ client, transport }: Session, cursor: string | undefined, signal: AbortSignal): Promise<Page> {
  try {
    await client.request(
      { method: 'tools/list', params: cursor === undefined ? {} : { cursor } },
      { signal, timeout: NEVER_MS },
    );
  } catch (error) {
    if (transport.answer?.kind !== 'result') return { error };
  }
  return transport.answer?.kind === 'result' ? { result: transport.answer.result } : { error: undefined };
}

function failure(
  request: ListingRequest,
  error: unknown,
  exchange: Exchange,
  otherwise: string,
  fault: ServerFault | undefined,
): CountersignError {
  if (exchange.forbidden !== undefined) return exchange.forbidden;
  const refusal = refusalIn(error, exchange, request.quote);
  if (refusal === undefined || !KEPT.has(refusal.code)) {
    const { code, retryAfterMs } = { ...refusal, retryAfterMs: exchange.retryAfterMs };
    const asked = code === undefined || retryAfterMs === undefined ? undefined : { code, ms: retryAfterMs };
    const health = fault === undefined ? (refusal === undefined ? 'neutral' : 'up') : 'down';
    return failed(request, refusal?.reason ?? reasonOf(error, otherwise), retryAfterMs, health, asked);
  }
  const { requiredScope } = refusal;
  return new ListingFailure(
    refusal.code,
    `Server "${request.connection.name}" refused to list its tools: ${refusal.reason}`,
    requiredScope === undefined ? {} : { requiredScope },
    'up',
  );
}

function failed(
  { connection }: ListingRequest,
  reason: string,
  retryAfterMs?: number,
  health: Health = 'neutral',
  asked?: Asked,
): CountersignError {
  return new ListingFailure(
    'DISCOVERY_FAILED',
    `The tools of server "${connection.name}" could not be listed: ${reason}`,
    retryAfterMs === undefined ? {} : { retryAfterMs },
    health,
    asked,
  );
}

// A failed list of tools, with what it shows of the server: its health for the breaker, and the time that it asked for.

export class ListingFailure extends CountersignError {
  readonly health: Health;
  readonly asked: Asked | undefined;

  constructor(code: ErrorCode, message: string, facts: ErrorFacts, health: Health, asked?: Asked) {
    super(code, message, facts);
    this.health = health;
    this.asked = asked;
  }
}

/** Says what the end of a list shows of the server; an error that is not the server's word shows nothing. */
export function toldBy(error: unknown): { readonly health: Health; readonly asked?: Asked | undefined } {
  return error instanceof ListingFailure ? error : { health: 'neutral' };
}
