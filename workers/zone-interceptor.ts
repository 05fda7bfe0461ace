/**
 * Gives what an activity answers its claims (docs/adr/0047), where the workflow that scheduled it checks them.
 *
 * Owns what is claimed. Does not own the MAC over it (`zone-codec.ts`).
 * 1. Type, namespace and workflow id are Temporal's word, the digest is of what this worker got; chain and place are the workflow's,
 *    and are believed of workflows on the queue of our runs alone.
 * 2. A failure stays as it is, with one detail more. What stops an activity from outside has none.
 */
import { setTimeout as pause } from 'node:timers/promises';
import { ApplicationFailure, CancelledFailure, CompleteAsyncError, type Info } from '@temporalio/activity';
import { defaultPayloadConverter, type Headers } from '@temporalio/common';
import type { ActivityInterceptorsFactory } from '@temporalio/worker';
import type { ReadExecution } from '../activities/trust/executions.ts';
import { type AnswerClaims, type Place, PLACE_HEADER, type ProvenFailure } from '../contracts/zone.ts';
import { claimedValue } from '../contracts/zone-payload.ts';
import { claimsText, digestOfInput } from '../domain/zone-claims.ts';

export interface ZoneOfRuns {
  readonly readExecution: ReadExecution;
  /** Of runs and catalogs. */
  readonly taskQueue: string;
}

/** Between two looks at who has scheduled an activity; where none succeeds, its answer is as a lost one. */
const PAUSES_MS = [100, 500, 2_000];

export function createZoneInterceptor(zone: ZoneOfRuns): ActivityInterceptorsFactory {
  return ({ info }) => ({
    inbound: {
      execute: async (input, next) => {
        const place = placeIn(input.headers);
        if (place === undefined) return await next(input);
        // Beside the activity, which may change its input.
        const claiming = claimsFor(zone, info, place, digestOfInput(input.args));
        try {
          const result = await next(input);
          const claims = await claiming;
          return claims === undefined ? result : claimedValue(result, claimsText({ ...claims, kind: 'result' }));
        } catch (error) {
          if (isStopped(error)) throw error;
          const claims = await claiming;
          throw claims === undefined ? error : claimedFailure(error, { ...claims, kind: 'failure' });
        }
      },
    },
  });
}

function placeIn(headers: Headers): Place | undefined {
  const payload = headers[PLACE_HEADER];
  if (payload === undefined) return undefined;
  try {
    const { chain, place, at } = defaultPayloadConverter.fromPayload<Partial<Record<keyof Place, unknown>>>(payload);
    const isPlace = typeof chain === 'string' && typeof place === 'number' && typeof at === 'number';
    return isPlace ? { chain, place, at } : undefined;
  } catch {
    // Whoever schedules an activity writes what they like.
    return undefined;
  }
}

/** Undefined where nothing is claimed: the workflow is none of ours, or Temporal does not say. */
async function claimsFor(
  { readExecution, taskQueue }: ZoneOfRuns,
  { workflowExecution, workflowNamespace, namespace, activityType }: Info,
  place: Place,
  input: string,
): Promise<Omit<AnswerClaims, 'kind'> | undefined> {
  if (workflowExecution === undefined) return undefined;
  const { workflowId, runId } = workflowExecution;
  for (const ms of [...PAUSES_MS, undefined]) {
    try {
      const facts = await readExecution(workflowId, runId, 'living');
      if (facts?.taskQueue !== taskQueue) return undefined;
      return { ...place, activity: activityType, namespace: workflowNamespace ?? namespace, workflowId, input };
    } catch {
      if (ms !== undefined) await pause(ms);
    }
  }
  return undefined;
}

function claimedFailure(error: unknown, claims: AnswerClaims): ApplicationFailure {
  const { type, message, details } = ApplicationFailure.fromError(error);
  const [facts = {}, ...others] = details ?? [];
  const said: ProvenFailure = { ...(typeof type === 'string' ? { type } : {}), message, facts };
  return ApplicationFailure.fromError(error, { details: [facts, ...others, claimedValue(said, claimsText(claims))] });
}

function isStopped(error: unknown): boolean {
  if (error instanceof CancelledFailure || error instanceof CompleteAsyncError) return true;
  return error instanceof Error && error.name === 'AbortError';
}
