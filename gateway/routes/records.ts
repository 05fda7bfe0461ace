/** Routes of what a run leaves beside its requests: conversation, end, artifacts, ledger as a file; and explain. */
import { Readable } from 'node:stream';
import type { FastifyReply } from 'fastify';
import { z } from 'zod';
import {
  ArtifactPath,
  ExplainBody,
  Explained,
  MessagePage,
  MessagesQuery,
  ResultQuery,
  RunEnd,
} from '../../contracts/schemas/http/records.ts';
import type { LedgerLine } from '../../contracts/schemas/ledger.ts';
import { askerOf, keyOf, type Server } from '../http/server.ts';
import { PROBLEM, type RouteParts, routesOf, RunPath } from './parts.ts';

const tags = ['runs'];
/** Kinds that a browser shows without running anything of them; every other one is bytes. */
const SAFE_KINDS = /^(?:text\/plain|application\/json|image\/(?:png|jpeg|gif|webp)|audio\/(?:mpeg|ogg|wav|webm))$/;
const JSON_LINES = 'application/x-ndjson';

/** One function, because it is one table of routes. */
export function addRecordRoutes(app: Server, { records, explaining, waiters }: RouteParts): void {
  const routes = routesOf(app, 'runs');
  routes.get(
    '/v1/runs/:runId/messages',
    {
      operationId: 'readMessages',
      summary: 'Read the conversation, oldest first; who is asked about single calls sees the words and these calls',
      params: RunPath,
      querystring: MessagesQuery,
      answer: [MessagePage, 'Messages'],
    },
    async (asker, { params, query }) => await records.messages(asker, params.runId, query),
  );
  routes.get(
    '/v1/runs/:runId/result',
    {
      operationId: 'readResult',
      summary: 'Wait for the end of a run, and read its result, or why it failed',
      params: RunPath,
      querystring: ResultQuery,
      answer: [RunEnd, 'How the run ended, or that it goes on'],
    },
    async (asker, { params, query }) =>
      await waiters.hold(keyOf(asker), async () => await records.end(asker, params.runId, query.waitSeconds)),
  );
  app.get(
    '/v1/runs/:runId/ledger/export',
    {
      schema: {
        tags,
        operationId: 'exportLedger',
        summary: 'Read the whole ledger as JSON lines, as `countersign verify-ledger --file` checks them',
        params: RunPath,
        response: {
          200: { description: 'Lines, each with one entry', content: { [JSON_LINES]: { schema: z.string() } } },
          default: PROBLEM,
        },
      },
    },
    async (request, reply) => {
      const { runId } = request.params;
      const lines = await records.export(askerOf(request), runId);
      // A ledger that cannot be read at all is a problem; one that breaks off later is cut off.
      const first = await lines.next();
      return await attached(reply, `${fileName(runId)}.jsonl`, JSON_LINES).send(Readable.from(textOf(first, lines)));
    },
  );
  app.get(
    '/v1/runs/:runId/artifacts/:sha256',
    {
      schema: {
        tags,
        operationId: 'readArtifact',
        summary: 'Read bytes that the conversation of the run names by their hash',
        params: ArtifactPath,
        response: {
          200: {
            description: 'The bytes, to be kept as a file',
            content: { 'application/octet-stream': { schema: z.string().meta({ format: 'binary' }) } },
          },
          default: PROBLEM,
        },
      },
    },
    async (request, reply) => {
      const { runId, sha256 } = request.params;
      const { bytes, contentType } = await records.artifact(askerOf(request), runId, sha256);
      const kind = SAFE_KINDS.test(contentType) ? contentType : 'application/octet-stream';
      return await attached(reply, sha256, kind).send(Buffer.from(bytes.buffer, bytes.byteOffset, bytes.byteLength));
    },
  );
  routesOf(app, 'policy').post(
    '/v1/policy/explain',
    {
      operationId: 'explainPolicy',
      summary: 'Judge a call by the policy of the organisation, and tell which rules decide; nothing is sent',
      body: ExplainBody,
      answer: [Explained, 'The verdict'],
    },
    async (asker, { body }) => await explaining.explain(asker, body),
  );
}

/** Browsers keep it as a file, and run nothing of it. */
function attached(reply: FastifyReply, name: string, contentType: string): FastifyReply {
  return reply.header('content-disposition', `attachment; filename="${name}"`).type(contentType);
}

/** A run's id may hold what a header or a file system does not take. */
function fileName(runId: string): string {
  return runId.replaceAll(/[^A-Za-z0-9._-]/g, '_').slice(0, 100);
}

async function* textOf(first: IteratorResult<LedgerLine>, rest: AsyncGenerator<LedgerLine>): AsyncGenerator<string> {
  if (first.done === true) return;
  yield `${JSON.stringify(first.value)}\n`;
  for await (const line of rest) yield `${JSON.stringify(line)}\n`;
}
