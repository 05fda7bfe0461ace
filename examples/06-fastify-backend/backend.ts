/** A backend of your own: it starts runs, shows what waits for whom, and passes decisions on. Any web framework does. */
import { type Countersign, CountersignError, permittedTo } from 'countersign';
import { fastify, type FastifyRequest } from 'fastify';

interface Person {
  readonly id: string;
  readonly groups: string[];
}

/** Your own sign-in. Never take the approver from the body: a decision counts as theirs. */
type SignIn = (request: FastifyRequest) => Person;

export function createBackend(countersign: Countersign, personOf: SignIn) {
  const app = fastify();

  // The run's id names the work, so that a request that comes twice starts one run.
  app.post<{ Body: { ticket: string; amount: number } }>('/refunds', async (request, reply) => {
    const { ticket, amount } = request.body;
    const run = await countersign.startRun({
      runId: `refund-${ticket}`,
      spec: {
        agent: { name: 'refunds', model: 'main' },
        input: `Refund ${amount} for ticket ${ticket}.`,
        initiator: { id: personOf(request).id },
        servers: [{ name: 'bank' }],
      },
    });
    return await reply.status(run.started ? 202 : 200).send({ run: run.runId });
  });

  app.get('/approvals', async (request) => {
    const person = personOf(request);
    const waiting = await countersign.waiting({ approver: person });
    const read = await Promise.allSettled(waiting.map(async ({ runId }) => await countersign.run(runId).requests()));
    // A run that cannot be read now hides no other.
    for (const each of read)
      if (each.status === 'rejected')
        request.log.warn({ error: String(each.reason) }, 'a run that waits is not listed');
    // A run may ask others too. Nobody reads arguments of a request that is not theirs to approve now.
    return read
      .flatMap((each) => (each.status === 'fulfilled' ? each.value : []))
      .filter((each) => permittedTo(each, person, Date.now()).has('approve'))
      .map(({ workflowId: run, callId: call, runId, digest, tool, arguments: args, deadline }) => {
        return { run, call, runId, digest, tool, arguments: args, deadline };
      });
  });

  // The page sends back the digest of what it showed: a decision on anything else is refused.
  app.post<{ Params: { run: string; call: string }; Body: { digest: string; runId: string; decisionId: string } }>(
    '/approvals/:run/:call',
    async (request) => {
      const { params, body } = request;
      const { digest, runId, decisionId } = body;
      const approver = personOf(request);
      return await countersign
        .run(params.run)
        .decide({ kind: 'approve', callId: params.call, digest, runId, decisionId, approver });
    },
  );

  app.setErrorHandler(async (error, _request, reply) => {
    const isOurs = error instanceof CountersignError;
    const status = isOurs ? error.traits.httpStatus : 500;
    return await reply
      .status(status)
      .send({ code: isOurs ? error.code : 'INTERNAL', message: isOurs ? error.message : '' });
  });
  return app;
}
