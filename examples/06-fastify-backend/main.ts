/** Plays the backend's users: one starts a refund twice, each sees and approves what is theirs, and nothing else. */
import assert from 'node:assert/strict';
import { startTestWorld } from 'countersign/testing';
import { createBackend } from './backend.ts';

const PEOPLE = new Map([
  ['ann', ['support']],
  ['ben', ['finance']],
  ['dana', ['legal']],
  ['eve', ['support']],
]);
const calls = [
  { tool: 'bank/refund', arguments: { amount: 80 } },
  { tool: 'bank/close', arguments: { account: 'NL-1' } },
];
const world = await startTestWorld({
  servers: { bank: { refund: { answer: ({ amount }) => ({ refunded: amount }) }, close: { answer: () => 'closed' } } },
  config: {
    models: { main: { provider: 'scripted', script: { steps: [{ calls }, { text: 'Refunded.' }] } } },
    policy: {
      approvers: { groups: ['finance'] },
      servers: { bank: { tools: { close: { action: 'ask', approvers: { groups: ['legal'] } } } } },
    },
  },
});
const app = createBackend(world.countersign, ({ headers }) => {
  const id = String(headers['x-user']);
  return { id, groups: PEOPLE.get(id) ?? [] };
});

async function send(user: string, method: 'GET' | 'POST', url: string, payload?: object) {
  const answer = await app.inject({ method, url, headers: { 'x-user': user }, ...(payload && { payload }) });
  return { status: answer.statusCode, body: answer.json<Record<string, string>>() };
}

async function waitingFor(user: string) {
  const answer = await app.inject({ method: 'GET', url: '/approvals', headers: { 'x-user': user } });
  return answer.json<{ run: string; call: string; digest: string; runId: string; arguments: object }[]>();
}

try {
  const refund = { ticket: '4711', amount: 80 };
  assert.equal((await send('ann', 'POST', '/refunds', refund)).status, 202);
  assert.equal((await send('ann', 'POST', '/refunds', refund)).status, 200, 'the same refund is the same run');

  // Lists come from Temporal's visibility, which knows of a request a moment after the run.
  let [request] = await waitingFor('ben');
  while (request === undefined) [request] = await waitingFor('ben');
  const seen = await Promise.all(['ben', 'dana', 'eve'].map(waitingFor));
  assert.deepEqual(
    seen.map((requests) => requests.map((each) => each.arguments)),
    [[{ amount: 80 }], [{ account: 'NL-1' }], []],
    'of the two requests of this run, everybody sees their own',
  );

  const { run, call, digest, runId } = request;
  const path = `/approvals/${run}/${call}`;
  const decision = { digest, runId, decisionId: 'decision-1' };
  assert.equal((await send('eve', 'POST', path, decision)).status, 403);
  assert.equal((await send('ben', 'POST', path, { ...decision, digest: '0'.repeat(64) })).status, 412);
  assert.equal((await send('ben', 'POST', path, decision)).body['status'], 'approved');

  assert.deepEqual(await waitingFor('ben'), []);

  const [closing] = await waitingFor('dana');
  const { digest: theirs, call: other } = closing ?? assert.fail();
  const agreed = { digest: theirs, runId, decisionId: 'decision-2' };
  assert.equal((await send('ben', 'POST', `/approvals/${run}/${other}`, agreed)).status, 403);
  assert.equal((await send('dana', 'POST', `/approvals/${run}/${other}`, agreed)).body['status'], 'approved');

  const { output } = await world.countersign.run(run).result();
  assert.equal(output, 'Refunded.');
  assert.equal(world.servers['bank']?.calls.filter(({ tool }) => tool === 'refund').length, 1);
  console.log(`${run}: started once, approved by ben, refunded once`);
} finally {
  await app.close();
  await world.stop();
}
