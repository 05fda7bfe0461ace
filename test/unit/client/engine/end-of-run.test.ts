/** A wait for a run outlasts its reset, and ends with every other end. */
import { expect, test } from '@jest/globals';
import { WorkflowFailedError, type WorkflowHandle } from '@temporalio/client';
import { TerminatedFailure } from '@temporalio/common';
import { endOf } from '../../../../client/engine/executions.ts';

const terminated = (): Error =>
  new WorkflowFailedError('ended', new TerminatedFailure('reset'), 'NON_RETRYABLE_FAILURE');

/** @param seen the newest execution and its status, each time that it is asked for */
function waitedFor(answers: readonly (string | Error)[], seen: readonly (readonly [string, string])[]) {
  const counted = { waits: 0, looks: 0 };
  const handle = {
    result: async () => {
      const answer = answers[Math.min(counted.waits, answers.length - 1)];
      counted.waits += 1;
      if (answer instanceof Error) throw answer;
      return await Promise.resolve(answer);
    },
    describe: async () => {
      const [runId, name] = seen[Math.min(counted.looks, seen.length - 1)] ?? [];
      counted.looks += 1;
      return await Promise.resolve({ runId, status: { name } });
    },
  };
  // Sound: these are what it asks of a handle.
  return { ended: endOf(handle as unknown as WorkflowHandle), counted };
}

test('a run that was reset, twice, is waited for to its end', async () => {
  const { ended, counted } = waitedFor(
    [terminated(), terminated(), 'done'],
    [
      ['second', 'RUNNING'],
      ['third', 'RUNNING'],
    ],
  );
  expect(await ended).toBe('done');
  expect(counted.waits).toBe(3);
});

test.each([
  ['a run that was terminated has ended', 'TERMINATED', 1],
  ['an execution that calls its failure a termination is not waited for without end', 'FAILED', 2],
])('%s', async (_, status, waits) => {
  const { ended, counted } = waitedFor([terminated()], [['first', status]]);
  await expect(ended).rejects.toThrow('ended');
  expect(counted.waits).toBe(waits);
});
