/** What of an artifact store a namespace needs: too much rather than too little, and all of it or an error (INV-D3). */
import { expect, test } from '@jest/globals';
import type { Client } from '@temporalio/client';
import { hashesIn, referencedArtifacts } from '../../../../client/artifacts/sweep.ts';
import { Config } from '../../../../contracts/schemas/config.ts';
import { createDataConverter } from '../../../../workers/codec.ts';
import { fakeClient } from '../../../support/servers/fake-client.ts';

const bytes = (text: string): Uint8Array => new TextEncoder().encode(text);
const hash = (digit: string): string => digit.repeat(64);
const payload = (value: unknown, encoding = 'json/plain') => ({
  metadata: { encoding: bytes(encoding) },
  data: bytes(JSON.stringify(value)),
});
const KEYS = { keys: [{ id: 'k', key: Buffer.alloc(32, 7).toString('base64') }] };
const CODECS = createDataConverter(Config.parse({ encryption: KEYS })).payloadCodecs ?? [];

/** A namespace with one run, of which only what is asked here is there. */
function namespace(fetchHistory: () => Promise<unknown>, payloadCodecs: unknown = []): Client {
  const listed = {
    execution: { workflowId: 'run-1', runId: 'r' },
    type: { name: 'agentRun' },
    status: 1,
    historyLength: { toNumber: () => 3 },
    startTime: { nanos: 0 },
    // Of a run that somebody else has started: it ends no list.
    memo: { fields: { anything: payload('x', 'binary/encrypted') } },
  };
  const listWorkflowExecutions = async () => ({ executions: [listed], nextPageToken: [] });
  return fakeClient({
    connection: { workflowService: { listWorkflowExecutions } },
    options: { loadedDataConverter: { payloadCodecs } },
    workflow: { getHandle: () => ({ fetchHistory }) },
  });
}

test('hashes are found wherever they stand in bytes, and longer ones are none', () => {
  const text = `{"sha256":"${hash('a')}","b":"x${hash('b')}y"}\u0000${hash('c')}${hash('d')} ${hash('E')}`;
  expect(hashesIn(bytes(text))).toEqual([hash('a'), hash('b')]);
  // A view of a larger buffer is read where it stands.
  expect(hashesIn(bytes(`--${hash('a')}`).subarray(2))).toEqual([hash('a')]);
  expect(hashesIn(bytes(hash('a')).subarray(1))).toEqual([]);
});

test('every payload of a history counts: inputs, results, failures, memos, messages', async () => {
  const events = [
    {
      workflowExecutionStartedEventAttributes: {
        input: { payloads: [payload({ ref: hash('1') })] },
        memo: { fields: { m: payload(hash('2')) } },
      },
    },
    {
      activityTaskCompletedEventAttributes: {
        result: { payloads: [payload([hash('3')]), { metadata: { encoding: bytes('binary/null') }, data: [] }] },
      },
    },
    {
      activityTaskFailedEventAttributes: {
        failure: {
          encodedAttributes: payload(hash('4')),
          cause: { applicationFailureInfo: { details: { payloads: [payload(hash('5'))] } } },
        },
      },
    },
    {
      workflowExecutionUpdateAcceptedEventAttributes: {
        acceptedRequest: { input: { args: { payloads: [payload(hash('6'))] } } },
      },
    },
    null,
  ];
  expect([...(await referencedArtifacts(namespace(async () => ({ events }))))].toSorted()).toEqual(
    ['1', '2', '3', '4', '5', '6'].map(hash),
  );
});

test('what is encrypted is read with its key, and without it nothing is said to be known', async () => {
  const [codec] = CODECS;
  if (codec === undefined) throw new Error('no codec');
  const payloads = await codec.encode([payload({ ref: hash('a') })]);
  const history = async () => ({ events: [{ workflowExecutionSignaledEventAttributes: { input: { payloads } } }] });
  expect([...(await referencedArtifacts(namespace(history, CODECS)))]).toEqual([hash('a')]);
  await expect(referencedArtifacts(namespace(history))).rejects.toMatchObject({
    code: 'CONFIG_INVALID',
    facts: { path: 'encryption.keys' },
  });
});

test('a history that is gone meanwhile needs nothing; one that cannot be read fails the whole', async () => {
  const gone = Object.assign(new Error('gone'), { cause: Object.assign(new Error('5 NOT_FOUND'), { code: 5 }) });
  expect([...(await referencedArtifacts(namespace(() => Promise.reject(gone))))]).toEqual([]);
  const away = Object.assign(new Error('14 UNAVAILABLE'), { code: 14 });
  await expect(referencedArtifacts(namespace(() => Promise.reject(away)))).rejects.toThrow('UNAVAILABLE');
});
