/** What of Temporal's errors says that a run asks nobody, and what may pass. */
import { expect, test } from '@jest/globals';
import {
  type Client,
  QueryNotRegisteredError,
  ServiceError,
  WorkflowNotFoundError,
  WorkflowUpdateFailedError,
} from '@temporalio/client';
import { createHeldRun, NotHeld } from '../../../../../activities/gate/legacy-2025/open-question.ts';
import type { HeldQuestions } from '../../../../../contracts/wire/legacy-2025.ts';

const place = { callId: 't1.c0', attempt: 2, round: 3 };
const questions: HeldQuestions = { ...place, requests: {} };
const never = new AbortController().signal;

function runOf(act: () => Promise<unknown>) {
  const said: unknown[] = [];
  const client = {
    connection: {
      withDeadline: async (at: number, each: () => Promise<unknown>) => {
        said.push(at > Date.now());
        return await each();
      },
      withAbortSignal: async (_: AbortSignal, each: () => Promise<unknown>) => await each(),
    },
    workflow: {
      getHandle: (...ids: string[]) => ({
        executeUpdate: async (...what: unknown[]) => {
          said.push(ids, what);
          return await act();
        },
        query: async (...what: unknown[]) => {
          said.push(ids, what);
          return await act();
        },
      }),
    },
  };
  // Sound: it asks the client for nothing else.
  return { held: createHeldRun(client as unknown as Client), said };
}

test('a question goes to one Temporal run, under an id by which it counts once; what became of it is asked of the same run', async () => {
  const { held, said } = runOf(() => Promise.resolve({ kind: 'open' }));
  await held.ask('wf', 'run', questions, never);
  await held.word('wf', 'run', place, never);
  expect(said).toEqual([
    true,
    ['wf', 'run'],
    ['inputAsked', { args: [questions], updateId: 'held/t1.c0/2/3' }],
    true,
    ['wf', 'run'],
    ['heldInput', place],
  ]);
});

test.each<[string, Error]>([
  ['refused by the run, or by a build that knows no such update', new WorkflowUpdateFailedError('no', undefined)],
  ['of a run that is not there', new WorkflowNotFoundError('no', 'wf', 'run')],
  ['of a build that knows no such query', new QueryNotRegisteredError('no', 3)],
])('%s: nobody is asked, now and later', async (_, error) => {
  const { held } = runOf(() => Promise.reject(error));
  await expect(held.ask('wf', 'run', questions, never)).rejects.toThrow(NotHeld);
  await expect(held.word('wf', 'run', place, never)).rejects.toThrow(NotHeld);
});

test('a Temporal that does not answer may answer later', async () => {
  const error = new ServiceError('unavailable');
  const { held } = runOf(() => Promise.reject(error));
  await expect(held.ask('wf', 'run', questions, never)).rejects.toBe(error);
  await expect(held.word('wf', 'run', place, never)).rejects.toBe(error);
});
