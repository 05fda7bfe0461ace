/**
 * Lets a workflow in trust mode `signed` believe only worker output with the expected claims, proven by a key of the
 * zone (docs/adr/0047); a repeatable activity whose answer is unproven is scheduled again. The MAC is
 * `workers/zone.ts`.
 *
 * 1. The first event settles whether the workflow checks. Checking can be switched on later, and never off.
 * 2. Without checking, the commands are those without this module, with no promise in between (INV-D1).
 * 3. An input that was not proven on arrival is never believed later, and one that was proven stays believed: keys may
 *    come and go (marker `unproven-…`).
 * 4. Nothing compared here depends on the Temporal run, except in a carry, whose writer is another execution (INV-D4).
 * 5. Only the proven detail of a failure counts. A timeout or a cancellation keeps its kind and Temporal's words.
 * 6. A tool call is scheduled once, whatever comes of it (INV-X1), and so is what its caller repeats by itself.
 *
 * One file, because an activity is scheduled again by what the check of its answer says.
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
  type ActivityOptions,
  CancellationScope,
  type ContinueAsNewInput,
  patched,
  proxyActivities,
  sleep,
  workflowInfo,
  type WorkflowInterceptors,
} from '@temporalio/workflow';
import type { ErrorCode } from '../../contracts/errors.ts';
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
import { isFields } from '../../domain/shapes/inputs.ts';
import { claimsText, digestOfArguments, digestOfInput, isProven } from '../../domain/signing/zone.ts';
import { UNPROVEN } from '../versions.ts';

/** The claims that arrived for an activity: those of its result, or those of the detail that explains its failure. */
interface Arrived {
  readonly proven?: string | undefined;
  readonly failure?: ProvenFailure;
}

class Zone {
  isChecking = false;
  readonly #arrived = new Map<number, Arrived>();
  #carry: Payload | undefined;

  /** Notes the claims that the codec has found; values take their usual way. */
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

  /** Returns a failure if an execution begins with a carry that no execution of this zone has handed on. */
  begin([first, carry]: readonly unknown[]): Error | undefined {
    const { workflowType, continuedFromExecutionRunId: runId = '' } = workflowInfo();
    const own = this.#carry;
    this.#carry = undefined;
    this.isChecking =
      isFields(first) &&
      ((workflowType === RUN_WORKFLOW && first['signature'] !== undefined) ||
        (workflowType === CATALOG_WORKFLOW && first['signed'] === true));
    if (!this.isChecking || carry === undefined || carry === null) return undefined;
    const isOurs = isProven(fieldOf(own, PROVEN_FIELD), carryClaims(workflowType, runId, first));
    // This is not a failure of the run: the task waits for a worker that has the key.
    if (fieldOf(own, UNKNOWN_KEY_FIELD) !== undefined && !workflowInfo().unsafe.isReplaying) return keyless();
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

  proving(input: ContinueAsNewInput): ContinueAsNewInput {
    const { workflowType, runId } = workflowInfo();
    const [first, carry] = input.args;
    const claims = carryClaims(input.options.workflowType ?? workflowType, runId, first);
    return { ...input, args: [first, claimedValue(carry, claimsText(claims))] };
  }
}

/** @param runId of the execution that hands the carry on */
function carryClaims(workflow: string, runId: string, first: unknown): CarryClaims {
  const { namespace, workflowId } = workflowInfo();
  return { kind: 'carry', workflow, namespace, workflowId, runId, input: digestOfArguments([first]) };
}

const zone = new Zone();

/** Switches checking on, for a catalog that was begun without a key and is now changed by a sender who has one. */
export function checkFromNowOn(): void {
  zone.isChecking = true;
}

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
    // The scope was cancelled before, so nothing was scheduled.
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
  // Only the worker that had a call may say that the call was not made.
  if (cause instanceof CancelledFailure && isCancelled && activityType !== ACTIVITIES.callTool)
    return causedBy(error, new CancelledFailure(cause.message));
  if (!counts(seq, failure !== undefined && isProven(proven, expected)) || failure === undefined)
    return unproven(`What came as the failure of ${activityType}`);
  const { type, message, facts = {} } = failure;
  return causedBy(error, ApplicationFailure.nonRetryable(message, type, facts));
}

/**
 * Decides as on arrival: an unproven input left a marker then, so no later change of keys changes a replay.
 * @throws in a replay alone, and no failure of Temporal's, so that the task fails and not the run: the input was proven
 * on arrival, and this worker lacks the key
 */
