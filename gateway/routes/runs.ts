/** Routes of runs: start, list, read, ledger, messages, stop. */
import {
  LedgerEntries,
  LedgerQuery,
  RunDetail,
  RunPage,
  RunQuery,
  SayBody,
  StartedRun,
  StartRun,
  StopBody,
  ForgetBody,
} from '../../contracts/schemas/http-api.ts';
import { ForgetAck } from '../../contracts/schemas/request.ts';
import { Advance } from '../../contracts/schemas/run-state.ts';
import { mayTell } from '../inbox/answering.ts';
import { askerOf, type Server } from '../http/server.ts';
import { answering, Keyed, nextOf, type RouteParts, RunPath } from './parts.ts';

const tags = ['runs'];

/** One function, because it is one table of routes. */
export function addRunRoutes(app: Server, parts: RouteParts): void {
  const { reading, records, countersign } = parts;
  app.post(
    '/v1/runs',
    {
      schema: {
        tags,
        operationId: 'startRun',
        summary: 'Start a run in your own name; the same id with the same spec is the same run',
        headers: Keyed,
        body: StartRun,
        response: {
          ...answering(201, StartedRun, 'The run was started'),
          ...answering(200, StartedRun, 'The same run was started before'),
        },
      },
    },
    async (request, reply) => {
      const answer = await parts.answering.start(askerOf(request), request.body, request.headers['idempotency-key']);
      void reply.header('location', `/v1/runs/${encodeURIComponent(answer.runId)}`);
      return await reply.status(answer.started ? 201 : 200).send(answer);
    },
  );
  app.get(
    '/v1/runs',
    {
      schema: {
        tags,
        operationId: 'listRuns',
        summary: 'List runs that you may see, newest first',
        querystring: RunQuery,
        response: answering(200, RunPage, 'A page of runs'),
      },
    },
    async (request, reply) => reply.send(reading.runs(request.query, askerOf(request))),
  );
  app.get(
    '/v1/runs/:runId',
    {
      schema: {
        tags,
        operationId: 'readRun',
        summary: 'Read the state of a run',
        params: RunPath,
        response: answering(200, RunDetail, 'The run'),
      },
    },
    async (request, reply) => {
      const asker = askerOf(request);
      const { runId } = request.params;
      const seen = await reading.seen(runId, asker);
      const may = seen.run.endedAt === undefined && mayTell(seen, asker) ? ['say', 'stop'] : [];
      return await reply.send({ run: seen.run, state: await records.state(asker, runId), may });
    },
  );
  app.get(
    '/v1/runs/:runId/ledger',
    {
      schema: {
        tags,
        operationId: 'readLedger',
        summary: 'Read entries of the ledger, oldest first',
        params: RunPath,
        querystring: LedgerQuery,
        response: answering(200, LedgerEntries, 'Entries'),
      },
    },
    async (request, reply) => {
      const { runId } = request.params;
      await reading.seen(runId, askerOf(request));
      const { from, most } = request.query;
      const entries = await countersign.run(runId).ledgerEntries({ from, most });
      return await reply.send({ entries, ...nextOf(entries, { from, most }) });
    },
  );
  app.post(
    '/v1/runs/:runId/messages',
    {
      schema: {
        tags,
        operationId: 'say',
        summary: 'Say something to the model; it is read after the current turn',
        headers: Keyed,
        params: RunPath,
        body: SayBody,
        response: answering(200, Advance, 'The message was taken'),
      },
    },
    async (request, reply) => {
      const asker = askerOf(request);
      const { body, params } = request;
      const message = { messageId: body.messageId, key: request.headers['idempotency-key'] };
      const ack = await parts.answering.tell(asker, params.runId, message, async (run, messageId) =>
        run.say({ ...body, messageId, from: asker.id }),
      );
      return await reply.send(ack);
    },
  );
  app.post(
    '/v1/runs/:runId/stop',
    {
      schema: {
        tags,
        operationId: 'stopRun',
        summary: 'End a run: its open requests are cancelled',
        params: RunPath,
        body: StopBody,
        response: answering(200, Advance, 'The run ends'),
      },
    },
    async (request, reply) => {
      const asker = askerOf(request);
      const ack = await parts.answering.tell(asker, request.params.runId, {}, async (run) =>
        run.stop({ ...request.body, by: asker.id }),
      );
      return await reply.send(ack);
    },
  );
  app.post(
    '/v1/runs/:runId/forget',
    {
      schema: {
        tags,
        operationId: 'forget',
        summary: 'Take a standing decision back',
        params: RunPath,
        body: ForgetBody,
        response: answering(200, ForgetAck, 'It stands no more'),
      },
    },
    async (request, reply) => {
      const ack = await parts.answering.forget(askerOf(request), request.params.runId, async (run, by) =>
        run.forget({ ...request.body, by }),
      );
      return await reply.send(ack);
    },
  );
}
