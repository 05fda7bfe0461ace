/** What the event stream of a run says when its run can no longer be followed. */
import { expect, test } from '@jest/globals';
import { CountersignError, type ErrorCode } from '../../../contracts/errors.ts';
import type { Server } from '../../../gateway/http/server.ts';
import { addEventRoutes } from '../../../gateway/routes/events.ts';
import type { RouteParts } from '../../../gateway/routes/parts.ts';
import { asker, known } from '../../support/scenes/asking.ts';

type Handler = (request: unknown, reply: unknown) => Promise<void>;

/** What a reader is sent of a run whose feed fails so. */
async function readUntil(code: ErrorCode): Promise<readonly unknown[]> {
  const routes = new Map<string, Handler>();
  const sent: unknown[] = [];
  const stream = {
    send: (event: string, id: string | undefined) => void sent.push([event, id]),
    ready: async () => undefined,
    end: () => void sent.push('ended'),
    ended: new AbortController().signal,
  };
  const app = { get: (path: string, _options: unknown, handler: Handler) => void routes.set(path, handler) };
  const parts = {
    reading: { seen: async () => ({ run: known().row, initiator: 'ann' }) },
    feeds: { follow: async () => await Promise.reject(new CountersignError(code, 'It cannot be followed.')) },
    streams: { open: () => stream },
  };
  // Sound: these are what the route uses of each.
  addEventRoutes(app as unknown as Server, parts as unknown as RouteParts);
  const reply = { getHeaders: () => ({}), hijack: () => undefined };
  await routes.get('/v1/runs/:runId/events')?.({ asker: asker(), params: { runId: 'run-1' }, headers: {} }, reply);
  return sent;
}

test('a run that was reset: its reader comes back for the first entry', async () => {
  expect(await readUntil('RUN_RESET')).toEqual([['reset', ''], 'ended']);
});

test('any other trouble is told, and the reader keeps its place', async () => {
  expect(await readUntil('RUN_STUCK')).toEqual([['problem', undefined], 'ended']);
});
