/**
 * Reads a run's ledger in order, from the living execution and from stored segments, and checks its chain. It also
 * reads what goes with a ledger: the conversation, and the lists of tools that it names by hash.
 */
import type { Client } from '@temporalio/client';
import { defined } from '../../contracts/defined.ts';
import { CountersignError, type ErrorFacts } from '../../contracts/errors.ts';
import { QUERIES } from '../../contracts/names.ts';
import type { ArtifactRef } from '../../contracts/schemas/json.ts';
import { type LedgerEntry, type LedgerLine, Segment } from '../../contracts/schemas/ledger.ts';
import { parseAs } from '../../contracts/schemas/parse.ts';
import type { LedgerPage, TranscriptPage } from '../../contracts/schemas/run-state.ts';
import { ServerTools } from '../../contracts/schemas/tool.ts';
import type { Message } from '../../contracts/schemas/transcript.ts';
import { type LedgerCheck, verifyChain } from '../../domain/run/journal.ts';
import { isFields } from '../../domain/shapes/inputs.ts';
import { notShown } from '../engine/answers.ts';
import { askWorkflow, type Engine } from '../engine/engine.ts';
import { jsonOf } from './files.ts';

/** The artifact store of the workers, or a copy of it, in which closed segments are. */
export interface ArtifactReader {
  get(ref: ArtifactRef): Promise<Uint8Array>;
}

export interface LedgerSource {
  readonly workflowId: string;
  /** Temporal run id; without it, the execution that lives at the time of the query. */
  readonly runId?: string;
  readonly artifacts: ArtifactReader | undefined;
}

/** Reads the page that begins with this entry, or with the first one that the execution holds. */
export async function ledgerPage(client: Client, source: LedgerSource, from: number): Promise<LedgerPage> {
  const workflow = client.workflow.getHandle(source.workflowId, source.runId);
  const answer = await askWorkflow<unknown>(workflow, QUERIES.ledger, from, Number.MAX_SAFE_INTEGER);
  return pageIn<LedgerPage>(answer, 'entries', from, source.workflowId);
}

/**
 * Anybody who may write to the namespace can run a workflow that answers in any way. A page that begins before what was
 * asked would be read again and again.
 * @throws CountersignError `DIGEST_MISMATCH`
 */
export function pageIn<Page>(answer: unknown, list: 'entries' | 'messages', from: number, workflowId: string): Page {
  // Sound for answers of our workflows; what else is wrong in an answer of another one shows where it is read.
  if (isFields(answer) && Array.isArray(answer[list]) && Number(answer['from']) >= from) return answer as Page;
  throw notShown(workflowId, list === 'entries' ? 'part of its ledger' : 'part of its conversation');
}

/**
 * Yields the entries from this number on that are written by now.
 * @throws CountersignError `USAGE` if there can be no entry of this number
 */
export async function* entriesFrom(
  source: LedgerSource,
  from: number,
  pageFrom: (from: number) => Promise<LedgerPage>,
): AsyncGenerator<LedgerEntry> {
  if (!Number.isSafeInteger(from) || from < 0) {
    const message = 'Entries are read from a whole number on: 0, or the number of an entry. Correct it and try again.';
    throw new CountersignError('USAGE', message, { runId: source.workflowId });
  }
  for (let next = from; ;) {
    const page = await pageFrom(next);
    // This can also happen between two pages, since the run may continue as new meanwhile.
    if (page.from > next) {
      const stored = await storedBefore(source, page, next, 'Entries', ({ ledger }) => ledger);
      yield* stored.flatMap(({ entries }) => entries).filter(({ seq }) => seq >= next);
    }
    yield* page.entries;
    next = page.from + page.entries.length;
    if (page.entries.length === 0 || next >= page.total) return;
  }
}

