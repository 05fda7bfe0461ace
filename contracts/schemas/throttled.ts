/** A throttled call may run, but waits because of its server's limits. */
import { z } from 'zod';
import { ToolName } from './policy.ts';

/** The limit in force. `retry-after`: the server itself asked for time (RFC 9110 §10.2.3). */
export const HeldBy = z.enum(['concurrency', 'rate', 'retry-after', 'breaker']);
export type HeldBy = z.infer<typeof HeldBy>;

export const HeldCall = z.strictObject({
  callId: z.string(),
  server: z.string(),
  tool: ToolName,
  by: HeldBy,
  because: z.string(),
  since: z.string(),
  /** Time of the next attempt to get a place. */
  next: z.string(),
});
export type HeldCall = z.infer<typeof HeldCall>;
