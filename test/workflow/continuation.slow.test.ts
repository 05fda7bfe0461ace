/** After a decision the model goes on with the conversation; it is not given the prompt again (S3.4, INV-D2). */
import { afterAll, beforeAll, expect, test } from '@jest/globals';
import { startBank } from '../support/world/bank-world.ts';
import { scheduledInputs } from '../support/world/run-record.ts';
import { decisionOn, openRequests, type World } from '../support/world/world.ts';

let world: World;
beforeAll(async () => void ({ world } = await startBank({ policy: { strategy: 'always' } })));
afterAll(async () => await world.stop());

const PROMPT = 'Pay what is due, and nothing else.';
const CALL = { tool: 'bank/pay', arguments: { purpose: 'continuation' } };

test.each(['approve', 'reject'] as const)('%s: the step gets what came since, and where that goes on', async (kind) => {
  const run = await world.start([{ calls: [CALL] }, { text: 'done' }], { input: PROMPT });
  const [request] = await openRequests(run);
  const before = await run.state();
  const decision = decisionOn(request, 'ann');
  const { decisionId, callId, digest, runId, approver } = decision;
  await run.decide(
    kind === 'approve' ? decision : { kind, decisionId, callId, digest, runId, approver, reason: 'Not due.' },
  );
  await run.result();
  const inputs = await scheduledInputs(world, run.runId);
  const sent = inputs.get('stretch') ?? inputs.get('modelStep');
  // Sound: the step of either activity has these fields (`contracts/wire/run.ts`).
  const step = (sent?.['step'] ?? sent) as {
    readonly turn: number;
    readonly base: { readonly length: number };
    readonly tail: readonly { readonly role: string }[];
  };
  expect(step.turn).toBe(2);
  // The prompt stands in what came before, by number and digest alone.
  expect(step.base.length).toBeGreaterThan(0);
  expect(step.base.length).toBeLessThanOrEqual(before.transcriptLength);
  expect(step.tail.map(({ role }) => role)).toEqual(['assistant', 'tool']);
  expect(JSON.stringify(sent)).not.toContain(PROMPT);
  const messages = await run.messages({ from: 0, to: 20 });
  expect(messages.filter((message) => JSON.stringify(message).includes(PROMPT))).toHaveLength(1);
  expect(messages.map(({ role }) => role).slice(-3)).toEqual(['assistant', 'tool', 'assistant']);
});
