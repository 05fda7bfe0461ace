/** Whose work is served first. */
import { z } from 'zod';
import { Identifier } from './json.ts';
import { Priority } from './run-spec.ts';

const turn = {
  /** Of a run that names none. */
  priority: Priority,
  /** A run that wants to be served before this gets this. */
  highest: Priority,
};

/** In which order Temporal serves what queues up (docs/operations/limits.md). */
export const Fairness = z.strictObject({
  priority: turn.priority.default(3),
  highest: turn.highest.default(3),
  /** A tenant of weight 2 gets twice what one of weight 1 gets, as long as both wait. */
  tenants: z
    .record(Identifier, z.strictObject({ weight: z.number().min(0.001).max(1_000).default(1), ...turn }).partial())
    .default({}),
});
export type Fairness = z.infer<typeof Fairness>;