export async function readEntries(
  client: Client,
  source: LedgerSource,
  { from, most }: { readonly from: number; readonly most: number },
): Promise<readonly LedgerEntry[]> {
  const entries: LedgerEntry[] = [];
  for await (const entry of entriesFrom(source, from, (next) => ledgerPage(client, source, next))) {
    entries.push(entry);
    if (entries.length >= most) break;
  }
  return entries;
}

/** A run lists its tools before its first turn, so that its first entries name all of them. */
const MOST_ENTRIES = 200;

/**
 * Returns the list of this server's tools, each with its definition and hash; undefined if the run has listed none.
 * @throws CountersignError `ARTIFACT_MISSING` also without access to the store, `ARTIFACT_CORRUPT`
 */
export async function readPinnedTools(
  client: Client,
  source: LedgerSource,
  server: string,
): Promise<ServerTools | undefined> {
  const entries = await readEntries(client, source, { from: 0, most: MOST_ENTRIES });
  const listed = entries.flatMap(({ fact }) =>
    fact.kind === 'tools.discovered' && fact.server === server ? [fact.toolsHash] : [],
  );
  const sha256 = listed.at(-1);
  if (sha256 === undefined) return undefined;
  // The ledger names the hash alone.
  const ref = { sha256, bytes: 0, contentType: '' };
  return await readToolList(source.artifacts, ref, `list of tools of ${server}`, { runId: source.workflowId });
}

/** @throws CountersignError `ARTIFACT_MISSING` also without access to the store, `ARTIFACT_CORRUPT` */
export async function readToolList(
  artifacts: ArtifactReader | undefined,
  ref: ArtifactRef,
  what: string,
  facts: ErrorFacts = {},
): Promise<ServerTools> {
  if (artifacts === undefined) {
    const message = 'Tool definitions stand in the artifact store. Give this client access to it.';
    throw new CountersignError('ARTIFACT_MISSING', message, facts);
  }
  const stored: unknown = JSON.parse(new TextDecoder().decode(await artifacts.get(ref)));
  return parseAs(ServerTools, stored, 'ARTIFACT_CORRUPT', what);
}

/** Reads at most so many messages of a run's conversation from this number on; older ones from stored segments. */
export async function readConversation(
  client: Client,
  source: LedgerSource,
  { from, most }: { readonly from: number; readonly most: number },
): Promise<readonly Message[]> {
  const workflow = client.workflow.getHandle(source.workflowId, source.runId);
  const messages: Message[] = [];
  while (messages.length < most) {
    const next = from + messages.length;
    const answer = await askWorkflow<unknown>(workflow, QUERIES.transcript, next, from + most);
    const page = pageIn<TranscriptPage>(answer, 'messages', next, source.workflowId);
    if (page.from > next) {
      const stored = await storedBefore(source, page, next, 'Messages', ({ transcript }) => transcript);
      const start = stored[0]?.from ?? 0;
      messages.push(...stored.flatMap((part) => part.messages).slice(next - start, page.from - start));
    }
    messages.push(...page.messages);
    if (page.messages.length === 0 || page.from + page.messages.length >= page.total) break;
  }
  return messages.slice(0, most);
}

/** Returns the parts of stored segments, oldest first, from the one with this number up to what the page has. */
async function storedBefore<Part extends { readonly from: number }>(
  { workflowId, artifacts }: LedgerSource,
  { segment, from: end }: Pick<LedgerPage, 'segment' | 'from'>,
  from: number,
  what: 'Entries' | 'Messages',
  partOf: (segment: Segment) => Part,
): Promise<readonly Part[]> {
  const outOfReach = (cause?: CountersignError): CountersignError => {
    const reason = cause?.message ?? 'Give this client access to it.';
    const later = what === 'Entries' ? `It can be watched from entry ${end} on` : 'Later messages can be read';
    const message = `${what} of ${workflowId} before ${end} stand in the artifact store. ${reason} ${later} without.`;
    return new CountersignError('ARTIFACT_MISSING', message, { runId: workflowId, from: end }, { cause });
  };
  const parts: Part[] = [];
  if (segment !== undefined && artifacts === undefined) throw outOfReach();
  try {
    if (segment !== undefined && artifacts !== undefined)
      for await (const stored of segmentsFrom(artifacts, segment)) {
        const part = partOf(stored);
        parts.unshift(part);
        if (part.from <= from) return parts;
      }
  } catch (error) {
    throw error instanceof CountersignError && error.code === 'ARTIFACT_MISSING' ? outOfReach(error) : error;
  }
  const message = `The stored segments of ${workflowId} do not reach back to number ${from} of its ${what.toLowerCase()}.`;
  throw new CountersignError('ARTIFACT_CORRUPT', message, { runId: workflowId, seq: from });
}

