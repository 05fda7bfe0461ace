/** An execution that takes no more updates is not stuck: it continues as new, and the next one takes the message. */
import { expect, jest, test } from '@jest/globals';
import { ServiceError } from '@temporalio/client';
import { Engine } from '../../../../client/engine/engine.ts';
import { fakeClient } from '../../../support/servers/fake-client.ts';

const FAILED_PRECONDITION = 9;

/** As Temporal server 1.29.1 says it (service/history/workflow/update). */
function full(): Error {
  const details =
    'The limit on the total number of distinct updates in this workflow has been reached (2000). Make sure any duplicate updates share an Update ID so the server can deduplicate them.';
  const cause = Object.assign(new Error(details), { code: FAILED_PRECONDITION, details, metadata: {} });
  return new ServiceError('Workflow Update failed', { cause });
}

function engine(deadlineMs?: number): Engine {
  return new Engine(fakeClient(), deadlineMs);
}

test('its messages wait for the next one', async () => {
  jest.useFakeTimers({ advanceTimers: true });
  try {
    let sent = 0;
    const answer = engine().update('run', 'say/1', async () => {
      sent += 1;
      if (sent < 3) throw full();
      return 'heard';
    });
    await jest.advanceTimersByTimeAsync(2_000);
    expect(await answer).toBe('heard');
    expect(sent).toBe(3);
  } finally {
    jest.useRealTimers();
  }
});

test('where it does not come in time, nobody is told to recover the run', async () => {
  const failed = engine(1).update('run', 'say/1', async () => await Promise.reject(full()));
  await expect(failed).rejects.toMatchObject({
    code: 'ENGINE_UNAVAILABLE',
    traits: { retryable: true },
    message: expect.stringMatching(/^Run run takes no more messages before it continues as new.*same id\.$/),
  });
});
