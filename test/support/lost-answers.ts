/** Calls whose answer is lost, and what people say became of them. */
import type { RunHandle } from '../../client/index.ts';
import type { ApprovalRequest } from '../../contracts/schemas/request.ts';
import type { ResolutionInput } from '../../contracts/schemas/answer.ts';
import { until } from './until.ts';

/** Waits until the run asks what became of a call. */
export async function lostCall(
  run: RunHandle,
  callId = 't1.c0',
  generation = 1,
  withinMs = 60_000,
): Promise<ApprovalRequest> {
  return await until(
    async () =>
      (await run.requests()).find(
        (request) =>
          request.callId === callId &&
          request.status === 'open' &&
          request.about?.kind === 'outcome' &&
          request.generation >= generation,
      ),
    { what: `${run.runId} asks what became of ${callId}`, withinMs },
  );
}

let resolutions = 0;

type Said =
  | { readonly kind: 'retry' }
  | { readonly kind: 'succeeded'; readonly result: string }
  | { readonly kind: 'failed'; readonly message: string };

/** What somebody says of it. */
export function resolutionOf(request: ApprovalRequest, approver: string, said: Said): ResolutionInput {
  resolutions += 1;
  return {
    ...said,
    decisionId: `resolution-${process.pid}-${resolutions}`,
    callId: request.callId,
    digest: request.digest,
    runId: request.runId,
    approver: { id: approver, groups: [] },
  };
}
