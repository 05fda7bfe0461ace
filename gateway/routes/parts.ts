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
import type { Streams, Waiters } from '../http/streams.ts';
import { askerOf, type Server } from '../http/server.ts';
import type { Asker } from '../identity/person.ts';

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

type None = z.ZodType<undefined>;

/** Shapes that a route takes, and the one that it answers with 200. */
interface Described<Path, Query, Body, Answer> {
  readonly operationId: string;
  readonly summary: string;
  readonly headers?: typeof Keyed;
  readonly params?: Path;
  readonly querystring?: Query;
  readonly body?: Body;
  readonly answer: readonly [schema: Answer, what: string];
}

interface Asked<Path, Query, Body> {
  readonly params: z.output<Path>;
  readonly query: z.output<Query>;
  readonly body: z.output<Body>;
  /** Header `Idempotency-Key`. */
  readonly key?: string | undefined;
}

/** Adds routes of one tag for people who are signed in, which answer one JSON document. */
export function routesOf(app: Server, tag: string) {
  const add =
    (method: 'GET' | 'POST') =>
    <
      Answer extends z.ZodType,
      Path extends z.ZodType = None,
      Query extends z.ZodType = None,
      Body extends z.ZodType = None,
    >(
      url: string,
      { answer: [schema, what], ...about }: Described<Path, Query, Body, Answer>,
      serve: (asker: Asker, asked: Asked<Path, Query, Body>) => Promise<z.output<Answer>> | z.output<Answer>,
    ): void =>
      void app.route({
        method,
        url,
        schema: { tags: [tag], ...about, response: answering(200, schema, what) },
        handler: async (request, reply) => {
          const { params, query, body, headers } = request;
          // Sound: the schemas of the route have read them.
          const asked = { params, query, body, key: headers['idempotency-key'] } as Asked<Path, Query, Body>;
          return await reply.send(await serve(askerOf(request), asked));
        },
      });
  return { get: add('GET'), post: add('POST') };
}

export function nextOf(
  entries: readonly object[],
  { from, most }: { readonly from: number; readonly most: number },
): { readonly next?: number } {
  return entries.length < most ? {} : { next: from + entries.length };
}
