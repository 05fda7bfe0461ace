/** A tool server asks a person in the middle of a call. The run sleeps meanwhile, and the call goes on with the answer. */
import assert from 'node:assert/strict';
import { asking, startTestWorld } from 'countersign/testing';

const world = await startTestWorld({
  servers: {
    travel: {
      book: {
        answer: (_args, { answers }) => {
          const seat = answers?.['seat'];
          if (seat === undefined)
            return asking({
              seat: {
                message: 'Which seat?',
                fields: { seat: { type: 'string', enum: ['aisle', 'window'] } },
                required: ['seat'],
              },
            });
          return seat.action === 'accept' ? { booked: seat.content } : 'not booked';
        },
      },
    },
  },
  // The call itself needs nobody; only the server asks.
  config: { policy: { rules: [{ id: 'bookings', match: { tool: 'book' }, then: 'allow' }] } },
});
try {
  const run = await world.start([
    { calls: [{ tool: 'travel/book', arguments: { city: 'Oslo' } }] },
    { text: 'Have a good trip.' },
  ]);

  // The question stands in the same inbox as approvals.
  const [question] = await world.openRequests(run);
  assert(question?.about?.kind === 'input');
  const form = question.about.requests['seat'];
  assert.equal(form?.message, 'Which seat?');

  const { callId, digest, runId } = question;
  const answer = { kind: 'provide', callId, digest, runId, approver: { id: 'ann' } } as const;

  // What does not fit the form is refused, and changes nothing.
  const wrong = { seat: { action: 'accept', content: { seat: 'roof' } } } as const;
  await assert.rejects(run.provideInput({ ...answer, decisionId: 'answer-1', responses: wrong }), {
    code: 'DECISION_INVALID',
  });

  const right = { seat: { action: 'accept', content: { seat: 'window' } } } as const;
  const ack = await run.provideInput({ ...answer, decisionId: 'answer-2', responses: right });
  assert.equal(ack.decidedBy, 'ann');
  assert.equal((await run.result()).output, 'Have a good trip.');

  // The server was called, and called again with the answer: one booking.
  const calls = world.servers['travel']?.calls ?? [];
  assert.deepEqual(
    calls.map(({ answers }) => answers?.['seat']?.content),
    [undefined, { seat: 'window' }],
  );
  console.log(`the server asked, ${ack.decidedBy} answered, and the call went on`);
} finally {
  await world.stop();
}
