/** Scene is one recorded run while its scenario is played. */
import type { WorkflowHandle } from '@temporalio/client';
import { defaultPayloadConverter } from '@temporalio/common';
import type { RunHandle } from '../../../client/index.ts';
import { defined } from '../../../contracts/defined.ts';
import type { ErrorCode } from '../../../contracts/errors.ts';
import type { ApprovalRequest, DecisionInput } from '../../../contracts/schemas/request.ts';
import type { RunSpecInput } from '../../../contracts/schemas/run-spec.ts';
import type { Script } from '../../../contracts/schemas/script.ts';
import { requestDigest } from '../../../domain/request/digest.ts';
import { hashOf } from '../../../domain/text/canonical.ts';
import { until } from '../../support/until.ts';
import type { Attempt, Recording, Taken } from './recording.ts';
import type { Deployment, Stage } from './stage.ts';

export interface Scenario {
  /** Name of the scenario and of its model; the run's id is `run-` and this name. */
  readonly name: string;
  /** Names of the histories that the scenario records. */
  readonly points: readonly string[];
  readonly script: Script;
  play(scene: Scene): Promise<void>;
}

interface Plan {
  /** Default: one of the scenario's name. */
  readonly points?: readonly string[];
  /** What the model does. It says that it is done after its last calls. */
  readonly steps: Script['steps'];
}

export function scenario(name: string, { points = [name], steps }: Plan, play: Scenario['play']): Scenario {
  const script = { steps: steps.at(-1)?.text === undefined ? [...steps, DONE] : steps };
  return { name, points, script, play };
}

/** A scenario of a run that needs nobody, recorded at its end. */
export function alone(
  name: string,
  steps: Script['steps'],
  over: Partial<RunSpecInput> = {},
  on: (stage: Stage) => Promise<Deployment> = async ({ plain }) => plain,
): Scenario {
  return scenario(name, { steps }, async (scene) => {
    await scene.start(over, { on: await on(scene.stage) });
    await scene.ended(name);
  });
}

/** Makes a model step that calls tools of the one server. */
export function calls(...tools: readonly (readonly [tool: string, note: string])[]): Script['steps'][number] {
  return {
    calls: tools.map(([tool, name]) => ({ tool: `notes/${tool}`, arguments: { name } })),
    branches: [],
    repeat: 1,
  };
}

export function says(text: string): Script['steps'][number] {
  return { text, calls: [], branches: [], repeat: 1 };
}

/** An activity that no worker has. */
export interface TakenActivity {
  /** Returns what it is given. */
  input<T>(): T;
  beat(details?: object): Promise<void>;
  end(result: object): Promise<void>;
}

export const DONE = says('The notes are in order.');

/** Another deployment in the place of `plain`, in which scenes are played once more. */
export type Variant = 'in-stretches' | 'encrypted';

export class Scene {
  readonly stage: Stage;
  readonly workflowId: string;
  readonly #recording: Pick<Recording, 'take'>;
  readonly #scenario: Scenario;
  readonly #suffix: string;
  readonly #isRecorded: boolean;
  readonly #deadlineSeconds: number | undefined;
  #deployment: Deployment;

  /** @param over what a play has otherwise than the recording: its id, and the end of its requests; or the variant */
  constructor(
    stage: Stage,
    recording: Pick<Recording, 'take'>,
    played: Scenario,
    over: {
      readonly workflowId?: string;
      readonly deadlineSeconds?: number;
      readonly variant?: Variant | undefined;
    } = {},
  ) {
    this.#suffix = over.variant === undefined ? '' : `-${over.variant}`;
    this.stage = stage;
    this.#isRecorded = over.workflowId === undefined;
    this.workflowId = over.workflowId ?? `run-${played.name}${this.#suffix}`;
    this.#deadlineSeconds = over.deadlineSeconds;
    this.#recording = recording;
    this.#scenario = played;
    this.#deployment = stage.plain;
  }

  get deployment(): Deployment {
    return this.#deployment;
  }

  get run(): RunHandle {
    return this.#deployment.countersign.run(this.workflowId);
  }

  /** Returns the server's name in a catalog of this scene: each play has a catalog of its own. */
  catalogOf(server: string): string {
    return this.#isRecorded ? server : `${server}-${hashOf(this.workflowId).slice(0, 8)}`;
  }

  /** The run as Temporal's own client has it. */
  get handle(): WorkflowHandle {
    return this.#deployment.client.workflow.getHandle(this.workflowId);
  }

