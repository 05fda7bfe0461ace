/**
 * Plays a namespace writer without a key, who takes activities in the workers' place and ends them with any
 * result.
 *
 * Workflows are served by one of our workers that has no activities (`workflowsOnly`), so that no other worker takes
 * them first.
 */
import { defaultPayloadConverter, type Payload, type ProtoFailure } from '@temporalio/common';
import type { RunHandle } from '../../../client/index.ts';
import { createTracing } from '../../../workers/tracing.ts';
import { createWorkerDataConverter } from '../../../workers/codec.ts';
import { zoneKeysOf } from '../../../workers/config/secrets.ts';
import { ZoneCodec } from '../../../workers/zone.ts';
import { startOwnWorker } from '../world/own-worker.ts';
import { executions } from '../world/run-record.ts';
import type { World } from '../world/world.ts';
import type { CopiedPayload } from './forged-workflows.ts';

export interface TakenActivity {
  readonly workflowId: string;
  readonly runId: string;
  readonly activityId: string;
  readonly type: string;
  readonly input: readonly Payload[];
}

/** Starts our worker for workflows alone. The workers of the world must have stopped. */
export async function workflowsOnly({ engine, config, bundle }: World): Promise<() => Promise<void>> {
  const worker = await startOwnWorker(engine.server.address, {
    namespace: engine.server.namespace,
    taskQueue: config.taskQueue,
    workflowBundle: { code: bundle.code },
    dataConverter: createWorkerDataConverter(config, new ZoneCodec(zoneKeysOf(config))),
    plugins: [createTracing('off')],
    stickyQueueScheduleToStartTimeout: '100ms',
  });
  return worker.stop;
}

export class Impostor {
  readonly #world: World;

  constructor(world: World) {
    this.#world = world;
  }

  /** Takes the next activity on the task queue of runs. */
  async take(taskQueue = this.#world.config.taskQueue): Promise<TakenActivity> {
    const { client, engine } = this.#world;
    for (;;) {
      const task = await client.connection.withDeadline(Date.now() + 70_000, async () =>
        client.workflowService.pollActivityTaskQueue({
          namespace: engine.server.namespace,
          taskQueue: { name: taskQueue },
          identity: 'impostor',
        }),
      );
      if (task.taskToken.length === 0) continue;
      return {
        workflowId: task.workflowExecution?.workflowId ?? '',
        runId: task.workflowExecution?.runId ?? '',
        activityId: task.activityId,
        type: task.activityType?.name ?? '',
        input: task.input?.payloads ?? [],
      };
    }
  }

  /** Completes the task; `RespondActivityTaskCompletedById` accepts that from anybody. */
  async complete(task: TakenActivity, ...payloads: readonly Payload[]): Promise<void> {
    await this.#world.client.workflowService.respondActivityTaskCompletedById({
      ...this.#idOf(task),
      result: { payloads: [...payloads] },
    });
  }

  async answer(task: TakenActivity, value: unknown): Promise<void> {
    await this.complete(task, payloadOf(value));
  }

  async fail(task: TakenActivity, failure: ProtoFailure): Promise<void> {
    await this.#world.client.workflowService.respondActivityTaskFailedById({ ...this.#idOf(task), failure });
  }

  #idOf({ workflowId, runId, activityId }: TakenActivity) {
    return { namespace: this.#world.engine.server.namespace, workflowId, runId, activityId, identity: 'impostor' };
  }
}

/** @param metadata further metadata beside the encoding */
export function payloadOf(value: unknown, metadata: Readonly<Record<string, Uint8Array>> = {}): Payload {
  const payload = defaultPayloadConverter.toPayload(value);
  return { ...payload, metadata: { ...payload.metadata, ...metadata } };
}

export function valueOf<T>(payload: Payload | undefined): T {
  if (payload === undefined) throw new Error('no payload');
  return defaultPayloadConverter.fromPayload<T>(payload);
}

/** Makes a failure with one of our codes, in the form of our activities, with any further content. */
export function failureWith(code: string, facts: object = {}, over: ProtoFailure = {}): ProtoFailure {
  return {
    message: `forged ${code}`,
    source: 'TypeScriptSDK',
    applicationFailureInfo: { type: code, nonRetryable: true, details: { payloads: [payloadOf(facts)] } },
    ...over,
  };
}

/** Returns the payloads of an activity's results, oldest first. */
export async function answersOf(
  world: World,
  { runId }: Pick<RunHandle, 'runId'>,
  activity: string,
): Promise<readonly Payload[]> {
  const events = (await executions(world, runId)).flatMap((execution) => execution.events);
  return events.flatMap(({ activityTaskCompletedEventAttributes: done }) => {
    const asked = events.find(
      ({ eventId, activityTaskScheduledEventAttributes: own }) =>
        own?.activityType?.name === activity && String(eventId) === String(done?.scheduledEventId),
    );
    return asked === undefined ? [] : (done?.result?.payloads ?? []);
  });
}

export async function timesScheduled(world: World, { runId }: RunHandle, activity: string): Promise<number> {
  const events = (await executions(world, runId)).flatMap((execution) => execution.events);
  return events.filter(({ activityTaskScheduledEventAttributes: own }) => own?.activityType?.name === activity).length;
}

/** Copies a payload for a workflow that hands it on, with all its metadata. */
export function copyOf({ metadata, data }: Payload): CopiedPayload {
  const fields = Object.entries(metadata ?? {}).map(([name, bytes]) => [name, [...bytes]] as const);
  return { metadata: Object.fromEntries(fields), data: [...(data ?? [])] };
}
