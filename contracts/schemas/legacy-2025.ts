/** What the dispatch of a call tells its run of a question that a server asks on an open connection (`held-input.ts`). */
import { z } from 'zod';
import { FormRequest, UrlRequest } from './input.ts';
import { ToolName } from './policy.ts';

/** The worker that asks compares them itself. */
const requests = z.record(
  z.string(),
  z.discriminatedUnion('kind', [FormRequest.omit({ mac: true }), UrlRequest.omit({ mac: true })]),
);

/** Argument of the update `inputAsked`. Its id is `held/<callId>/<attempt>/<round>`, so that a repeat is the same one. */
export const HeldQuestions = z.strictObject({
  callId: z.string().regex(/^t[1-9][0-9]{0,5}\.c[0-9]{1,3}$/),
  /** The dispatch that asks. */
  attempt: z.int().positive(),
  /** Times that this dispatch has asked, from 1. */
  round: z.int().positive(),
  requests,
});
export type HeldQuestions = z.infer<typeof HeldQuestions>;

// Calls that a server works on as a task (MCP 2025-11-25, "Tasks"): nobody holds a connection while it does.

/** Of one configured server. What a tool says it needs is done without being said here. */
export const TaskSettings = z.strictObject({
  /** Tools that may be called as a task, and are: where they say themselves that they may. */
  optional: z.array(ToolName).max(1_000).default([]),
  /** How long a task may take, all in all; the time of one call where absent. */
  seconds: z.int().min(1).max(604_800).optional(),
});
export type TaskSettings = z.infer<typeof TaskSettings>;

/** A call that its server works on, as people see it. */
export const RunningTask = z.strictObject({
  callId: z.string(),
  server: z.string(),
  tool: ToolName,
  since: z.string(),
  /** When the server is asked next. */
  next: z.string(),
  /** When it is given up. */
  until: z.string(),
  /** Times that the server was asked. */
  polls: z.int(),
  /** What the server said last, in its own words, scrubbed and bounded; or why it could not be asked. */
  message: z.string().optional(),
});
export type RunningTask = z.infer<typeof RunningTask>;
