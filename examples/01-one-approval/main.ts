/** An agent wants to send money. It waits until a person has approved exactly this call, and the call runs once. */
import assert from 'node:assert/strict';
import { assertIntact } from 'countersign';
import { startTestWorld } from 'countersign/testing';

const world = await startTestWorld({
  // A tool server. Here its tools are functions.
  servers: { bank: { transfer: { answer: ({ to, amount }) => ({ sent: amount, to }) } } },
  // Without a rule every call is asked. Ben decides.
  config: { policy: { approvers: { ids: ['ben'] } } },
});
try {
  const run = await world.start([
    { calls: [{ tool: 'bank/transfer', arguments: { to: 'alice', amount: 100 } }] },
    { text: 'Alice is paid.' },
  ]);

  // What a person sees: server, tool, arguments, and the digest that binds a decision to them.
  const [request] = await world.openRequests(run);
  assert(request);
  assert.deepEqual(request.arguments, { to: 'alice', amount: 100 });
  assert.equal(world.servers['bank']?.calls.length, 0, 'nothing has run yet');

  // Somebody else may not decide.
  const { callId, digest, runId } = request;
  const decision = { kind: 'approve', decisionId: 'decision-1', callId, digest, runId } as const;
  await assert.rejects(run.decide({ ...decision, approver: { id: 'eve' } }), { code: 'APPROVER_NOT_ENTITLED' });

  // Ben may. Sent twice, it counts once.
  const approval = { ...decision, approver: { id: 'ben' } };
  const ack = await run.decide(approval);
  assert.deepEqual(await run.decide(approval), ack);

  const { output } = await run.result();
  assert.equal(output, 'Alice is paid.');
  assert.deepEqual(
    world.servers['bank']?.calls.map((call) => call.arguments),
    [{ to: 'alice', amount: 100 }],
  );

  // The record of the run, chained by hashes.
  const ledger = await run.ledger();
  const { length } = assertIntact(ledger, run.runId);
  console.log(`approved by ${ack.decidedBy}, sent once, ledger of ${length} entries intact`);
} finally {
  await world.stop();
}
