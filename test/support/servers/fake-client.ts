import type { Client } from '@temporalio/client';

interface Stated {
  readonly connection?: object;
  readonly options?: object;
  readonly workflow?: object;
  readonly workflowService?: object;
}

/**
 * Makes a client of a Temporal of which a test says all that is used.
 * @param deadlines gets the deadline of each call
 */
export function fakeClient({ connection, options, ...rest }: Stated = {}, deadlines: number[] = []): Client {
  const calls = {
    withDeadline: async (at: number, act: () => Promise<unknown>) => {
      deadlines.push(at);
      return await act();
    },
    withAbortSignal: async (_signal: AbortSignal, act: () => Promise<unknown>) => await act(),
    ...connection,
  };
  // Sound: what else is used of it fails the test.
  return { ...rest, connection: calls, options: { namespace: 'default', ...options } } as unknown as Client;
}
