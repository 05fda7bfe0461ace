/** A worker that starts before Temporal does waits for it: bounded, said, and only for what passes. */
import { status as grpcStatus } from '@grpc/grpc-js';
import { expect, test } from '@jest/globals';
import { type EngineWait, onceThere } from '../../../workers/connection.ts';
import { CountersignError } from '../../../contracts/errors.ts';

const ADDRESS = 'temporal.example:7233';

function grpcError(code: number): Error {
  return Object.assign(new Error('14 UNAVAILABLE'), { code, details: 'away', metadata: {} });
}

function waiting(over: Partial<EngineWait> = {}) {
  const said: { readonly message: string; readonly secondsLeft: number }[] = [];
  const say: EngineWait['say'] = (message, { secondsLeft }) => void said.push({ message, secondsLeft });
  return { said, wait: { address: ADDRESS, seconds: 60, say, ...over } };
}

test.each([
  ['away', grpcError(grpcStatus.UNAVAILABLE)],
  ['slow', grpcError(grpcStatus.DEADLINE_EXCEEDED)],
  ['away for the native connection', Object.assign(new Error('transport error'), { name: 'TransportError' })],
])(
  'while it is %s it is tried again, and each try is said with the address and the time that is left',
  async (_, error) => {
    const { said, wait } = waiting();
    let tries = 0;
    const start = async () => {
      tries += 1;
      if (tries === 1) throw error;
      return 'there';
    };
    expect(await onceThere(wait, start)).toBe('there');
    expect(said).toHaveLength(1);
    expect(said[0]?.message).toContain(ADDRESS);
    expect(said[0]?.secondsLeft).toBeGreaterThan(0);
  },
);

test('at the end of its time it ends with a code, the address, and what to do', async () => {
  const { said, wait } = waiting({ seconds: 0.001 });
  const start = async () => await Promise.reject(grpcError(grpcStatus.UNAVAILABLE));
  await expect(onceThere(wait, start)).rejects.toMatchObject({
    code: 'ENGINE_UNAVAILABLE',
    message: expect.stringMatching(new RegExp(`${ADDRESS}.*--address`)),
  });
  expect(said.length).toBeLessThanOrEqual(1);
});

test.each([
  ['is not let in', grpcError(grpcStatus.UNAUTHENTICATED)],
  ['finds no setup', new CountersignError('SETUP_INCOMPLETE', 'no')],
  ['fails by itself', new TypeError('no')],
])('a worker that %s is not kept waiting', async (_, error) => {
  const { said, wait } = waiting();
  await expect(onceThere(wait, async () => await Promise.reject(error))).rejects.toBe(error);
  expect(said).toEqual([]);
});

test('whoever asks it to end is not kept waiting either', async () => {
  const stop = new AbortController();
  const { wait } = waiting({ signal: stop.signal, say: () => stop.abort() });
  const error = grpcError(grpcStatus.UNAVAILABLE);
  await expect(onceThere(wait, async () => await Promise.reject(error))).rejects.toBe(error);
});
