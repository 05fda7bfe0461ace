/** Routes of event streams: what has changed anywhere, and the ledger of one run as it grows. */
import { z } from 'zod';
import { CountersignError } from '../../contracts/errors.ts';
import type { ChangeEvent } from '../../contracts/schemas/http-api.ts';
import { codedOf, problemOf } from '../http/problem.ts';
import { eventFor } from '../../client/run/opened-request.ts';
import { askerOf, keyOf, type Server } from '../http/server.ts';
import type { Stream } from '../http/streams.ts';
import { PROBLEM, Resumed, type RouteParts, RunPath } from './parts.ts';
import type { FastifyReply, FastifyRequest } from 'fastify';

const tags = ['events'];
const response = {
  200: { description: 'Server-sent events', content: { 'text/event-stream': { schema: z.string() } } },
  default: PROBLEM,
};

/** One function, because both routes open streams alike. */
export function addEventRoutes(app: Server, { reading, news, feeds, streams }: RouteParts): void {
  const opened = (request: FastifyRequest, reply: FastifyReply): Stream => {
    const asker = askerOf(request);
    const headers = Object.fromEntries(
      Object.entries(reply.getHeaders()).map(([name, value]) => [name, String(value)] as const),
    );
    const stream = streams.open(reply.raw, { person: keyOf(asker), until: asker.until, headers });
    reply.hijack();
    return stream;
  };
  app.get(
    '/v1/events',
    {
      schema: {
        tags,
        operationId: 'followAll',
        summary: 'Follow changes of runs that you may see; `reset` means: read the lists anew',
        headers: Resumed,
        response,
      },
    },
    async (request, reply) => {
      const stream = opened(request, reply);
      if (stream.ended.aborted) return;
      const lastId = request.headers['last-event-id'];
      const tell = async (id: string, event: ChangeEvent): Promise<void> => {
        stream.send('change', id, event);
        await stream.ready();
      };
      const lose = (): void => stream.send('reset', news.newest, {});
      const { end, missed } = news.follow(askerOf(request), lastId, tell, lose);
      stream.ended.addEventListener('abort', end, { once: true });
      // The first event gives the reader an id from which to resume.
      if (missed || lastId === undefined) stream.send(missed ? 'reset' : 'begin', news.newest, {});
    },
  );
  app.get(
    '/v1/runs/:runId/events',
    {
      schema: {
        tags,
        operationId: 'followRun',
        summary:
          'Follow the ledger of a run; an event’s id is the number of its entry, and entries `request.opened` say what they are about; `reset` means: begin anew',
        headers: Resumed,
        params: RunPath,
        response,
      },
    },
    async (request, reply) => {
      const { runId } = request.params;
      const asker = askerOf(request);
      const { run } = await reading.seen(runId, asker);
      const from = nextAfter(request.headers['last-event-id']);
      const stream = opened(request, reply);
      try {
        await feeds.follow(runId, from, stream.ended, async (entry) => {
          stream.send('entry', String(entry.seq), eventFor(entry, run, asker));
          await stream.ready();
        });
        // Without an id of its own, the reader keeps that of the last entry.
        stream.send('end', undefined, {});
      } catch (error) {
        const coded = codedOf(error);
        // An empty id has the reader come back for the first entry.
        if (coded.code === 'RUN_RESET') stream.send('reset', '', {});
        else stream.send('problem', undefined, problemOf(coded, request.id));
      }
      stream.end();
    },
  );
}

/** @throws CountersignError `USAGE` */
function nextAfter(lastId: string | undefined): number {
  if (lastId === undefined || lastId === '') return 0;
  if (/^\d{1,15}$/.test(lastId)) return Number(lastId) + 1;
  throw new CountersignError(
    'USAGE',
    'Last-Event-ID must be the number of a ledger entry: send the id of the last event that you have, or leave the header out to begin with the first.',
    { path: 'Last-Event-ID' },
  );
}
