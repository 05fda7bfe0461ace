/** Routes of requests: list, read, and the four updates by which people answer. */
import {
  AuthorizationBody,
  DecisionBody,
  ManyAnswers,
  ManyDecisions,
  ProvisionBody,
  RequestList,
  RequestPage,
  RequestQuery,
  ResolutionBody,
  ShownRequest,
} from '../../contracts/schemas/http-api.ts';
import { DecisionAck, PauseAck } from '../../contracts/schemas/request.ts';
import type { FastifyRequest } from 'fastify';
import type { z } from 'zod';
import type { RunHandle } from '../../client/run/run-handle.ts';
import type { Complete, Said } from '../inbox/answering.ts';
import { codedOf, problemOf } from '../http/problem.ts';
import { asOfText } from '../projection/projection.ts';
import { askerOf, type Server } from '../http/server.ts';
import { answering, CallPath, Keyed, type RouteParts, RunPath } from './parts.ts';

const tags = ['requests'];

/** The part of an answer's HTTP request that says what is meant. */
interface AnswerRequest<Body> extends FastifyRequest {
  readonly params: z.infer<typeof CallPath>;
  readonly headers: FastifyRequest['headers'] & z.infer<typeof Keyed>;
  readonly body: Body;
}

/** One function, because it is one table of routes. */
export function addRequestRoutes(app: Server, parts: RouteParts): void {
  const { reading, projection } = parts;
  const answered = async <Body extends Said, Ack>(
    request: AnswerRequest<Body>,
    send: (run: RunHandle, message: Complete<Body>) => Promise<Ack>,
  ): Promise<Ack> => {
    const { runId, callId } = request.params;
    const place = { run: runId, callId, key: request.headers['idempotency-key'] };
    return await parts.answering.answer(askerOf(request), place, request.body, send);
  };
  app.get(
    '/v1/requests',
    {
      schema: {
        tags,
        operationId: 'listRequests',
        summary: 'List open requests that you may see, first deadline first, and what you may do with each',
        querystring: RequestQuery,
        response: answering(200, RequestPage, 'A page of requests'),
      },
    },
    async (request, reply) => reply.send(await reading.requests(request.query, askerOf(request))),
  );
  app.get(
    '/v1/runs/:runId/requests',
    {
      schema: {
        tags,
        operationId: 'listRequestsOfRun',
        summary: 'Read the requests of the current turn of a run, open and decided',
        params: RunPath,
        response: answering(200, RequestList, 'The requests'),
      },
    },
    async (request, reply) => {
      const requests = await reading.requestsOf(request.params.runId, askerOf(request));
      return await reply.send({ requests: [...requests], asOf: asOfText(projection).asOf ?? '' });
    },
  );
  app.get(
    '/v1/runs/:runId/requests/:callId',
    {
      schema: {
        tags,
        operationId: 'readRequest',
        summary: 'Read a request in full',
        params: CallPath,
        response: answering(200, ShownRequest, 'The request'),
      },
    },
    async (request, reply) => {
      const { runId, callId } = request.params;
      return await reply.send(await reading.requestOf(runId, callId, askerOf(request)));
    },
  );
  app.post(
    '/v1/runs/:runId/requests/:callId/decisions',
    {
      schema: {
        tags,
        operationId: 'decide',
        summary: 'Approve, reject, respond, withdraw or extend; the digest binds what you were shown',
        headers: Keyed,
        params: CallPath,
        body: DecisionBody,
        response: answering(200, DecisionAck, 'The decision counts'),
      },
    },
    async (request, reply) => reply.send(await answered(request, async (run, decision) => await run.decide(decision))),
  );
  app.post(
    '/v1/decisions',
    {
      schema: {
        tags,
        operationId: 'decideMany',
        summary: 'Decide several requests; each gets an answer of its own',
        body: ManyDecisions,
        response: answering(200, ManyAnswers, 'The answers, in the order of the decisions'),
      },
    },
    async (request, reply) => {
      const asker = askerOf(request);
      const answers = await Promise.all(
        request.body.decisions.map(async ({ run, callId, ...body }) => {
          try {
            const ack = await parts.answering.answer(asker, { run, callId }, body, async (handle, decision) =>
              handle.decide(decision),
            );
            return { kind: 'accepted' as const, run, callId, ack };
          } catch (error) {
            return { kind: 'refused' as const, run, callId, problem: problemOf(codedOf(error), request.id) };
          }
        }),
      );
      return await reply.send({ answers });
    },
  );
  app.post(
    '/v1/runs/:runId/requests/:callId/provisions',
    {
      schema: {
        tags,
        operationId: 'provideInput',
        summary: 'Answer what a server asks in the middle of a call',
        headers: Keyed,
        params: CallPath,
        body: ProvisionBody,
        response: answering(200, PauseAck, 'The answer counts'),
      },
    },
    async (request, reply) =>
      reply.send(await answered(request, async (run, provision) => await run.provideInput(provision))),
  );
  app.post(
    '/v1/runs/:runId/requests/:callId/authorizations',
    {
      schema: {
        tags,
        operationId: 'authorize',
        summary: 'Consent to scopes, give a fresh grant (sealed, or a vault reference), or decline',
        headers: Keyed,
        params: CallPath,
        body: AuthorizationBody,
        response: answering(200, PauseAck, 'The answer counts'),
      },
    },
    async (request, reply) =>
      reply.send(await answered(request, async (run, authorization) => await run.authorize(authorization))),
  );
  app.post(
    '/v1/runs/:runId/requests/:callId/resolutions',
    {
      schema: {
        tags,
        operationId: 'resolveOutcome',
        summary: 'Say what became of a call whose outcome is not known, or send it again',
        headers: Keyed,
        params: CallPath,
        body: ResolutionBody,
        response: answering(200, PauseAck, 'The answer counts'),
      },
    },
    async (request, reply) =>
      reply.send(await answered(request, async (run, resolution) => await run.resolveOutcome(resolution))),
  );
}
