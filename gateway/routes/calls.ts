/** Routes of single calls: make one, and ask what became of it. */
import { type ShownCall, ShownCall as Shown, StartCall, StartedCall } from '../../contracts/schemas/http/calls.ts';
import { ResultQuery } from '../../contracts/schemas/http/records.ts';
import { CountersignError } from '../../contracts/errors.ts';
import { answerIn } from '../../client/run/single-call.ts';
import { askerOf, keyOf, type Server } from '../http/server.ts';
import type { Asker } from '../identity/person.ts';
import { answering, Keyed, type RouteParts, routesOf, RunPath } from './parts.ts';

/** One function, because it is one table of routes. */
export function addCallRoutes(app: Server, parts: RouteParts): void {
  const { reading, records, waiters } = parts;

  async function shown(asker: Asker, runId: string, waitSeconds: number): Promise<ShownCall> {
    const { ended, result, failure } = await waiters.hold(
      keyOf(asker),
      async () => await records.end(asker, runId, waitSeconds),
    );
    if (failure !== undefined) return { runId, status: 'ended', failure };
    if (result !== undefined) return { runId, status: 'ended', ...endOf(runId, result) };
    if (ended) throw new CountersignError('INTERNAL', `Run ${runId} ended without a word.`);
    // Visibility says that somebody is asked also while no worker could.
    const { run } = await reading.seen(runId, asker);
    if (run.status !== 'waiting') return { runId, status: 'running' };
    return { runId, status: 'waiting', page: `/runs/${encodeURIComponent(runId)}` };
  }

  app.post(
    '/v1/calls',
    {
      schema: {
        tags: ['calls'],
        operationId: 'call',
        summary:
          'Have one tool called through the gate in your own name; the same id with the same call is the same call',
        headers: Keyed,
        body: StartCall,
        response: {
          ...answering(201, StartedCall, 'The call was started'),
          ...answering(200, StartedCall, 'The same call was started before'),
        },
      },
    },
    async (request, reply) => {
      const asker = askerOf(request);
      const { run, started } = await parts.answering.call(asker, request.body, {
        key: request.headers['idempotency-key'],
      });
      void reply.header('location', `/v1/calls/${encodeURIComponent(run.runId)}`);
      const call = await shown(asker, run.runId, request.body.waitSeconds);
      return await reply.status(started ? 201 : 200).send({ ...call, started });
    },
  );
  routesOf(app, 'calls').get(
    '/v1/calls/:runId',
    {
      operationId: 'readCall',
      summary: 'Read what became of a call; with waitSeconds, wait for its end',
      params: RunPath,
      querystring: ResultQuery,
      answer: [Shown, 'The call'],
    },
    async (asker, { params, query }) => await shown(asker, params.runId, query.waitSeconds),
  );
}

/** @throws CountersignError `CALL_UNKNOWN` if the run is no single call */
function endOf(runId: string, result: Parameters<typeof answerIn>[1]): Pick<ShownCall, 'answer' | 'failure'> {
  try {
    return { answer: answerIn(runId, result) };
  } catch (error) {
    if (!(error instanceof CountersignError) || error.code === 'CALL_UNKNOWN') throw error;
    return { failure: { code: error.code, message: error.message } };
  }
}
