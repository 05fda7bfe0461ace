/** Makes the egress of tests, whose servers are all on this machine, and watches where it connects. */
import { Socket } from 'node:net';
import { createEgress, type Egress, type EgressOptions, type GuardedFetch } from '../../activities/egress/fetch.ts';

/** The operator's setting for development; everything else is as in production. */
export const LOOPBACK = { allowLoopback: true } as const;

/** Makes an egress to any server of a test. */
export function loopbackEgress(over: Partial<EgressOptions> = {}) {
  return createEgress({
    rules: { allowLoopback: true, allowInsecure: false, allowPrivate: [] },
    origins: { has: () => true },
    ...over,
  });
}

/** Makes an egress that connects to nothing: each request counts as written, and this answers it. */
export function egressBy(answer: GuardedFetch): Egress {
  return {
    address: async (_, hostname) => hostname,
    outlet: ({ onWriting }) => ({
      fetch: async (...asked) => {
        onWriting?.();
        return await answer(...asked);
      },
      isBusy: () => false,
      close: async () => undefined,
    }),
  };
}

/** Records the addresses to which sockets of this process begin to connect. */
export function watchAttempts(): { readonly attempts: readonly string[]; stop(): void } {
  const attempts: string[] = [];
  const connect = Object.getOwnPropertyDescriptor(Socket.prototype, 'connect');
  if (connect === undefined) throw new Error('sockets do not connect any more');
  // Sound: it is the method that was found there.
  const original = connect.value as (this: Socket, ...args: unknown[]) => Socket;
  Object.defineProperty(Socket.prototype, 'connect', {
    ...connect,
    value(this: Socket, ...args: unknown[]) {
      this.on('connectionAttempt', (address: string) => attempts.push(address));
      return original.apply(this, args);
    },
  });
  return { attempts, stop: () => void Object.defineProperty(Socket.prototype, 'connect', connect) };
}
