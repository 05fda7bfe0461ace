/** The id of a catalog, or of a workflow of one's own, in the place of a run's: that is no fault of the service. */
import { expect, test } from '@jest/globals';
import { QueryNotRegisteredError, WorkflowFailedError, WorkflowUpdateFailedError } from '@temporalio/client';
import { ApplicationFailure, WorkflowNotFoundError } from '@temporalio/common';
import { failureOf } from '../../../../contracts/failure.ts';
import { Countersign, type Signer } from '../../../../client/index.ts';
import { troubleOf } from '../../../../client/engine/trouble.ts';
import { fakeClient } from '../../../support/servers/fake-client.ts';

const ANSWERS = [
  [
    'a query',
    new QueryNotRegisteredError('Workflow did not register a handler for state. Registered queries: [snapshot]', 3),
  ],
  [
    'an update',
    new WorkflowUpdateFailedError(
      'Workflow Update failed',
      ApplicationFailure.nonRetryable('No registered handler for update: say'),
    ),
  ],
] as const;

test.each(ANSWERS)('%s that a workflow does not know is told as no run, with the command for catalogs', (_, answer) => {
  const error = troubleOf(answer, 'catalog/acme/files');
  expect(error).toMatchObject({ code: 'RUN_NOT_FOUND', facts: { runId: 'catalog/acme/files' } });
  expect(error.message).toBe(
    'Workflow catalog/acme/files is no run; nothing was changed. Catalogs have such ids: countersign catalog show SERVER --tenant TENANT, and countersign ledger catalog/acme/files.',
  );
  expect(troubleOf(answer, 'nightly').message).toBe(
    'Workflow nightly is no run, or its worker is older than this client; nothing was changed. countersign requests lists the runs that wait.',
  );
});

test('so is a catalog that is none', () => {
  expect(troubleOf(ANSWERS[0][1], { tenant: 'acme', server: 'files' })).toMatchObject({
    code: 'CATALOG_NOT_FOUND',
    message: 'Workflow catalog/acme/files is no catalog. Look at it in Temporal UI; nothing was changed.',
  });
});

test('another failure of a query or an update is told as it is', () => {
  const failed = new WorkflowUpdateFailedError('Workflow Update failed', ApplicationFailure.nonRetryable('no'));
  expect(troubleOf(failed, 'nightly').code).toBe('INTERNAL');
  expect(troubleOf(new QueryNotRegisteredError('no', 3), 'nightly').code).toBe('INTERNAL');
});

test('what the workers have no key for is told with what its sender can do', () => {
  const coded = (code: 'SPEC_INVALID' | 'DECISION_INVALID') =>
    failureOf(code, 'It is encrypted, and encryption.keys does not have its key. Nothing was done.', {});
  const update = new WorkflowUpdateFailedError('Workflow Update failed', coded('DECISION_INVALID'));
  expect(troubleOf(update, 'nightly')).toMatchObject({
    code: 'DECISION_INVALID',
    message: expect.stringMatching(
      /done\. Give this client and all workers the same encryption\.keys, and send it again\.$/,
    ),
  });
  const query = new QueryNotRegisteredError(
    'What is asked about is encrypted, and encryption.keys does not have its key.',
    3,
  );
  expect(troubleOf(query, { tenant: 'acme', server: 'files' })).toMatchObject({
    code: 'CONFIG_INVALID',
    facts: { path: 'encryption.keys' },
  });
  const run = new WorkflowFailedError('Workflow execution failed', coded('SPEC_INVALID'), 'NON_RETRYABLE_FAILURE');
  expect(troubleOf(run, 'nightly')).toMatchObject({
    code: 'SPEC_INVALID',
    message: expect.stringMatching(/the same encryption\.keys, and start it under another id\.$/),
  });
  expect(troubleOf(run, { tenant: 'acme', server: 'files' }).message).toMatch(/, and connect it again\.$/);
});

test('where workers lack the keys of one another, the client is not told to change its own', () => {
  const says = 'It is encrypted, and encryption.keys does not have its key. All workers need the same encryption.keys.';
  const ended = failureOf('INTERNAL', says, {});
  const run = new WorkflowFailedError('Workflow execution failed', ended, 'NON_RETRYABLE_FAILURE');
  expect(troubleOf(run, 'nightly').message).toBe(says);
});

test.each([
  ['without a signer', {}],
  // Sound: it is not asked, since the catalog has ended before.
  ['with a signer', { signer: { sign: async () => '' } as unknown as Signer }],
])('a catalog that could not read what it was started with says why it is none, %s', async (_name, options) => {
  const update = ANSWERS[1][1];
  const why = failureOf('CATALOG_INVALID', 'What the catalog was started with is no JSON.', {});
  const handle = {
    describe: async () =>
      await Promise.reject(new WorkflowNotFoundError('There is none.', 'catalog/acme/files', undefined)),
    result: async () => await Promise.reject(new WorkflowFailedError('It failed.', why, 'NON_RETRYABLE_FAILURE')),
  };
  const client = fakeClient({
    workflow: { getHandle: () => handle, executeUpdateWithStart: async () => await Promise.reject(update) },
  });
  const connected = new Countersign({ client, ...options })
    .catalog('files', 'acme')
    .connect({ by: { id: 'ann' }, url: 'https://files.example.com/mcp' });
  await expect(connected).rejects.toMatchObject({ code: 'CATALOG_INVALID', message: why.message });
});
