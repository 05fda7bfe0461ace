/** Each user's run calls the server with that user's own token. It is sealed to the run: Temporal has none of it. */
import assert from 'node:assert/strict';
import { startTestWorld } from 'countersign/testing';

// A server that knows its users by their tokens. It also listens to nobody without one.
const USERS = new Map([
  ['Bearer token-of-ann-0123456789abcdef', 'ann'],
  ['Bearer token-of-ben-fedcba9876543210', 'ben'],
]);
const world = await startTestWorld({
  servers: {
    tickets: { close: { answer: (_args, { authorization = '' }) => `closed by ${USERS.get(authorization)}` } },
  },
  // `given`: the caller hands a token of the user to the run. Whoever started a run decides on its calls.
  config: { servers: { tickets: { credentials: { kind: 'given' } } } },
});

async function closeAs(user: string, token: string): Promise<string> {
  const run = await world.start(
    [{ calls: [{ tool: 'tickets/close', arguments: { id: 4711 } }] }, { text: 'done' }],
    { initiator: { id: user } },
    { authorizations: { tickets: token } },
  );
  await world.approveNext(run, user);
  await run.result();

  // What Temporal has of this run: the sealed token, and nowhere the token itself.
  const history = textOf(await world.client.workflow.getHandle(run.runId).fetchHistory());
  assert(history.includes('"ciphertext"'));
  assert(!history.includes(token) && !history.includes(Buffer.from(token).toString('base64')));

  const [answer] = /closed by \w+/.exec(JSON.stringify(await run.messages({ from: 0, to: 10 }))) ?? [];
  return answer ?? '';
}

function textOf(value: unknown): string {
  if (value instanceof Uint8Array) return Buffer.from(value).toString();
  return typeof value === 'object' && value !== null ? Object.values(value).map(textOf).join('\n') : String(value);
}

try {
  const answers = await Promise.all([
    closeAs('ann', 'token-of-ann-0123456789abcdef'),
    closeAs('ben', 'token-of-ben-fedcba9876543210'),
  ]);
  assert.deepEqual(answers, ['closed by ann', 'closed by ben']);
  const tokens = new Set(world.servers['tickets']?.calls.map(({ authorization }) => authorization));
  assert.deepEqual(tokens, new Set(USERS.keys()));
  console.log(`${answers.join(', ')}: each with a token of their own, and none of them in Temporal`);
} finally {
  await world.stop();
}