/**
 * Reads the whole ledger, from the newest stored segment back to the first. Temporal is not asked.
 * @throws CountersignError `USAGE`, `ARTIFACT_…`
 */
export async function readSegments(artifacts: ArtifactReader, newest: string, workflowId: string) {
  const segments: Segment[] = [];
  for await (const segment of segmentsFrom(artifacts, { sha256: newest, bytes: 0, contentType: '' })) {
    if (segment.workflowId !== workflowId) {
      const message = `The segment is of another run: ${segment.workflowId}.`;
      throw new CountersignError('USAGE', message, { runId: workflowId });
    }
    segments.unshift(segment);
  }
  return {
    entries: segments.flatMap(({ ledger }) => ledger.entries),
    messages: segments.flatMap(({ transcript }) => transcript.messages),
  };
}

async function* segmentsFrom(artifacts: ArtifactReader, newest: ArtifactRef): AsyncGenerator<Segment> {
  for (let ref: ArtifactRef | undefined = newest; ref !== undefined;) {
    const text = new TextDecoder().decode(await artifacts.get(ref));
    const segment: Segment = parseAs(Segment, jsonOf(text), 'ARTIFACT_CORRUPT', 'stored segment');
    yield segment;
    ref = segment.previous;
  }
}

/** @throws CountersignError `LEDGER_BROKEN`; `USAGE` for what is no list of entries */
export function assertIntact(entries: readonly LedgerEntry[], runId: string): Extract<LedgerCheck, { kind: 'intact' }> {
  // A caller without types may give the promise of a list.
  const given: unknown = entries;
  if (!Array.isArray(given) || !Array.from(given).every(isFields)) {
    const message = 'entries is no list of ledger entries. Give what `await run.ledger()` returns.';
    throw new CountersignError('USAGE', message, { path: 'entries' });
  }
  const check = verifyChain(entries);
  if (check.kind === 'intact') return check;
  const message = `Entry ${check.seq} of the ledger of ${runId} ${check.reason}.`;
  throw new CountersignError('LEDGER_BROKEN', message, { runId, seq: check.seq });
}

/** Says whose ledger it is, as each line of an export does. */
export async function ledgerPlace({ workflow, options: { namespace } }: Client, workflowId: string) {
  const { raw } = await workflow.getHandle(workflowId).describe();
  return { namespace, workflowId, ...defined({ firstRunId: raw.workflowExecutionInfo?.firstRunId || undefined }) };
}

/**
 * Writes a ledger as lines of an export, page by page, so that no reader holds the whole of a long one.
 * @throws CountersignError `RUN_NOT_FOUND`, `ENGINE_UNAVAILABLE`, `ARTIFACT_…`
 */
export async function* ledgerLines(engine: Engine, source: LedgerSource): AsyncGenerator<LedgerLine> {
  const { workflowId } = source;
  const { client } = engine;
  const place = await engine.read(workflowId, () => ledgerPlace(client, workflowId));
  const pages = async (from: number) => await engine.query(workflowId, () => ledgerPage(client, source, from));
  for await (const entry of entriesFrom(source, 0, pages)) yield { ...place, entry };
}
