/** What the gateway takes and answers about single calls. */
import { z } from 'zod';
import { RunId, StartRun } from '../http-api.ts';
import { CallSpec } from '../run-spec.ts';
import { CallAnswer } from '../run-state.ts';
import { ResultQuery, RunEnd } from './records.ts';

/** Without `initiator` and `signature`: who calls is who asks. */
export const StartCall = CallSpec.omit({ initiator: true, signature: true }).extend({
  runId: StartRun.shape.runId,
  ...ResultQuery.shape,
});
export type StartCall = z.infer<typeof StartCall>;

export const ShownCall = z.strictObject({
  runId: RunId,
  status: z.enum(['running', 'waiting', 'ended']),
  answer: CallAnswer.optional(),
  /** Why it has no answer: its run was stopped, reached a limit, failed or was cancelled. */
  failure: RunEnd.shape.failure,
  /** Page of this gateway on which people decide, while somebody is asked. */
  page: z.string().optional(),
});
export type ShownCall = z.infer<typeof ShownCall>;

export const StartedCall = ShownCall.extend({
  /** False if the same call was started before. */
  started: z.boolean(),
});