  async start(
    over: Partial<RunSpecInput> = {},
    { on: deployment = this.stage.plain, agent = {} }: { on?: Deployment; agent?: object } = {},
  ): Promise<void> {
    this.#deployment = deployment;
    const { countersign, taskQueue } = deployment;
    const spec: RunSpecInput = {
      agent: { name: 'clerk', model: this.#scenario.name, instructions: 'Keep the notes in order.', ...agent },
      input: 'Tidy the notes.',
      initiator: { id: 'ben', tenant: 'office' },
      servers: [{ name: 'notes' }],
      ...over,
      ...(this.#deadlineSeconds === undefined
        ? {}
        : { policy: { ...over.policy, deadlineSeconds: this.#deadlineSeconds } }),
    };
    await countersign.startRun({ runId: this.workflowId, spec, taskQueue });
  }

  /** Waits until these calls have open requests, in the given Temporal run if one is named. */
  async open<const T extends readonly string[]>(
    callIds: T,
    runId?: string,
  ): Promise<{ readonly [K in keyof T]: ApprovalRequest }> {
    const found = await until(
      async () => {
        const open = (await this.run.requests()).filter(
          (request) => request.status === 'open' && (runId ?? request.runId) === request.runId,
        );
        return callIds.length === open.length && open.every(({ callId }) => callIds.includes(callId))
          ? open
          : undefined;
      },
      { what: `request ${callIds.join(', ')} of ${this.workflowId}` },
    );
    // Sound: as many are open as were named.
    return found as { readonly [K in keyof T]: ApprovalRequest };
  }

  /** Waits until this one call has an open request. */
  async openOne(callId: string, runId?: string): Promise<ApprovalRequest> {
    const [request] = await this.open([callId], runId);
    return request;
  }

  /** Waits until the run asks about a call in this generation. */
  async asked(callId: string, generation: number, withinMs?: number): Promise<ApprovalRequest> {
    const what = `generation ${generation} of ${callId} of ${this.workflowId}`;
    const isIt = (each: ApprovalRequest): boolean => each.callId === callId && each.generation === generation;
    return await until(async () => (await this.run.requests()).find(isIt), { what, ...defined({ withinMs }) });
  }

  /** Waits until the run asks in this round what a server wants to know. */
  async question(callId: string, round: number): Promise<ApprovalRequest> {
    const what = `question ${round} of ${callId} of ${this.workflowId}`;
    const isIt = ({ callId: id, about }: ApprovalRequest): boolean =>
      id === callId && about?.kind === 'input' && about.round === round;
    return await until(async () => (await this.run.requests()).find(isIt), { what });
  }

  /** Sends a message that the run must accept, at a point that is not recorded. */
  async send({ update, input, name }: Attempt): Promise<void> {
    await this.handle.executeUpdate(update, { args: [input], updateId: idOf(name) });
  }

  /** Decides by the client library, as a backend does. */
  async decide({ input }: Attempt): ReturnType<RunHandle['decide']> {
    // Sound: the library parses it.
    return await this.run.decide(input as DecisionInput);
  }

  /** Makes the run continue as new. @returns the Temporal run id of its next execution */
  async continued(before: string): Promise<string> {
    await this.handle.signal('nudge');
    return await until(
      async () => {
        const { runId } = await this.handle.describe();
        return runId === before ? undefined : runId;
      },
      { what: `the next execution of ${this.workflowId}` },
    );
  }

  /** Waits until an activity of this name waits for a worker, or is with one. */
  async scheduled(activity: string): Promise<void> {
    await until(
      async () => {
        const { raw } = await this.handle.describe();
        return raw.pendingActivities?.find(({ activityType }) => activityType?.name === activity);
      },
      { what: `${activity} of ${this.workflowId}`, withinMs: 90_000 },
    );
  }

  /** Waits until a timer with this summary has begun. */
  async timed(summary: string): Promise<void> {
    const decoder = new TextDecoder();
    await until(
      async () =>
        (await this.handle.fetchHistory()).events?.some(({ userMetadata }) =>
          decoder.decode(userMetadata?.summary?.data ?? undefined).includes(summary),
        ),
      { what: `the timer "${summary}" of ${this.workflowId}` },
    );
  }

  /** Waits until Temporal has taken the worker of an activity for lost. */
  async timedOut(): Promise<void> {
    await until(
      async () =>
        (await this.handle.fetchHistory()).events?.some(({ activityTaskTimedOutEventAttributes: out }) => Boolean(out)),
      {
        what: `the timeout of an activity of ${this.workflowId}`,
        withinMs: 90_000,
      },
    );
  }

  /**
   * Starts a run whose first call is approved when no worker serves its queue any more.
   * @returns the request that was approved
   */
  async approvedAway(
    on: Deployment & { serveTools(): Promise<{ stop(): Promise<void> }> },
    over: Partial<RunSpecInput> = {},
  ): Promise<ApprovalRequest> {
    const forDiscovery = await on.serveTools();
    await this.start(over, { on });
    const request = await this.openOne('t1.c0');
    await forDiscovery.stop();
    await this.decide(approve(request, 'yes'));
    await this.ledgered('dispatched', 't1.c0');
    return request;
  }

  /** Takes the next activity of a queue in a worker's place. */
  async takeActivity(queue: string): Promise<TakenActivity> {
    const { client } = this.#deployment;
    const { workflowService } = client;
    const about = { namespace: client.options.namespace, identity: 'worker' };
    const { taskToken, input } = await until(
      async () => {
        const task = await client.withDeadline(
          Date.now() + 10_000,
          async () => await workflowService.pollActivityTaskQueue({ ...about, taskQueue: { name: queue } }),
        );
        return task.taskToken.length > 0 ? task : undefined;
      },
      { what: `an activity on ${queue}` },
    );
    const payloads = (value: unknown) => ({ payloads: [defaultPayloadConverter.toPayload(value)] });
    return {
      input: () => defaultPayloadConverter.fromPayload(input?.payloads?.[0] ?? {}),
      beat: async (details) => {
        await workflowService.recordActivityTaskHeartbeat({
          ...about,
          taskToken,
          ...(details !== undefined && { details: payloads(details) }),
        });
      },
      end: async (result) => {
        await workflowService.respondActivityTaskCompleted({ ...about, taskToken, result: payloads(result) });
      },
    };
  }

  /** Waits until the ledger has a fact of this kind. */
  async ledgered(kind: string, callId?: string): Promise<void> {
    await until(
      async () =>
        (await this.run.ledger()).some(
          ({ fact }) => fact.kind === kind && (callId === undefined || ('callId' in fact && fact.callId === callId)),
        ),
      { what: `${kind} in the ledger of ${this.workflowId}` },
    );
  }

  /** Waits for the end of the run, and takes its history if a point is named. */
  async ended(point?: string, taken?: Taken): Promise<void> {
    // History shows how the run ends, so an error is ignored here.
    await this.handle.result().catch(() => undefined);
    if (point !== undefined) await this.take(point, taken);
  }

  /** @param workflowId needed if the history is not that of the run */
  async take(point: string, taken: Taken = {}, workflowId = this.workflowId): Promise<void> {
    await this.#recording.take(this.#deployment, workflowId, `${point}${this.#suffix}`, taken);
  }
}

// Makes decisions from a waiting request: the right ones, and those that a run must refuse.

export interface Expected extends Attempt {
  readonly code: ErrorCode;
}

/** The person who may decide in recorded runs; see `stage.ts`. */
export const APPROVER = { id: 'ann', groups: ['leads'] };
const STRANGER = { id: 'mallory', groups: ['guests'] };
/** Id of a Temporal run that never existed. */
export const NO_RUN = '00000000-0000-4000-8000-000000000000';

/** Makes an answer to a request, with the id of its name. */
export function answer(update: Attempt['update'], request: ApprovalRequest, name: string, said: object): Attempt {
  const { callId, digest, runId } = request;
  return { name, update, input: { decisionId: idOf(name), callId, digest, runId, approver: APPROVER, ...said } };
}

export function approve(request: ApprovalRequest, name: string, over: object = {}): Attempt {
  return answer('decide', request, name, { kind: 'approve', ...over });
}

export function reject(request: ApprovalRequest, name: string): Attempt {
  return approve(request, name, { kind: 'reject', reason: 'not this week' });
}

/** The message that interrupts whatever the run does. */
export const INTERRUPTION: Attempt = {
  name: 'an interruption',
  update: 'say',
  input: { messageId: 'hint', text: 'It is a holiday.', from: 'ben', interrupt: true },
};

/** Makes one decision for each way in which a decision on an open request can be wrong. */
export function wrongDecisions(request: ApprovalRequest): Expected[] {
  const of = (name: string, over: object, code: ErrorCode): Expected => ({ ...approve(request, name, over), code });
  return [
    of('a stale digest', { digest: '0'.repeat(64) }, 'DIGEST_MISMATCH'),
    of('the digest of another run id', { runId: NO_RUN }, 'DIGEST_MISMATCH'),
    of('made in a run that never was', { runId: NO_RUN, digest: digestIn(request, NO_RUN) }, 'DECISION_STALE_RUN'),
    of('an unknown call', { callId: 't9.c9' }, 'CALL_UNKNOWN'),
    of('a stranger', { approver: STRANGER }, 'APPROVER_NOT_ENTITLED'),
    of('a field too many', { approved: true }, 'DECISION_INVALID'),
    of('no approver', { approver: undefined }, 'DECISION_INVALID'),
    { name: 'no decision at all', update: 'decide', input: 'yes', code: 'DECISION_INVALID' },
  ];
}

export function refused(attempt: Attempt, code: ErrorCode): Expected {
  return { ...attempt, code };
}

/** Computes the digest that the request would have in another Temporal run. */
export function digestIn(request: ApprovalRequest, runId: string): string {
  return requestDigest({ ...request, runId, target: request });
}

export function idOf(name: string): string {
  return name.replaceAll(' ', '-');
}
