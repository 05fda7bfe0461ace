/**
 * A worker that has stood still can finish a workflow task without the update that came with it. Temporal then rejects
 * the update and records nothing, so the engine sends the message again (INV-D3).
 */
import { expect, test } from '@jest/globals';
import { WorkflowUpdateFailedError } from '@temporalio/client';
import { ApplicationFailure } from '@temporalio/common';
import { Engine } from '../../../../client/engine/engine.ts';
import { CountersignError } from '../../../../contracts/errors.ts';
import { fakeClient } from '../../../support/servers/fake-client.ts';

/** As Temporal server 1.29.1 says it (service/history/workflow/update). */
function unprocessed(): Error {
  const message = "Workflow Update is rejected because it wasn't processed by worker.";
  const cause = ApplicationFailure.nonRetryable(message, 'UnprocessedUpdate');
  return new WorkflowUpdateFailedError('Workflow Update failed', cause);
}

const engine = new Engine(fakeClient());

test('an update that no worker processed is sent again', async () => {
  let sent = 0;
  const answer = await engine.update('run', 'decide/1', async () => {
    sent += 1;
    if (sent === 1) throw unprocessed();
    return 'counted';
  });
  expect(answer).toBe('counted');
  expect(sent).toBe(2);
});

test('where that happens again, whoever sent it is told to send it again', async () => {
  const failed = engine.update('run', 'decide/1', async () => {
    throw unprocessed();
  });
  const error = await failed.catch((thrown: unknown) => thrown);
  expect(error).toBeInstanceOf(CountersignError);
  expect(error).toMatchObject({
    code: 'ENGINE_UNAVAILABLE',
    traits: { retryable: true },
    message: expect.stringMatching(/^A worker finished .* run run; nothing of it was recorded\. Send it again/),
  });
});

test('another failure of an update is not taken for it', async () => {
  let sent = 0;
  const failed = engine.update('run', 'decide/1', async () => {
    sent += 1;
    throw new WorkflowUpdateFailedError('Workflow Update failed', ApplicationFailure.nonRetryable('no', 'Other'));
  });
  await expect(failed).rejects.toMatchObject({ code: 'INTERNAL' });
  expect(sent).toBe(1);
});
