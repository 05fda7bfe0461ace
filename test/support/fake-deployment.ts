/**
 * A worker deployment as Temporal keeps it, as far as `Deployment` looks at it: builds, workers and executions. It
 * stands where the client's connection does, so what is tested is all but the wire.
 */
import { Metadata, status as grpcStatus } from '@grpc/grpc-js';
import { type Client, ServiceError } from '@temporalio/client';
import { defaultDataConverter } from '@temporalio/common';
import { msToTs } from '@temporalio/common/lib/time.js';
import { Deployment } from '../../client/index.ts';
import { defined } from '../../contracts/defined.ts';
import { RUN_WORKFLOW } from '../../contracts/names.ts';

export const NAME = 'agents';
const TASK_QUEUE = 'runs';
const MINUTE_MS = 60_000;
/** `temporal.api.enums.v1.VersioningBehavior`. */
const PINNED = 1;
const AUTO_UPGRADE = 2;

export interface FakeRun {
  /** Executions that continue-as-new linked. */
  executions: number;
  /** The build that did the last workflow task. */
  build: string | undefined;
  type: string;
  /** The build that an override names. */
  movedTo?: string | undefined;
  /** True from the start of an execution on whichever build is current until its first workflow task. */
  upgrades?: boolean;
  /** Attempts of the workflow task that is to be done. */
  attempt?: number;
  /** The build to which that task was handed, before the run has worked there. */
  goingTo?: string;
}

interface FakeBuild {
  readonly createdAt: number;
  currentSince?: number;
  endedAt?: number;
}

interface Execution {
  readonly workflowId: string;
  readonly runId: string;
}
interface Version {
  readonly buildId: string;
}
interface Change extends Version {
  readonly conflictToken: Uint8Array;
}
interface Asking {
  readonly query: string;
}
interface OptionsRequest {
  readonly workflowExecution: Execution;
  readonly workflowExecutionOptions: {
    readonly versioningOverride?: { readonly pinned: { readonly version: Version } };
  };
}

/** What visibility shows of an execution. */
interface Shown {
  readonly runId: string;
  readonly type: string;
  readonly build: string | undefined;
}

export class FakeDeployment {
  /** Build id → the build; older ones first. */
  readonly builds = new Map<string, FakeBuild>();
  readonly runs = new Map<string, FakeRun>();
  /** Runs that have ended, in order; without a time since somebody looks. */
  readonly ended: { readonly build: string; readonly isFailed: boolean; readonly type?: string; at?: number }[] = [];
  readonly polling = new Set<string>();
  /** Every change that was asked for, in order. */
  readonly changes: string[] = [];
  current: string | undefined;
  ramping: { readonly build: string; readonly percent: number } | undefined;
  /** What follows from a nudge; by default nothing yet. */
  onNudge: (workflowId: string, run: FakeRun) => void = () => undefined;
  /** Called before an override is set or taken away. */
  onOverride: (workflowId: string) => void = () => undefined;
  /** Called each time somebody reads the deployment. */
  onRead: () => void = () => undefined;
  /** Called each time somebody looks at one execution. */
  onLook: (workflowId: string, run: FakeRun | undefined) => void = () => undefined;
  /** How many readings visibility lags behind. */
  lag = 0;
  #now = 1_000_000_000;
  #version = 0;
  readonly #shown: ReadonlyMap<string, Shown>[] = [];

  /** @param builds older ones first; each has workers, and was current in its turn */
  constructor(...builds: readonly string[]) {
    for (const build of builds) {
      this.addBuild(build);
      this.makeCurrent(build);
    }
  }

