/** Activities within a stretch see Temporal's facts, and a cancellation and heartbeats of their own. */
import { getEventListeners } from 'node:events';
import { cancelled, cancellationDetails, cancellationSignal, Context, heartbeat } from '@temporalio/activity';
import { ActivityCancellationDetails, CancelledFailure } from '@temporalio/common';
import { expect, test } from '@jest/globals';
import { inside } from '../../../../activities/stretch/lifeline.ts';
import { environmentOfRun } from '../../../support/activities/tool-activities.ts';

/** Runs an activity within another one, whose signal is the test's. */
async function insideOf<T>(activity: () => Promise<T>, signal = new AbortController().signal): Promise<T> {
  const environment = environmentOfRun();
  const outer = async (): Promise<T> => await inside(Context.current(), signal, activity);
  return await environment.run<[], T, typeof outer>(outer);
}

test('it sees the same facts, and returns what it returns', async () => {
  const environment = environmentOfRun({ attempt: 3 });
  const outer = async (): Promise<boolean> => {
    const { info } = Context.current();
    const { signal } = new AbortController();
    return await inside(Context.current(), signal, async () => await Promise.resolve(Context.current().info === info));
  };
  expect(await environment.run<[], boolean, typeof outer>(outer)).toBe(true);
  await expect(insideOf(async () => await Promise.reject(new Error('its own')))).rejects.toThrow('its own');
});

test('its heartbeats go nowhere', async () => {
  const beats: unknown[] = [];
  const environment = environmentOfRun();
  environment.on('heartbeat', (details: unknown) => beats.push(details));
  const outer = async (): Promise<void> => {
    await inside(Context.current(), new AbortController().signal, async () => {
      heartbeat('inner');
      await Promise.resolve();
    });
    heartbeat('outer');
  };
  await environment.run<[], void, typeof outer>(outer);
  expect(beats).toEqual(['outer']);
});

test('its heartbeats are heard by whoever runs it', async () => {
  const environment = environmentOfRun();
  const heard: unknown[] = [];
  const outer = async (): Promise<void> =>
    await inside(
      Context.current(),
      new AbortController().signal,
      async () => {
        heartbeat({ progress: 1 });
        await Promise.resolve();
      },
      (details) => void heard.push(details),
    );
  await environment.run<[], void, typeof outer>(outer);
  expect(heard).toEqual([{ progress: 1 }]);
});

test('it leaves nothing at a signal that outlives it', async () => {
  const { signal } = new AbortController();
  await insideOf(async () => {
    expect(getEventListeners(signal, 'abort')).toHaveLength(1);
    await Promise.resolve();
  }, signal);
  expect(getEventListeners(signal, 'abort')).toEqual([]);
});

test('many share a signal side by side, and Node takes that for no leak', async () => {
  const { signal } = new AbortController();
  const limit = () =>
    Object.getOwnPropertySymbols(signal).find(({ description }) => description === 'events.maxEventTargetListeners');
  await insideOf(async () => await Promise.resolve(), signal);
  // Without a limit no number of listeners draws a warning. `getMaxListeners` takes no signal of Jest's realm.
  expect(Reflect.get(signal, limit() ?? '')).toBe(0);
});

test('it is cancelled by its own signal, with the reason of that', async () => {
  const controller = new AbortController();
  const reason = new CancelledFailure('no longer wanted');
  const ending = insideOf(async () => {
    const ended = cancelled();
    controller.abort(reason);
    expect(cancellationSignal().aborted).toBe(true);
    return await ended;
  }, controller.signal);
  await expect(ending).rejects.toBe(reason);
});

test('a reason that is no error becomes a cancellation', async () => {
  const controller = new AbortController();
  const ending = insideOf(async () => {
    const ended = cancelled();
    controller.abort('enough');
    return await ended;
  }, controller.signal);
  await expect(ending).rejects.toBeInstanceOf(CancelledFailure);
});

test('a signal that came before it counts, too', async () => {
  const reason = new CancelledFailure('no longer wanted');
  const ending = insideOf(async () => {
    await cancelled();
  }, AbortSignal.abort(reason));
  await expect(ending).rejects.toBe(reason);
});

test('a cancellation of the outer one does not cancel it, and it learns why that came', async () => {
  const environment = environmentOfRun();
  const outer = async (): Promise<unknown> =>
    await inside(Context.current(), new AbortController().signal, async () => {
      expect(cancellationDetails()).toBeUndefined();
      environment.cancel('WORKER_SHUTDOWN', new ActivityCancellationDetails({ workerShutdown: true }));
      expect(cancellationSignal().aborted).toBe(false);
      return await Promise.resolve(cancellationDetails());
    });
  expect(await environment.run<[], unknown, typeof outer>(outer)).toMatchObject({ workerShutdown: true });
});
