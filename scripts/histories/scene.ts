/** Scene is one recorded run while its scenario is played. */
import type { RunHandle } from '../../client/index.ts';
import type { Script } from '../../contracts/schemas/script.ts';
import type { ApprovalRequest } from '../../contracts/schemas/request.ts';
import type { RunSpecInput } from '../../contracts/schemas/run-spec.ts';
import type { Attempt } from './inputs.ts';
import type { Recording, Taken } from './recording.ts';
import type { Deployment, Stage } from './stage.ts';
import { until } from './until.ts';

export interface Scenario {
  /** Name of the scenario and of its model; the run's id is `run-` and this name. */
  readonly name: string;
  /** Names of the histories that the scenario records. */
  readonly points: readonly string[];
  readonly script: Script;
  play(scene: Scene): Promise<void>;
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

export class Scene {
  readonly stage: Stage;
  readonly workflowId: string;
  readonly #recording: Recording;
  readonly #scenario: Scenario;
  #deployment: Deployment;

  constructor(stage: Stage, recording: Recording, scenario: Scenario) {
    this.stage = stage;
    this.workflowId = `run-${scenario.name}`;
    this.#recording = recording;
    this.#scenario = scenario;
    this.#deployment = stage.plain;
  }

  get deployment(): Deployment {
    return this.#deployment;
  }

  get run(): RunHandle {
    return this.#deployment.countersign.run(this.workflowId);
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
    };
    await countersign.startRun({ runId: this.workflowId, spec, taskQueue });
  }

  /** Waits until these calls have open requests, in the given Temporal run if one is named. */
  async open(callIds: readonly string[], runId?: string): Promise<readonly ApprovalRequest[]> {
    return await until(
      async () => {
        const open = (await this.run.requests()).filter(
          (request) => request.status === 'open' && (runId ?? request.runId) === request.runId,
        );
        return callIds.length === open.length && open.every(({ callId }) => callIds.includes(callId))
          ? open
          : undefined;
      },
      `request ${callIds.join(', ')} of ${this.workflowId}`,
    );
  }

  /** Waits until this one call has an open request. */
  async openOne(callId: string, runId?: string): Promise<ApprovalRequest> {
    const [request] = await this.open([callId], runId);
    // Sound: `open` has found it.
    return request as ApprovalRequest;
  }

  /** Sends a message that the run must accept, at a point that is not recorded. */
  async send({ update, input, name }: Attempt): Promise<void> {
    const updateId = name.replaceAll(' ', '-');
    await this.#deployment.client.workflow
      .getHandle(this.workflowId)
      .executeUpdate(update, { args: [input], updateId });
  }

  /** Waits until the ledger has a fact of this kind. */
  async ledgered(kind: string, callId?: string): Promise<void> {
    await until(
      async () =>
        (await this.run.ledger()).some(
          ({ fact }) => fact.kind === kind && (callId === undefined || ('callId' in fact && fact.callId === callId)),
        )
          ? true
          : undefined,
      `${kind} in the ledger of ${this.workflowId}`,
    );
  }

  async ended(): Promise<void> {
    await this.deployment.client.workflow
      .getHandle(this.workflowId)
      .result()
      // History shows how the run ends, so an error is ignored here.
      .catch(() => undefined);
  }

  /** @param workflowId needed if the history is not that of the run */
  async take(point: string, taken: Taken = {}, workflowId = this.workflowId): Promise<void> {
    await this.#recording.take(this.#deployment, workflowId, point, taken);
  }
}