  get deployment(): Deployment {
    return new Deployment({ client: this.#client(), name: NAME });
  }

  addBuild(build: string): void {
    this.builds.set(build, { createdAt: this.#later() });
    this.polling.add(build);
  }

  addRuns(build: string, count: number, more: Partial<FakeRun> = {}): void {
    for (let added = 0; added < count; added += 1)
      this.runs.set(`run-${this.runs.size}`, { executions: 1, build, type: RUN_WORKFLOW, ...more });
  }

  makeCurrent(build: string): void {
    this.#version += 1;
    const now = this.#later();
    const before = this.current === undefined ? undefined : this.builds.get(this.current);
    if (before !== undefined) before.endedAt = now;
    const next = this.builds.get(build);
    if (next !== undefined) next.currentSince = now;
    this.current = build;
    if (this.ramping?.build === build) this.ramping = undefined;
  }

  setRamp(ramping: { readonly build: string; readonly percent: number } | undefined): void {
    this.#version += 1;
    const left = this.ramping === undefined ? undefined : this.builds.get(this.ramping.build);
    if (left !== undefined && this.ramping?.build !== ramping?.build) left.endedAt = this.#later();
    this.ramping = ramping;
  }

  /** Open runs that are with a build by now, whatever visibility says. */
  pinnedTo(build: string): readonly string[] {
    return [...this.runs].filter(([, run]) => withBuild(run) === build).map(([workflowId]) => workflowId);
  }

  /** Runs with an override. */
  get overridden(): readonly string[] {
    return [...this.runs].filter(([, { movedTo }]) => movedTo !== undefined).map(([workflowId]) => workflowId);
  }

  #later(): number {
    this.#now += MINUTE_MS;
    return this.#now;
  }

  #client(): Client {
    const workflowService = {
      describeWorkerDeployment: async () => this.#described(),
      describeWorkerDeploymentVersion: async () => ({ versionTaskQueues: [{ name: TASK_QUEUE, type: 1 }] }),
      describeTaskQueue: async () => ({
        pollers: [...this.polling].map((buildId) => ({ deploymentOptions: { buildId } })),
      }),
      setWorkerDeploymentCurrentVersion: async ({ buildId, conflictToken }: Change) => {
        this.#assertToken(conflictToken);
        this.changes.push(`current ${buildId}`);
        this.makeCurrent(buildId);
      },
      setWorkerDeploymentRampingVersion: async ({
        buildId,
        conflictToken,
        percentage,
      }: Change & { percentage: number }) => {
        this.#assertToken(conflictToken);
        this.changes.push(`ramp ${buildId} ${percentage}`);
        this.setRamp(buildId === '' ? undefined : { build: buildId, percent: percentage });
      },
      countWorkflowExecutions: async ({ query }: Asking) => ({ count: this.#count(query) }),
      listWorkflowExecutions: async ({ query }: Asking) => ({
        executions: query.startsWith("ExecutionStatus != 'Running'")
          ? this.#endedBefore(query)
          : this.#found(query).map(([workflowId, shown]) => this.#listed(workflowId, shown)),
        nextPageToken: new Uint8Array(),
      }),
      describeWorkflowExecution: async ({ execution: { workflowId } }: { readonly execution: Execution }) => {
        this.onLook(workflowId, this.runs.get(workflowId));
        const run = this.runs.get(workflowId);
        return { workflowExecutionInfo: infoOf(workflowId, run), ...taskOf(run) };
      },
      updateWorkflowExecutionOptions: async ({ workflowExecution, workflowExecutionOptions }: OptionsRequest) => {
        const { workflowId } = workflowExecution;
        this.onOverride(workflowId);
        const movedTo = workflowExecutionOptions.versioningOverride?.pinned.version.buildId;
        this.#run(workflowId).movedTo = movedTo;
        this.changes.push(movedTo === undefined ? `withdraw ${workflowId}` : `move ${workflowId} ${movedTo}`);
      },
    };
    const connection = {
      workflowService,
      withDeadline: async (_deadline: number, act: () => Promise<unknown>) => await act(),
      withMetadata: async (_metadata: object, act: () => Promise<unknown>) => await act(),
    };
    const getHandle = (workflowId: string) => ({
      signal: async () => {
        const run = this.#run(workflowId);
        this.changes.push(`nudge ${workflowId}`);
        this.onNudge(workflowId, run);
      },
    });
    const options = { namespace: 'default', identity: 'operator', loadedDataConverter: defaultDataConverter };
    // Sound: a deployment asks nothing else of its client.
    return { connection, options, workflow: { getHandle } } as unknown as Client;
  }

  #assertToken(given: Uint8Array): void {
    if (given[0] !== this.#version) throw refusal(grpcStatus.FAILED_PRECONDITION, 'conflict token mismatch');
  }

  #run(workflowId: string): FakeRun {
    const found = this.runs.get(workflowId);
    if (found === undefined)
      throw new ServiceError('gone', { cause: refusal(grpcStatus.NOT_FOUND, 'workflow execution already completed') });
    return found;
  }

  #found(query: string): readonly (readonly [string, Shown])[] {
    this.#shown.push(
      new Map(
        [...this.runs].map(([workflowId, run]) => {
          const runId = runIdOf(workflowId, run);
          return [workflowId, { runId, type: run.type, build: withBuild(run) }] as const;
        }),
      ),
    );
    const seen = this.#shown[Math.max(0, this.#shown.length - 1 - this.lag)] ?? new Map<string, Shown>();
    const build = buildIn(query);
    const types = /WorkflowType IN \(([^)]*)\)/.exec(query)?.[1];
    return [...seen].filter(
      ([, shown]) => shown.build === build && (types === undefined || types.includes(`'${shown.type}'`)),
    );
  }

