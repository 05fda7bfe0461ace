/**
 * A server says afterwards with which token it was called. Each activity has a token of its own, and none that the server was shown in
 * the call comes back with what it came to: of a task, of an answer that another worker gets, and of a task that was found so (INV-S1).
 */
import { randomBytes } from 'node:crypto';
import { afterEach, beforeEach, expect, test } from '@jest/globals';
import { taskBench } from '../support/activities/tasks.ts';
import { startTaskServer, type TaskServer } from '../support/servers/task-server.ts';

/** A new one each time, as of no other. */
const mints = (_request: unknown, count: number): string => `${count}-${randomBytes(16).toString('hex')}`;

let server: TaskServer;
beforeEach(async () => void (server = await startTaskServer()));
afterEach(async () => server.close());

/** Whatever it was ever sent. */
function telling(heard: readonly string[]) {
  return { result: { content: [{ type: 'text', text: `called with ${heard.join(' and ')}` }] } };
}

test('what becomes of a task: the tokens of the list before the call, of the refused call and of the call', async () => {
  const list = 'token-of-the-list';
  const listedWith = { secrets: [list, 'client-secret'], shown: [list] };
  const { dispatch, poll, minted } = await taskBench(server, { mints, listedWith });
  const heard: string[] = [list];
  server.become({
    intercept: (method, response, { headers: { authorization = '' } }) => {
      if (method !== 'tools/call') return false;
      heard.push(authorization);
      return heard.length === 2 && (response.writeHead(401).end(), true);
    },
    result: () => telling(heard),
    get: () => ({ status: 'completed', statusMessage: heard.at(-1) }),
  });
  const begun = await dispatch();
  expect(heard.slice(1)).toEqual(minted.map(({ token }) => `Bearer ${token}`));
  expect(heard).toHaveLength(3);
  const ended = await poll(begun);
  expect(minted).toHaveLength(3);
  expect(ended).toMatchObject({ outcome: { kind: 'succeeded' } });
  const text = JSON.stringify([begun, ended]);
  expect(text).toContain('called with [redacted] and');
  for (const secret of [list, ...minted.map(({ token }) => token)]) expect(text).not.toContain(secret);
});
