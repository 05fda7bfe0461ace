/** Scene is one recorded run while its scenario is played. */
import type { RunHandle } from '../../../client/index.ts';
import type { ErrorCode } from '../../../contracts/errors.ts';
import type { ApprovalRequest } from '../../../contracts/schemas/request.ts';
import type { RunSpecInput } from '../../../contracts/schemas/run-spec.ts';
import type { Script } from '../../../contracts/schemas/script.ts';
import { requestDigest } from '../../../domain/request/digest.ts';
import type { Attempt, Recording, Taken } from './recording.ts';
import type { Deployment, Stage } from './stage.ts';
import { until } from '../../support/until.ts';

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
      { what: `request ${callIds.join(', ')} of ${this.workflowId}` },
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
      { what: `${kind} in the ledger of ${this.workflowId}` },
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

// Makes decisions from a waiting request: the right ones, and those that a run must refuse.

export interface Expected extends Attempt {
  readonly code: ErrorCode;
}

/** The person who may decide in recorded runs; see `stage-policy.ts`. */
export const APPROVER = { id: 'ann', groups: ['leads'] };
const STRANGER = { id: 'mallory', groups: ['guests'] };
/** Id of a Temporal run that never existed. */
const NO_RUN = '00000000-0000-4000-8000-000000000000';

export function approve(request: ApprovalRequest, name: string, over: object = {}): Attempt {
  const { callId, digest, runId } = request;
  return {
    name,
    update: 'decide',
    input: { kind: 'approve', decisionId: idOf(name), callId, digest, runId, approver: APPROVER, ...over },
  };
}

export function reject(request: ApprovalRequest, name: string): Attempt {
  return approve(request, name, { kind: 'reject', reason: 'not this week' });
}

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
function digestIn(request: ApprovalRequest, runId: string): string {
  const { namespace, tenant, workflowId, callId, generation, server, serverUrl, tool, definitionHash, approvers } =
    request;
  const target = { server, serverUrl, tool, definitionHash };
  return requestDigest({
    namespace,
    tenant,
    workflowId,
    callId,
    runId,
    generation,
    target,
    arguments: request.arguments,
    approvers,
  });
}

function idOf(name: string): string {
  return name.replaceAll(' ', '-');
}