  #count(query: string): number {
    if (query.includes("ExecutionStatus = 'Running'")) return this.#found(query).length;
    const since = Date.parse(/CloseTime >= '([^']*)'/.exec(query)?.[1] ?? '');
    const ended = this.ended.filter(
      ({ build, type, at }) =>
        build === buildIn(query) && !query.includes(`WorkflowType != '${type}'`) && !((at ?? since) < since),
    );
    return ended.filter(({ isFailed }) => isFailed || !query.includes("'Failed'")).length;
  }

  /** Rows that have a time, newest first. */
  #endedBefore(query: string) {
    const ended = this.ended.filter(({ build, at }) => build === buildIn(query) && at !== undefined);
    return ended.toReversed().map(({ at = 0 }) => ({ closeTime: msToTs(at) }));
  }

  #listed(workflowId: string, { runId, type }: Shown) {
    return {
      execution: { workflowId, runId },
      type: { name: type },
      status: 1,
      startTime: msToTs(this.#now),
      executionTime: msToTs(this.#now),
      // As the client reads it, a 64-bit number.
      historyLength: msToTs(3_000).seconds,
      taskQueue: TASK_QUEUE,
    };
  }

  #described() {
    this.onRead();
    const version = (buildId: string) => ({ deploymentName: NAME, buildId });
    return {
      conflictToken: Uint8Array.of(this.#version),
      workerDeploymentInfo: {
        routingConfig: {
          currentDeploymentVersion: version(this.current ?? ''),
          rampingDeploymentVersion: version(this.ramping?.build ?? ''),
          // On the wire it is a 32-bit number.
          rampingVersionPercentage: Math.fround(this.ramping?.percent ?? 0),
        },
        versionSummaries: [...this.builds].map(([build, { createdAt, currentSince, endedAt }]) => ({
          deploymentVersion: version(build),
          status: build === this.current ? 2 : 1,
          createTime: msToTs(createdAt),
          ...(currentSince === undefined || build !== this.current ? {} : { currentSinceTime: msToTs(currentSince) }),
          ...(endedAt === undefined ? {} : { lastDeactivationTime: msToTs(endedAt) }),
        })),
      },
    };
  }
}

function buildIn(query: string): string | undefined {
  return /TemporalWorkerDeploymentVersion = '[^:]*:([^']*)'/.exec(query)?.[1];
}

function withBuild({ movedTo, build, upgrades }: FakeRun): string | undefined {
  return movedTo ?? (upgrades === true ? undefined : build);
}

function runIdOf(workflowId: string, { executions }: FakeRun): string {
  return `${workflowId}/${executions}`;
}

function infoOf(workflowId: string, run: FakeRun | undefined): object {
  if (run === undefined) return { closeTime: msToTs(1) };
  const { build: buildId, movedTo, upgrades, goingTo } = run;
  const versioningInfo = {
    behavior: upgrades === true ? AUTO_UPGRADE : PINNED,
    ...(buildId === undefined ? {} : { deploymentVersion: { buildId } }),
    ...(movedTo === undefined ? {} : { versioningOverride: { pinned: { version: { buildId: movedTo } } } }),
    ...(goingTo === undefined ? {} : { versionTransition: { deploymentVersion: { buildId: goingTo } } }),
  };
  return { execution: { workflowId, runId: runIdOf(workflowId, run) }, versioningInfo };
}

function taskOf(run: FakeRun | undefined): object {
  return defined({ pendingWorkflowTask: run?.attempt === undefined ? undefined : { attempt: run.attempt } });
}

function refusal(code: number, details: string): Error {
  return Object.assign(new Error(details), { code, details, metadata: new Metadata() });
}
