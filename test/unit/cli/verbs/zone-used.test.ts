/** Which running workflows need a key of the zone, while workflows end. */
import { Metadata, status as grpcStatus } from '@grpc/grpc-js';
import { expect, test } from '@jest/globals';
import { ServiceError } from '@temporalio/client';
import { defaultDataConverter } from '@temporalio/common';
import { msToTs } from '@temporalio/common/lib/time.js';
import { usersOf } from '../../../../cli/verbs/keys.ts';
import { RUN_WORKFLOW } from '../../../../contracts/names.ts';
import { KEY_FIELD } from '../../../../contracts/zone.ts';
import { fakeClient } from '../../../support/servers/fake-client.ts';

/** The input of a workflow, proven with this key. */
function startedBy(key: string) {
  const metadata = { encoding: Buffer.from('json/plain'), [KEY_FIELD]: Buffer.from(key) };
  const payloads = [{ metadata, data: Buffer.from('{}') }];
  return { events: [{ workflowExecutionStartedEventAttributes: { input: { payloads } } }] };
}

/** Temporal's answer, as its client tells it. */
function refusal(code: number): ServiceError {
  const cause = Object.assign(new Error('refused'), { code, details: '', metadata: new Metadata() });
  return new ServiceError('refused', { cause });
}

/** A Temporal that lists these as running, and has their histories or none. */
function sessionOver(workflows: Readonly<Record<string, object | Error>>) {
  const executions = Object.keys(workflows).map((workflowId) => ({
    execution: { workflowId, runId: 'r' },
    type: { name: RUN_WORKFLOW },
    status: 1,
    startTime: msToTs(0),
    executionTime: msToTs(0),
    historyLength: msToTs(3_000).seconds,
    taskQueue: 'runs',
  }));
  const listWorkflowExecutions = async () => await Promise.resolve({ executions, nextPageToken: new Uint8Array() });
  const getHandle = (workflowId: string) => ({
    fetchHistory: async () => {
      const found = workflows[workflowId];
      return await (found instanceof Error ? Promise.reject(found) : Promise.resolve(found));
    },
  });
  const options = { identity: 'ann', loadedDataConverter: defaultDataConverter };
  const connection = { workflowService: { listWorkflowExecutions } };
  const client = fakeClient({ connection, workflow: { getHandle }, options });
  return { client, deadlineMs: 1_000 };
}

test('a workflow that is gone by the time its history is read needs no key, and the others are looked at', async () => {
  const session = sessionOver({
    other: startedBy('zone-2026'),
    gone: refusal(grpcStatus.NOT_FOUND),
    user: startedBy('zone-2025'),
  });
  expect(await usersOf('zone-2025', session)).toEqual({ looked: 2, users: ['user'], unread: [] });
});

test('a history that Temporal refuses ends the search: nobody is told that the key may go', async () => {
  const session = sessionOver({ refused: refusal(grpcStatus.PERMISSION_DENIED) });
  await expect(usersOf('zone-2025', session)).rejects.toMatchObject({ cause: { code: grpcStatus.PERMISSION_DENIED } });
});
