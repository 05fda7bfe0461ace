/** Routes of single calls: make one, and ask what became of it. */
import {
  CallQuery,
  type ShownCall,
  ShownCall as Shown,
  StartCall,
  StartedCall,
} from '../../contracts/schemas/http/calls.ts';
import { CountersignError } from '../../contracts/errors.ts';
import { defined } from '../../contracts/defined.ts';
import { answerOf } from '../../client/run/single-call.ts';
import { askerOf, type Server } from '../http/server.ts';
import { answering, Keyed, type RouteParts, RunPath } from './parts.ts';

const tags = ['calls'];

/** How long a call that waits for nobody may take before it counts as under way; Temporal is asked at least so long. */
const LEAST_WAIT_MS = 50;

/** One function, because it is one table of routes. */
export function addCallRoutes(app: Server, parts: RouteParts): void {
  const { reading, opened, countersign } = parts;

  async function shown(runId: string, waitSeconds: number): Promise<ShownCall> {
    try {
      const ms = Math.max(LEAST_WAIT_MS, waitSeconds * 1_000);
      return { runId, status: 'ended', answer: await answerOf(countersign.run(runId), ms) };
    } catch (error) {
      if (!(error instanceof CountersignError) || error.code !== 'RESULT_UNCERTAIN') throw error;
    }
    // A run that no worker has taken yet answers no query.
    const asked = await opened.requests(runId).catch(() => []);
    const isOpen = asked.some(({ status }) => status === 'open');
    const page = isOpen ? `/runs/${encodeURIComponent(runId)}` : undefined;
    return { runId, status: isOpen ? 'waiting' : 'running', ...defined({ page }) };
  }

  app.post(
    '/v1/calls',
    {
      schema: {
        tags,
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
      const { run, started } = await parts.answering.call(
        askerOf(request),
        request.body,
        request.headers['idempotency-key'],
      );
      void reply.header('location', `/v1/calls/${encodeURIComponent(run.runId)}`);
      const call = await shown(run.runId, request.body.waitSeconds);
      return await reply.status(started ? 201 : 200).send({ ...call, started });
    },
  );
  app.get(
    '/v1/calls/:runId',
    {
      schema: {
        tags,
        operationId: 'readCall',
        summary: 'Read what became of a call; with waitSeconds, wait for its end',
        params: RunPath,
        querystring: CallQuery,
        response: answering(200, Shown, 'The call'),
      },
    },
    async (request, reply) => {
      const { runId } = request.params;
      await reading.seen(runId, askerOf(request));
      return await reply.send(await shown(runId, request.query.waitSeconds));
    },
  );
}
