/** What Temporal tells of a deployment, in our words; and what it does not know. */
import { Metadata, status as grpcStatus } from '@grpc/grpc-js';
import { expect, test } from '@jest/globals';
import { msToTs } from '@temporalio/common/lib/time.js';
import { readDeployment } from '../../../../client/deploy/versions.ts';
import { Engine } from '../../../../client/engine/engine.ts';
import { fakeClient } from '../../../support/servers/fake-client.ts';
import { codeOf } from '../../../support/world/run-record.ts';

function engineOf(describeWorkerDeployment: () => Promise<unknown>): Engine {
  return new Engine(fakeClient({ connection: { workflowService: { describeWorkerDeployment } } }));
}

test('each status of a build has its word, one that is not known takes nothing, and the newest build is first', async () => {
  const versionSummaries = [...[0, 1, 2, 3, 4, 5, 6].keys()].map((status) => ({
    deploymentVersion: { buildId: `build-${status}` },
    status,
    createTime: msToTs(1_000 + status),
  }));
  const info = { workerDeploymentInfo: { versionSummaries, routingConfig: {} }, conflictToken: new Uint8Array() };
  const { builds, current, ramping } = await readDeployment(
    engineOf(async () => await Promise.resolve(info)),
    'agents',
  );
  expect(builds.map(({ build, state }) => `${build} ${state}`)).toEqual([
    'build-6 inactive',
    'build-5 drained',
    'build-4 draining',
    'build-3 ramping',
    'build-2 current',
    'build-1 inactive',
    'build-0 inactive',
  ]);
  expect([current, ramping]).toEqual([undefined, undefined]);
});

test.each([
  ['a deployment that is not there', 'Worker Deployment not found', 'DEPLOYMENT_UNKNOWN'],
  ['a namespace that is not there', 'Namespace default is not found.', 'SETUP_INCOMPLETE'],
])('%s', async (_, details, code) => {
  const error = Object.assign(new Error(details), { code: grpcStatus.NOT_FOUND, details, metadata: new Metadata() });
  const reading = readDeployment(
    engineOf(async () => await Promise.reject(error)),
    'agents',
  );
  expect(await codeOf(reading)).toBe(code);
});
