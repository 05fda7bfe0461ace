/** Two people of finance must agree, whoever started the run does not count, and after a while the director may, too. */
import assert from 'node:assert/strict';
import type { ApprovalRequest, RunHandle } from 'countersign';
import { startTestWorld } from 'countersign/testing';

const world = await startTestWorld({
  servers: { bank: { transfer: { answer: () => 'sent' } } },
  config: {
    policy: {
      approvers: {
        groups: ['finance'],
        need: 2,
        notInitiator: true,
        escalate: { afterSeconds: 2, add: { ids: ['dana'] } },
      },
      deadlineSeconds: 3_600,
    },
  },
});

/** Approves as this person: the decision repeats what was shown. */
async function approve(run: RunHandle, request: ApprovalRequest, id: string, groups: string[] = []): Promise<string> {
  const { callId, digest, runId } = request;
  const approver = { id, groups };
  const { status } = await run.decide({ kind: 'approve', decisionId: `${id}-1`, callId, digest, runId, approver });
  return status;
}

try {
  // Ann starts the run, and is of finance herself.
  const run = await world.start([
    { calls: [{ tool: 'bank/transfer', arguments: { to: 'alice', amount: 90_000 } }] },
    { text: 'Alice is paid.' },
  ]);
  const [request] = await world.openRequests(run);
  assert(request);
  await assert.rejects(approve(run, request, 'ann', ['finance']), { code: 'APPROVER_NOT_ENTITLED' });

  // One of two. The same person does not count twice, and Dana is not asked yet.
  assert.equal(await approve(run, request, 'ben', ['finance']), 'counted');
  assert.equal(world.servers['bank']?.calls.length, 0);
  await assert.rejects(approve(run, request, 'dana'), { code: 'APPROVER_NOT_ENTITLED' });

  // Nobody else of finance is there. The run asks Dana, by a timer of its own.
  for await (const { fact } of run.watch()) if (fact.kind === 'request.escalated') break;
  assert.equal(await approve(run, request, 'dana'), 'approved');

  assert.equal((await run.result()).output, 'Alice is paid.');
  assert.equal(world.servers['bank']?.calls.length, 1);
  const ledger = await run.ledger();
  const approvers = ledger.flatMap(({ fact }) => (fact.kind === 'decision.accepted' ? [fact.approver.id] : []));
  assert.deepEqual(approvers, ['ben', 'dana']);
  console.log(`approved by ${approvers.join(' and ')}, the second of them after the escalation`);
} finally {
  await world.stop();
}
