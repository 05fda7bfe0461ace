/** A scripted model answers step by step from such a script: for tests, demos and benches. */
import { z } from 'zod';
import { JsonObject } from './json.ts';

const ScriptedCall = z.strictObject({ tool: z.string().min(1), arguments: JsonObject.default({}) });
/** Condition of a branch; every stated part must hold. */
const ScriptedCondition = z.strictObject({
  /** Index of a call of the previous turn, from 0; default any. */
  call: z.int().min(0).optional(),
  outcome: z
    .enum(['succeeded', 'failed', 'denied', 'rejected', 'expired', 'cancelled', 'unknown', 'answered'])
    .optional(),
  textIncludes: z.string().optional(),
});
const ScriptedAction = z.strictObject({
  text: z.string().optional(),
  /** Tools as `server/tool`; `{{turn}}` in any string becomes the turn's number. */
  calls: z.array(ScriptedCall).default([]),
});
/** One model step. The first branch whose condition holds is taken, else the step itself. */
export const ScriptedStep = z.strictObject({
  ...ScriptedAction.shape,
  branches: z.array(z.strictObject({ when: ScriptedCondition, then: ScriptedAction })).default([]),
  /** Number of turns that the step stands for. */
  repeat: z.int().min(1).max(10_000).default(1),
});
export type ScriptedStep = z.infer<typeof ScriptedStep>;
export const Script = z.strictObject({ steps: z.array(ScriptedStep).min(1) });
export type Script = z.infer<typeof Script>;
