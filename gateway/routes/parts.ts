/** The parts of one gateway that routes use, and the fields that all routes have. */
import { z } from 'zod';
import { ProblemDetails, RunId } from '../../contracts/schemas/http-api.ts';
import type { Catalogs } from '../catalog/catalogs.ts';
import type { CatalogWatch } from '../catalog/watch.ts';
import type { CatalogChanges } from '../catalog/changes.ts';
import type { Explaining } from '../inbox/explaining.ts';
import type { Records } from '../inbox/records.ts';
import type { Answering } from '../inbox/answering.ts';
import type { Definitions } from '../catalog/definitions.ts';
import type { Sessions } from '../identity/sessions.ts';
import type { Tokens } from '../identity/tokens.ts';
import type { Feeds } from '../projection/feeds.ts';
import type { NewsDesk } from '../projection/news.ts';
import type { Opened } from '../projection/opened.ts';
import type { Projection } from '../projection/projection.ts';
import type { Reading } from '../inbox/reading.ts';
import type { Countersign } from '../../client/countersign.ts';
import type { Streams } from '../http/streams.ts';
import type { Waiters } from '../http/waiters.ts';

export interface RouteParts {
  readonly reading: Reading;
  readonly answering: Answering;
  readonly definitions: Definitions;
  readonly catalogs: Catalogs;
  readonly catalogWatch: CatalogWatch;
  readonly explaining: Explaining;
  readonly records: Records;
  readonly catalogChanges: CatalogChanges;
  readonly opened: Opened;
  readonly projection: Projection;
  readonly news: NewsDesk;
  readonly feeds: Feeds;
  readonly streams: Streams;
  readonly waiters: Waiters;
  readonly tokens: Tokens;
  readonly sessions: Sessions;
  readonly countersign: Countersign;
}

export const RunPath = z.strictObject({ runId: RunId });
export const CallPath = z.strictObject({ runId: RunId, callId: z.string().min(1).max(40) });

const KEY = z.string().min(1).max(200).optional().describe('Makes a message sent again count once.');
/** Other headers are left alone. */
export const Keyed = z.looseObject({ 'idempotency-key': KEY });
export const Resumed = z.looseObject({ 'last-event-id': z.string().max(200).optional() });

/** Every route may answer so. */
export const PROBLEM = {
  description: 'Problem details',
  content: { 'application/problem+json': { schema: ProblemDetails } },
};

export function answering<T extends z.ZodType, Status extends number>(status: Status, schema: T, what: string) {
  // Sound: the two keys are what the type says.
  return {
    [status]: { description: what, content: { 'application/json': { schema } } },
    default: PROBLEM,
  } as Record<Status | 'default', { description: string; content: Record<string, { schema: z.ZodType }> }>;
}

/** Returns where the next page of a ledger begins; nothing at its end. */
export function nextOf(
  entries: readonly object[],
  { from, most }: { readonly from: number; readonly most: number },
): { readonly next?: number } {
  return entries.length < most ? {} : { next: from + entries.length };
}