function counts(place: number | 'carry', isProvenNow: boolean): boolean {
  const { isReplaying } = workflowInfo().unsafe;
  if (!isReplaying && isProvenNow) return true;
  const marker = `${UNPROVEN}${place}`;
  // Always true outside a replay.
  if (patched(marker)) return false;
  if (isProvenNow) return true;
  throw keyless();
}

/** This is not a failure of Temporal's, so the workflow task fails and is tried again, perhaps by another worker. */
function keyless(): Error {
  return new Error(
    'What this execution was given was proven when it came, and is not now: its key is not among trust.zone.keys of this worker, or this build asks something else.',
  );
}

/** Rebuilds the failure of the same activity, without any other cause that was given for it. */
function causedBy({ message, activityType, activityId, retryState, identity }: ActivityFailure, cause: Error): Error {
  return new ActivityFailure(message, activityType, activityId, retryState, identity, cause);
}

function unproven(what: string): ApplicationFailure {
  return failureOf(
    'ANSWER_UNPROVEN',
    `${what} is not proven by a key of the zone (trust.zone.keys); it was not believed.`,
  );
}

function saidIn(failure: ProtoFailure): Arrived {
  for (const detail of failure.cause?.applicationFailureInfo?.details?.payloads ?? []) {
    const proven = fieldOf(detail, PROVEN_FIELD);
    if (proven === undefined) continue;
    // Sound: its MAC holds, so a worker of the zone wrote it. Its claims tell whether as a failure.
    return { proven, failure: defaultPayloadConverter.fromPayload<ProvenFailure>(detail) };
  }
  return {};
}

// The activities of a workflow: one that may be repeated is scheduled again if its answer is unproven.

/** Tries, the first included. Ten take some minutes, which covers workers that get their keys one after another. */
const MOST_TRIES: Readonly<Record<string, number>> = {
  [ACTIVITIES.prepareRun]: 10,
  [ACTIVITIES.judge]: 10,
  [ACTIVITIES.modelStep]: 10,
  [ACTIVITIES.storeSegment]: 10,
  [ACTIVITIES.discoverTools]: 10,
  // Somebody waits for these.
  [ACTIVITIES.discoverCatalog]: 3,
  [ACTIVITIES.readTrust]: 3,
};
const FIRST_PAUSE_MS = 1_000;
const LAST_PAUSE_MS = 60_000;

const ANSWER_UNPROVEN: ErrorCode = 'ANSWER_UNPROVEN';

type Activity = (...args: readonly unknown[]) => Promise<unknown>;

declare const unread: unique symbol;

/** An activity's answer before the check that it can be read; `answered` opens it (`workflows/entity/unread.ts`). */
export interface Unread<T> {
  readonly [unread]: T;
}

type Answering<Activities> = {
  readonly [Name in keyof Activities]: Activities[Name] extends (...input: infer Input) => Promise<infer Answer>
    ? (...input: Input) => Promise<Unread<Answer>>
    : never;
};

/** Like `proxyActivities`, but checks the answers if the workflow checks. */
export function provenActivities<T extends object>(options: ActivityOptions): Answering<T> {
  // Sound: `T` names activities, and the proxy has a function of each name.
  const activities = proxyActivities(options) as unknown as Answering<T> & Readonly<Record<string, Activity>>;
  if (!zone.isChecking) return activities;
  const handler: ProxyHandler<Answering<T>> = {
    get: (_, name) => {
      const type = String(name);
      return async (...args: readonly unknown[]) =>
        await asked(type, options, async () => await activities[type]?.(...args));
    },
  };
  // Sound: as above; every property that is read of it is an activity.
  return new Proxy({} as Answering<T>, handler);
}

async function asked(type: string, options: ActivityOptions, ask: () => Promise<unknown>): Promise<unknown> {
  const most = MOST_TRIES[type] ?? 1;
  for (let tries = 1; ; tries += 1) {
    try {
      return await ask();
    } catch (error) {
      if (tries >= most || !isLost(error, options)) throw error;
    }
    const pause = Math.min(FIRST_PAUSE_MS * 2 ** (tries - 1), LAST_PAUSE_MS);
    await sleep(pause, { summary: `${type} again: what came back is not proven` });
  }
}

/** True if the activity may be scheduled again. A total time that a caller set is not extended when it is over. */
function isLost(error: unknown, { scheduleToCloseTimeout }: ActivityOptions): boolean {
  if (error instanceof ApplicationFailure) return error.type === ANSWER_UNPROVEN;
  return (
    scheduleToCloseTimeout === undefined && error instanceof ActivityFailure && error.cause instanceof TimeoutFailure
  );
}
