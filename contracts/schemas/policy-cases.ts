/** Policy cases are a table of calls with the verdicts that policy must give: documentation that is checked. */
import { z } from 'zod';
import { Identifier, Instant, JsonObject, Name } from './json.ts';
import { OrganisationPolicy, Policy } from './policy.ts';
import { COUNTED } from './run-state.ts';
import { ToolAnnotations } from './tool.ts';

export const PolicyCase = z.strictObject({
  name: z.string().min(1).max(200),
  /** `server/tool`, the tool as its server spells it. */
  call: z.string().regex(/^[A-Za-z0-9][A-Za-z0-9._-]{0,63}\/.{1,128}$/, 'must look like server/tool'),
  annotations: ToolAnnotations.optional(),
  initiator: Identifier.default('someone'),
  initiatorGroups: z.array(Identifier).max(100).default([]),
  tenant: Identifier.default('default'),
  args: JsonObject.default({}),
  turn: z.int().min(1).default(1),
  /** Time of judging; absent means now. */
  at: Instant.optional(),
  /** Outcomes of earlier calls: `server/tool` → kind → count. */
  earlier: z.record(z.string(), z.partialRecord(z.enum(COUNTED), z.int().min(0))).default({}),
  run: Policy.optional(),
  expect: z.enum(['allow', 'ask', 'deny']),
  rules: z.array(z.string()).min(1).optional(),
  /** Words that the explanation to approvers or to the model must contain. */
  told: z.string().optional(),
  /** The approvers in words: `2 of ann or group:ops, not ben`. */
  approvers: z.string().optional(),
  deadlineSeconds: z.int().positive().optional(),
});
export type PolicyCase = z.infer<typeof PolicyCase>;

const cases = z.array(PolicyCase).min(1).max(1_000);

export const PolicyCases = z.strictObject({
  groups: z
    .array(
      z.strictObject({
        name: z.string().min(1).max(200),
        /** Absent: the policy of the configuration. */
        policy: OrganisationPolicy.optional(),
        /** Servers whose annotations the operator trusts; absent: those of the configuration. */
        trusted: z.array(Name).optional(),
        cases,
      }),
    )
    .min(1)
    .max(100),
});
export type PolicyCases = z.infer<typeof PolicyCases>;
