/** A call that may run and is held back by the limits of its server. */
import { z } from 'zod';
import { ToolName } from './policy.ts';

/** What holds it. `retry-after`: the server itself asked for time (RFC 9110 §10.2.3). */
export const HeldBy = z.enum(['concurrency', 'rate', 'retry-after', 'breaker']);
export type HeldBy = z.infer<typeof HeldBy>;

export const HeldCall = z.strictObject({
  callId: z.string(),
  server: z.string(),
  tool: ToolName,
  by: HeldBy,
  because: z.string(),
  since: z.string(),
  /** When it asks again. */
  next: z.string(),
});
export type HeldCall = z.infer<typeof HeldCall>;
