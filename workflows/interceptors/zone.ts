/**
 * What a workflow in trust mode `signed` believes of what workers write: only what bears the claims that it waits for, proven by a key of
 * the zone (docs/adr/0047).
 *
 * Owns whether this workflow checks, and the comparison. Does not own the MAC (`workers/zone.ts`), nor what is scheduled again
 * (`workflows/entity/zone-activities.ts`).
 * 1. Whether it checks is settled by its first event, or switched on later, and never off.
 * 2. A workflow that does not check commands what it did without this module, and no promise comes between (INV-D1).
 * 3. What was not proven when it came is not believed later either, and what was is: keys may come and go (marker `unproven-…`).
 * 4. Nothing compared here depends on the Temporal run, save in a carry, whose writer is not of this execution (INV-D4).
 * 5. Of a failure only what its proven detail says counts. A timeout or a cancellation keeps its kind and what Temporal says with it.
 */
import {
  ActivityFailure,
  ApplicationFailure,
  CancelledFailure,
  defaultPayloadConverter,
  type Payload,
  type ProtoFailure,
  TimeoutFailure,
} from '@temporalio/common';
import {
  type ActivateInput,
  type ActivityInput,
  CancellationScope,
  type ContinueAsNewInput,
  patched,
  workflowInfo,
  type WorkflowInterceptors,
} from '@temporalio/workflow';
import { failureOf, final } from '../../contracts/failure.ts';
import { ACTIVITIES, CATALOG_WORKFLOW, RUN_WORKFLOW } from '../../contracts/names.ts';
import {
  type AnswerClaims,
  type CarryClaims,
  claimedValue,
  fieldOf,
  type Place,
  PLACE_HEADER,
  PROVEN_FIELD,
  type ProvenFailure,
  UNKNOWN_KEY_FIELD,
} from '../../contracts/zone.ts';
import { isFields } from '../../domain/shapes/fields.ts';
import { claimsText, digestOfArguments, digestOfInput, isProven } from '../../domain/signing/zone.ts';
import { UNPROVEN } from '../versions.ts';

/** What came for an activity: the claims of its result, or of the detail that says why it failed. */
interface Arrived {
  readonly proven?: string | undefined;
  readonly failure?: ProvenFailure;
}

class Zone {
  isChecking = false;
  readonly #arrived = new Map<number, Arrived>();
  #carry: Payload | undefined;

  /** Notes what the codec has marked; values go their own way. */
  see({ jobs }: ActivateInput['activation']): void {
    for (const { initializeWorkflow, resolveActivity } of jobs ?? []) {
      if (initializeWorkflow) this.#carry = initializeWorkflow.arguments?.[1];
      if (typeof resolveActivity?.seq !== 'number') continue;
      const { completed, failed, cancelled } = resolveActivity.result ?? {};
      const failure = failed?.failure ?? cancelled?.failure;
      if (this.isChecking)
        this.#arrived.set(
          resolveActivity.seq,
          failure ? saidIn(failure) : { proven: fieldOf(completed?.result, PROVEN_FIELD) },
        );
    }
  }

  /** A failure, where an execution is begun with what no execution of this zone has handed on. */
  begin(args: readonly unknown[]): Error | undefined {
    const [first, carry] = args;
    const { workflowType, namespace, workflowId, continuedFromExecutionRunId: runId = '' } = workflowInfo();
    const isCarried = carry !== undefined && carry !== null;
    const own = this.#carry;
    this.#carry = undefined;
    const expected: CarryClaims = {
      kind: 'carry',
      workflow: workflowType,
      namespace,
      workflowId,
      runId,
      input: digestOfArguments([first]),
    };
    this.isChecking =
      isFields(first) &&
      ((workflowType === RUN_WORKFLOW && first['signature'] !== undefined) ||
        (workflowType === CATALOG_WORKFLOW && first['signed'] === true));
    if (!this.isChecking || !isCarried) return undefined;
    const key = fieldOf(own, UNKNOWN_KEY_FIELD);
    const isOurs = isProven(fieldOf(own, PROVEN_FIELD), expected);
    // Not a failure of the run: the task waits for a worker that has the key.
    if (key !== undefined && !workflowInfo().unsafe.isReplaying) return keyless();
    return counts('carry', isOurs) ? undefined : final(unproven('What was handed to this execution'));
  }

  claimsOf({ activityType, seq, args }: ActivityInput): Omit<AnswerClaims, 'kind'> {
    const { namespace, workflowId, runId, originalExecutionRunId } = workflowInfo();
    const chain = originalExecutionRunId ?? runId;
    const input = digestOfInput(args);
    return { chain, place: seq, at: Date.now(), activity: activityType, namespace, workflowId, input };
  }

  arrived(seq: number): Arrived | undefined {
    const arrived = this.#arrived.get(seq);
    this.#arrived.delete(seq);
    return arrived;
  }

  /** As the next execution will want it. */
  proving(input: ContinueAsNewInput): ContinueAsNewInput {
    const { workflowType, namespace, workflowId, runId } = workflowInfo();
    const [first, carry] = input.args;
    const claims: CarryClaims = {
      kind: 'carry',
      workflow: input.options.workflowType ?? workflowType,
      namespace,
      workflowId,
      runId,
      input: digestOfArguments([first]),
    };
    return { ...input, args: [first, claimedValue(carry, claimsText(claims))] };
  }
}

