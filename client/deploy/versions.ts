/** Reads what Temporal knows of a deployment: its builds, where new runs go, and how many stay (docs/adr/0083). */
import { isGrpcServiceError } from '@temporalio/client';
import { status as grpcStatus } from '@grpc/grpc-js';
import { tsToMs } from '@temporalio/common/lib/time.js';
import { defined } from '../../contracts/defined.ts';
import { CountersignError } from '../../contracts/errors.ts';
import type { Engine } from '../engine/engine.ts';
import { isPolled, WORKFLOW_TASKS } from '../engine/trouble.ts';

/** In the order of `temporal.api.enums.v1.WorkerDeploymentVersionStatus`; what is not known takes nothing.
 * `ramping` takes a share of new runs; `draining` takes none, and runs stay with it. */
const STATES = ['inactive', 'inactive', 'current', 'ramping', 'draining', 'drained'] as const;

export type DeploymentState = Awaited<ReturnType<typeof readDeployment>>;
export type Build = DeploymentState['builds'][number];

/** @throws CountersignError `DEPLOYMENT_UNKNOWN` */
export async function readDeployment(engine: Engine, deployment: string) {
  const { namespace } = engine;
  const { workerDeploymentInfo: info, conflictToken } = await engine.call('', async () => {
    try {
      const { workflowService } = engine.client.connection;
      return await workflowService.describeWorkerDeployment({ namespace, deploymentName: deployment });
    } catch (error) {
      // A namespace that does not exist is reported with the same status.
      if (!isGrpcServiceError(error) || error.code !== grpcStatus.NOT_FOUND || !/deployment/i.test(error.details))
        throw error;
      const message = `Namespace ${namespace} has no worker deployment ${deployment}. It comes into being with its first worker: set worker.deployment.name to ${deployment} in the configuration of the workers, and start one.`;
      throw new CountersignError('DEPLOYMENT_UNKNOWN', message, { deployment, namespace }, { cause: error });
    }
  });
  const routing = info?.routingConfig;
  const ramping = routing?.rampingDeploymentVersion?.buildId || undefined;
  const builds = (info?.versionSummaries ?? []).map((found) => ({
    build: found.deploymentVersion?.buildId ?? '',
    state: STATES[Number(found.status)] ?? 'inactive',
    createdAt: tsToMs(found.createTime),
    ...defined({
      currentSince: found.currentSinceTime ? tsToMs(found.currentSinceTime) : undefined,
      /** When it last ceased to take new runs. */
      endedAt: found.lastDeactivationTime ? tsToMs(found.lastDeactivationTime) : undefined,
    }),
  }));
  return {
    deployment,
    ...defined({
      /** Absent while new runs go to workers without a version. */
      current: routing?.currentDeploymentVersion?.buildId || undefined,
      ramping: ramping ? { build: ramping, percent: percentOf(routing?.rampingVersionPercentage ?? 0) } : undefined,
    }),
    /** Newest first. */
    builds: builds.toSorted((one, other) => other.createdAt - one.createdAt),
    /** Temporal refuses a change by somebody who has read an older state. */
    token: conflictToken,
  };
}

/** Digits of a 32-bit number that are those that were given. */
const FLOAT_DIGITS = 7;

/** Returns a share as it was given: Temporal keeps 32 bits of it, so that 12.3 would read 12.300000190734863. */
export function percentOf(share: number): number {
  return Number(share.toPrecision(FLOAT_DIGITS));
}

/** @throws CountersignError `BUILD_UNKNOWN` */
export function buildOf({ builds, deployment }: DeploymentState, build: string): Build {
  const found = builds.find((each) => each.build === build);
  if (found !== undefined) return found;
  const known = builds.map((each) => each.build).join(', ');
  const message = `Deployment ${deployment} has no build ${build}; it has ${known}. A build is there once a worker of it polls: start one, and take the build id from its first line.`;
  throw new CountersignError('BUILD_UNKNOWN', message, { deployment, build });
}

/** Finds the open executions that stay with a build; others, such as tickets, go to the current one. */
export function pinnedTo(deployment: string, build: string): string {
  return `ExecutionStatus = 'Running' AND TemporalWorkflowVersioningBehavior = 'Pinned' AND ${versionIs(deployment, build)}`;
}

export function versionIs(deployment: string, build: string): string {
  // Neither name nor build id may hold a quote.
  return `TemporalWorkerDeploymentVersion = '${deployment}:${build}'`;
}

/** Visibility lags behind by moments. */
export async function countPinned(engine: Engine, deployment: string, build: string): Promise<number> {
  return await counted(engine, pinnedTo(deployment, build));
}

export async function counted(engine: Engine, query: string): Promise<number> {
  const { client, namespace } = engine;
  const { count } = await engine.call('', () =>
    client.connection.workflowService.countWorkflowExecutions({ namespace, query }),
  );
  return Number(count.toString());
}

/** Returns a task queue that workers of `like` serve, or did, and no worker of the build does. */
export async function unservedQueue(
  engine: Engine,
  deployment: string,
  build: string,
  like: string,
): Promise<string | undefined> {
  const { client, namespace } = engine;
  const deploymentVersion = { deploymentName: deployment, buildId: like };
  const { versionTaskQueues } = await engine.call('', () =>
    client.connection.workflowService.describeWorkerDeploymentVersion({ namespace, deploymentVersion }),
  );
  for (const { name, type } of versionTaskQueues) {
    if (type !== WORKFLOW_TASKS || !name) continue;
    if (!(await engine.call('', () => isPolled(client, name, build)))) return name;
  }
  return undefined;
}
