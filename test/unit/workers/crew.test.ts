/** One worker of a process fails: the calls of the others are not dropped, and the reason is not lost (INV-X1). */
import { expect, test } from '@jest/globals';
import { IllegalStateError } from '@temporalio/common';
import { runCrew, shutDown } from '../../../workers/worker.ts';

/** A worker as the SDK makes them: asked to shut down, it ends when the call that it holds is done. */
class Hand {
  state: 'RUNNING' | 'DRAINING' | 'STOPPED' | 'FAILED' = 'RUNNING';
  /** Settles when it is asked to shut down. */
  readonly asked: Promise<void>;
  readonly #ended: Promise<void>;
  #ask = (): void => undefined;
  #end = (): void => undefined;
  #fail: (error: Error) => void = () => undefined;

  constructor() {
    this.asked = new Promise((resolve) => (this.#ask = resolve));
    this.#ended = new Promise((resolve, reject) => {
      this.#end = resolve;
      this.#fail = reject;
    });
  }
  run(): Promise<void> {
    return this.#ended;
  }
  getState() {
    return this.state;
  }
  shutdown(): void {
    if (this.state !== 'RUNNING') throw new IllegalStateError(`Not running. Current state: ${this.state}`);
    this.state = 'DRAINING';
    this.#ask();
  }
  finishCall(): void {
    this.state = 'STOPPED';
    this.#end();
  }
  fail(error: Error, state: 'FAILED' | 'STOPPED' = 'FAILED'): void {
    this.state = state;
    this.#fail(error);
  }
}

/** A connection as the SDK makes them: it does not close under a worker. */
function connectionOf(workers: readonly Hand[]) {
  const connection = {
    isClosed: false,
    close: async () => {
      if (workers.some(({ state }) => state === 'RUNNING' || state === 'DRAINING'))
        throw new IllegalStateError('Cannot close connection while Workers hold a reference to it');
      connection.isClosed = true;
    },
  };
  return connection;
}

test('the others are shut down, finish the calls they hold, and only then is the connection closed; the first error is the answer', async () => {
  const [bad, busy] = [new Hand(), new Hand()];
  const connection = connectionOf([bad, busy]);
  const crew = runCrew([bad, busy], [connection]);
  let answered = false;
  const settled = crew.then(
    () => 'well',
    (error: unknown) => {
      answered = true;
      return error;
    },
  );
  const reason = new Error('the queue is gone');
  bad.fail(reason);
  await busy.asked;
  expect([answered, connection.isClosed]).toEqual([false, false]);
  busy.finishCall();
  expect(await settled).toBe(reason);
  expect(connection.isClosed).toBe(true);
});

test('a second failure, and a connection that does not close, do not take the place of the first', async () => {
  const [bad, worse] = [new Hand(), new Hand()];
  const stubborn = {
    close: async () => {
      throw new Error('it does not close');
    },
  };
  const crew = runCrew([bad, worse], [stubborn]);
  const first = new Error('first');
  bad.fail(first);
  worse.fail(new Error('second'));
  await expect(crew).rejects.toBe(first);
});

test('asked to end, all end, and nothing is an error', async () => {
  const workers = [new Hand(), new Hand()];
  const connection = connectionOf(workers);
  const crew = runCrew(workers, [connection]);
  shutDown(workers);
  shutDown(workers);
  for (const worker of workers) worker.finishCall();
  await crew;
  expect(connection.isClosed).toBe(true);
});

test('a native worker that is handed back late is no failure of one that stopped, and does not hide that one failed', async () => {
  const late = () => new IllegalStateError('Cannot finalize, expected exclusive reference: it is still in use');
  const stopped = new Hand();
  const well = runCrew([stopped], []);
  stopped.fail(late(), 'STOPPED');
  await well;
  const failed = new Hand();
  const badly = runCrew([failed], []);
  failed.fail(late());
  await expect(badly).rejects.toThrow('still in use');
});