const zone = new Zone();

/** For a catalog that was begun by somebody without a key, once it is changed by somebody who has one. */
export function checkFromNowOn(): void {
  zone.isChecking = true;
}

/** Does this workflow believe only what is proven? */
export function isChecking(): boolean {
  return zone.isChecking;
}

export function interceptors(): WorkflowInterceptors {
  return {
    internals: [
      {
        activate: (input, next) => {
          zone.see(input.activation);
          next(input);
        },
      },
    ],
    inbound: [
      {
        execute: (input, next) => {
          const refusal = zone.begin(input.args);
          return refusal === undefined ? next(input) : Promise.reject(refusal);
        },
      },
    ],
    outbound: [
      {
        scheduleActivity: (input, next) => (zone.isChecking ? checked(input, next) : next(input)),
        continueAsNew: (input, next) => next(zone.isChecking ? zone.proving(input) : input),
      },
    ],
  };
}

async function checked(input: ActivityInput, next: (input: ActivityInput) => Promise<unknown>): Promise<unknown> {
  const claims = zone.claimsOf(input);
  const scope = CancellationScope.current();
  try {
    const value = await next(placed(input, claims));
    if (counts(input.seq, isProven(zone.arrived(input.seq)?.proven, { ...claims, kind: 'result' }))) return value;
  } catch (error) {
    const arrived = zone.arrived(input.seq);
    // Nothing was scheduled: the scope was cancelled before.
    if (arrived === undefined || !(error instanceof ActivityFailure)) throw error;
    throw believed(error, input, arrived, { ...claims, kind: 'failure' }, scope.consideredCancelled);
  }
  throw unproven(`What came as the answer of ${input.activityType}`);
}

function placed(input: ActivityInput, { chain, place, at }: Place): ActivityInput {
  const header: Place = { chain, place, at };
  return { ...input, headers: { ...input.headers, [PLACE_HEADER]: defaultPayloadConverter.toPayload(header) } };
}

function believed(
  error: ActivityFailure,
  { activityType, seq }: ActivityInput,
  { proven, failure }: Arrived,
  expected: AnswerClaims,
  isCancelled: boolean,
): Error {
  const { cause } = error;
  if (cause instanceof TimeoutFailure)
    return causedBy(error, new TimeoutFailure(cause.message, cause.lastHeartbeatDetails, cause.timeoutType));
  // That a call was not made is nobody's word but that of the worker that had it.
  if (cause instanceof CancelledFailure && isCancelled && activityType !== ACTIVITIES.callTool)
    return causedBy(error, new CancelledFailure(cause.message));
  if (!counts(seq, failure !== undefined && isProven(proven, expected)) || failure === undefined)
    return unproven(`What came as the failure of ${activityType}`);
  const { type, message, facts = {} } = failure;
  return causedBy(error, ApplicationFailure.nonRetryable(message, type, facts));
}

/**
 * As it was found when it came: what was not proven then leaves a marker, so that no key that comes or goes changes what a replay
 * does. @throws what is no failure, in a replay alone: it was proven then, and this worker has not its key
 */
function counts(place: number | 'carry', isProvenNow: boolean): boolean {
  const { isReplaying } = workflowInfo().unsafe;
  if (!isReplaying && isProvenNow) return true;
  const marker = `${UNPROVEN}${place}`;
  // Always true where it is not replayed.
  if (patched(marker)) return false;
  if (isProvenNow) return true;
  throw keyless();
}

/** Not a failure of Temporal's, so the workflow task fails and is tried again, perhaps by another worker. */
function keyless(): Error {
  return new Error(
    'What this execution was given was proven when it came, and is not now: its key is not among trust.zone.keys of this worker, or this build asks something else.',
  );
}

/** The same activity, and nothing of what else was said to be its cause. */
function causedBy({ message, activityType, activityId, retryState, identity }: ActivityFailure, cause: Error): Error {
  return new ActivityFailure(message, activityType, activityId, retryState, identity, cause);
}

function unproven(what: string): ApplicationFailure {
  return failureOf(
    'ANSWER_UNPROVEN',
    `${what} is not proven by a key of the zone (trust.zone.keys); it was not believed.`,
  );
}

/** The detail that bears claims, wherever it stands among the others. */
function saidIn(failure: ProtoFailure): Arrived {
  for (const detail of failure.cause?.applicationFailureInfo?.details?.payloads ?? []) {
    const proven = fieldOf(detail, PROVEN_FIELD);
    if (proven === undefined) continue;
    // Sound: its MAC holds, so a worker of the zone wrote it; whether as a failure is compared with its claims.
    return { proven, failure: defaultPayloadConverter.fromPayload<ProvenFailure>(detail) };
  }
  return {};
}
