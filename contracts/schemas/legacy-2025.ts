/** Features of MCP 2025-11-25: questions on an open connection, and calls that a server works on as tasks. */
import { z } from 'zod';
import { FormRequest, UrlRequest } from './input.ts';
import { ToolName } from './policy.ts';

/** The questions have no MAC here: the worker that asks compares them itself. */
const requests = z.record(
  z.string(),
  z.discriminatedUnion('kind', [FormRequest.omit({ mac: true }), UrlRequest.omit({ mac: true })]),
);

/** Argument of the update `inputAsked`, whose id `held/<callId>/<attempt>/<round>` makes a repeat the same one. */
export const HeldQuestions = z.strictObject({
  callId: z.string().regex(/^t[1-9][0-9]{0,5}\.c[0-9]{1,3}$/),
  attempt: z.int().positive(),
  /** Number of the dispatch's round of questions, from 1. */
  round: z.int().positive(),
  requests,
});
export type HeldQuestions = z.infer<typeof HeldQuestions>;

/** Tasks of one configured server. A tool that requires task execution is called so without being named here. */
export const TaskSettings = z.strictObject({
  /** Tools that are called as tasks if they declare that they may be. */
  optional: z.array(ToolName).max(1_000).default([]),
  /** Longest duration of a task; absent means the time limit of one call. */
  seconds: z.int().min(1).max(604_800).optional(),
});
export type TaskSettings = z.infer<typeof TaskSettings>;

export const RunningTask = z.strictObject({
  callId: z.string(),
  server: z.string(),
  tool: ToolName,
  since: z.string(),
  next: z.string(),
  /** Time at which the run gives the task up. */
  until: z.string(),
  polls: z.int(),
  /** The server's last message, scrubbed and bounded; or why it could not be polled. */
  message: z.string().optional(),
});
export type RunningTask = z.infer<typeof RunningTask>;
