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
import { answering, Keyed, nextOf, type RouteParts, routesOf, RunPath } from './parts.ts';

/** One function, because it is one table of routes. */
export function addRunRoutes(app: Server, parts: RouteParts): void {
  const { reading, records, countersign } = parts;
  const routes = routesOf(app, 'runs');
  app.post(
    '/v1/runs',
    {
      schema: {
        tags: ['runs'],
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
  routes.get(
    '/v1/runs',
    {
      operationId: 'listRuns',
      summary: 'List runs that you may see, newest first',
      querystring: RunQuery,
      answer: [RunPage, 'A page of runs'],
    },
    (asker, { query }) => reading.runs(query, asker),
  );
  routes.get(
    '/v1/runs/:runId',
    {
      operationId: 'readRun',
      summary: 'Read the state of a run',
      params: RunPath,
      answer: [RunDetail, 'The run'],
    },
    async (asker, { params: { runId } }) => {
      const seen = await reading.seen(runId, asker);
      const may = seen.run.endedAt === undefined && mayTell(seen, asker) ? (['say', 'stop'] as const) : [];
      return { run: seen.run, state: await records.state(asker, runId), may: [...may] };
    },
  );
  routes.get(
    '/v1/runs/:runId/ledger',
    {
      operationId: 'readLedger',
      summary: 'Read entries of the ledger, oldest first',
      params: RunPath,
      querystring: LedgerQuery,
      answer: [LedgerEntries, 'Entries'],
    },
    async (asker, { params: { runId }, query }) => {
      await reading.seen(runId, asker);
      const entries = await countersign.run(runId).ledgerEntries(query);
      return { entries: [...entries], ...nextOf(entries, query) };
    },
  );
  routes.post(
    '/v1/runs/:runId/messages',
    {
      operationId: 'say',
      summary: 'Say something to the model; it is read after the current turn',
      headers: Keyed,
      params: RunPath,
      body: SayBody,
      answer: [Advance, 'The message was taken'],
    },
    async (asker, { params, body, key }) =>
      await parts.answering.tell(asker, params.runId, { messageId: body.messageId, key }, async (run, messageId) =>
        run.say({ ...body, messageId, from: asker.id }),
      ),
  );
  routes.post(
    '/v1/runs/:runId/stop',
    {
      operationId: 'stopRun',
      summary: 'End a run: its open requests are cancelled',
      params: RunPath,
      body: StopBody,
      answer: [Advance, 'The run ends'],
    },
    async (asker, { params, body }) =>
      await parts.answering.tell(asker, params.runId, {}, async (run) => run.stop({ ...body, by: asker.id })),
  );
  routes.post(
    '/v1/runs/:runId/forget',
    {
      operationId: 'forget',
      summary: 'Take a standing decision back',
      params: RunPath,
      body: ForgetBody,
      answer: [ForgetAck, 'It stands no more'],
    },
    async (asker, { params, body }) =>
      await parts.answering.forget(asker, params.runId, async (run, by) => run.forget({ ...body, by })),
  );
}
