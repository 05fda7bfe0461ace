/**
 * Sessions that are open between the calls of one run, so that a call at a server before 2026-07-28 is one request
 * instead of four (docs/adr/0061).
 *
 * 1. A session serves the run that opened it, with the authority that opened it, and nobody else (`keptFor`).
 * 2. It holds no token: a token is for one call (INV-S2), and without one a session cannot be ended. So a session that
 *    needs a token is not kept.
 * 3. It is used by one call at a time. A call that finds it in use opens another one.
 * 4. It is kept only after a call that was answered whole; any doubt ends it.
 * 5. A call that may run only once gets a new connection in it (INV-X1, `session.ts`).
 */
import { LRUCache } from 'lru-cache';
import { hashOf } from '../../domain/text/canonical.ts';
import type { ServerConnection, ToolCall } from './port.ts';
import type { Session } from './session.ts';

const IDLE_MS = 30_000;
const MOST_KEPT = 500;

export type KeptSessions = ReturnType<typeof createKeptSessions>;

export function createKeptSessions(idleMs = IDLE_MS) {
  let isOver = false;
  const ending = new Set<Promise<void>>();
  const end = (session: Session): void => {
    const ended = session.close().finally(() => ending.delete(ended));
    ending.add(ended);
  };
  const kept = new LRUCache<string, Session>({
    max: MOST_KEPT,
    ttl: idleMs,
    ttlAutopurge: true,
    dispose: (session, _, reason) => {
      if (reason !== 'delete') end(session);
    },
  });
  return {
    /** Hands the session of this connection over; undefined if none is kept, or another call has it. */
    take(connection: ServerConnection): Session | undefined {
      const key = keyOf(connection);
      if (key === undefined) return undefined;
      const session = kept.get(key);
      kept.delete(key);
      return session;
    },
    async keepOrEnd(connection: ServerConnection, session: Session): Promise<void> {
      const key = keyOf(connection);
      // A server of 2026-07-28 has no session that could be saved.
      if (isOver || key === undefined || session.learned.kind !== 'legacy' || kept.has(key)) await session.close();
      else {
        session.wire.rest();
        // It may be megabytes, for each of the sessions.
        session.transport.answer = undefined;
        kept.set(key, session);
      }
    },
    /** Ends all of them, and from now on each that is handed back. */
    async close(): Promise<void> {
      isOver = true;
      for (const [key, session] of kept.entries()) {
        kept.delete(key);
        end(session);
      }
      await Promise.all(ending);
    },
  };
}

/** True if a call asks nothing of its session that the next call could meet. */
export function sharesSession({ task, people, signal }: ToolCall): boolean {
  return task === undefined && people === undefined && !signal.aborted;
}

function keyOf({ keptFor, accessToken, asks, url, protocol, headers }: ServerConnection): string | undefined {
  if (keptFor === undefined || accessToken !== undefined || asks === true) return undefined;
  return hashOf({ keptFor, url, protocol, headers });
}
