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
import type { z } from 'zod';
import type { RunHandle } from '../../client/run/run-handle.ts';
import type { Complete, Said } from '../inbox/answering.ts';
import { codedOf, problemOf } from '../http/problem.ts';
import { asOfText } from '../projection/projection.ts';
import { askerOf, type Server } from '../http/server.ts';
import { answering, CallPath, Keyed, type RouteParts, routesOf, RunPath } from './parts.ts';

/** One function, because it is one table of routes. */
export function addRequestRoutes(app: Server, { reading, projection, answering: answers }: RouteParts): void {
  const routes = routesOf(app, 'requests');
  routes.get(
    '/v1/requests',
    {
      operationId: 'listRequests',
      summary: 'List open requests that you may see, first deadline first, and what you may do with each',
      querystring: RequestQuery,
      answer: [RequestPage, 'A page of requests'],
    },
    async (asker, { query }) => await reading.requests(query, asker),
  );
  routes.get(
    '/v1/runs/:runId/requests',
    {
      operationId: 'listRequestsOfRun',
      summary: 'Read the requests of the current turn of a run, open and decided',
      params: RunPath,
      answer: [RequestList, 'The requests'],
    },
    async (asker, { params }) => {
      const requests = await reading.requestsOf(params.runId, asker);
      return { requests: [...requests], asOf: asOfText(projection).asOf ?? '' };
    },
  );
  routes.get(
    '/v1/runs/:runId/requests/:callId',
    {
      operationId: 'readRequest',
      summary: 'Read a request in full',
      params: CallPath,
      answer: [ShownRequest, 'The request'],
    },
    async (asker, { params: { runId, callId } }) => await reading.requestOf(runId, callId, asker),
  );
  const answer = <Body extends z.ZodType<Said>, Ack extends z.ZodType>(
    kind: string,
    about: { operationId: string; summary: string; body: Body; answer: readonly [Ack, string] },
    send: (run: RunHandle, message: Complete<z.output<Body>>) => Promise<z.output<Ack>>,
  ): void =>
    routes.post(
      `/v1/runs/:runId/requests/:callId/${kind}`,
      { ...about, headers: Keyed, params: CallPath },
      async (asker, { params: { runId: run, callId }, body, key }) =>
        await answers.answer(asker, { run, callId, key }, body, send),
    );
  answer(
    'decisions',
    {
      operationId: 'decide',
      summary: 'Approve, reject, respond, withdraw or extend; the digest binds what you were shown',
      body: DecisionBody,
      answer: [DecisionAck, 'The decision counts'],
    },
    async (run, decision) => await run.decide(decision),
  );
  app.post(
    '/v1/decisions',
    {
      schema: {
        tags: ['requests'],
        operationId: 'decideMany',
        summary: 'Decide several requests; each gets an answer of its own',
        body: ManyDecisions,
        response: answering(200, ManyAnswers, 'The answers, in the order of the decisions'),
      },
    },
    async (request, reply) => {
      const asker = askerOf(request);
      const told = await Promise.all(
        request.body.decisions.map(async ({ run, callId, ...body }) => {
          try {
            const ack = await answers.answer(asker, { run, callId }, body, async (handle, decision) =>
              handle.decide(decision),
            );
            return { kind: 'accepted' as const, run, callId, ack };
          } catch (error) {
            return { kind: 'refused' as const, run, callId, problem: problemOf(codedOf(error), request.id) };
          }
        }),
      );
      return await reply.send({ answers: told });
    },
  );
  answer(
    'provisions',
    {
      operationId: 'provideInput',
      summary: 'Answer what a server asks in the middle of a call',
      body: ProvisionBody,
      answer: [PauseAck, 'The answer counts'],
    },
    async (run, provision) => await run.provideInput(provision),
  );
  answer(
    'authorizations',
    {
      operationId: 'authorize',
      summary: 'Consent to scopes, give a fresh grant (sealed, or a vault reference), or decline',
      body: AuthorizationBody,
      answer: [PauseAck, 'The answer counts'],
    },
    async (run, authorization) => await run.authorize(authorization),
  );
  answer(
    'resolutions',
    {
      operationId: 'resolveOutcome',
      summary: 'Say what became of a call whose outcome is not known, or send it again',
      body: ResolutionBody,
      answer: [PauseAck, 'The answer counts'],
    },
    async (run, resolution) => await run.resolveOutcome(resolution),
  );
}
