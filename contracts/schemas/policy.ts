/**
 * Policy: what may run at once, what waits for a person, what is refused.
 * First match wins inside a layer (tool, then server, then strategy); across layers the strictest verdict wins.
 */
import { z } from 'zod';
import { Identifier, Name } from './json.ts';

export const Action = z.enum(['allow', 'ask', 'deny']);
export type Action = z.infer<typeof Action>;

/** `always`: ask for every call; `never`: ask for none; `annotations`: ask unless a trusted server says `readOnlyHint: true`. */
export const Strategy = z.enum(['always', 'never', 'annotations']);
export type Strategy = z.infer<typeof Strategy>;

/** Who may decide: any of the ids, or a member of any of the groups. An empty list entitles nobody. */
export const ApproverList = z.strictObject({
  ids: z.array(Identifier).max(100).default([]),
  groups: z.array(Identifier).max(100).default([]),
  /** So many different people must agree; one where absent. */
  need: z.int().min(2).max(20).optional(),
  /** Four eyes: whoever started the run is none of them. */
  notInitiator: z.literal(true).optional(),
});
export type ApproverList = z.infer<typeof ApproverList>;

/** An original MCP tool name, as the server spells it. */
export const ToolName = z.string().min(1).max(128);

export const DeadlineSeconds = z.int().min(1).max(31_536_000);

/** What a layer, or one tool in it, may say of the time of a request. */
export const RequestTimes = z.strictObject({
  deadlineSeconds: DeadlineSeconds.optional(),
  /** An approval holds so long after the decision that completed it; what is to be sent later is asked again. */
  validForSeconds: DeadlineSeconds.optional(),
  /** Whoever may decide may postpone the deadline, to so long after the request opened. Nobody may where this is absent. */
  extendableToSeconds: DeadlineSeconds.optional(),
});

export type RequestTimes = z.infer<typeof RequestTimes>;

export const ToolPolicy = z.strictObject({
  action: Action,
  approvers: ApproverList.optional(),
  ...RequestTimes.shape,
});
export type ToolPolicy = z.infer<typeof ToolPolicy>;
export type ToolPolicyInput = z.input<typeof ToolPolicy>;

export const ServerPolicy = z.strictObject({
  default: Action.optional(),
  tools: z.record(ToolName, z.union([Action, ToolPolicy])).optional(),
});
export type ServerPolicy = z.infer<typeof ServerPolicy>;

export const Policy = z.strictObject({
  strategy: Strategy.optional(),
  servers: z.record(Name, ServerPolicy).optional(),
  approvers: ApproverList.optional(),
  ...RequestTimes.shape,
});
export type Policy = z.infer<typeof Policy>;
/** A policy as its author wrote it, defaults not applied. */
export type PolicyInput = z.input<typeof Policy>;

/** What only the operator may say. */
export const OrganisationPolicy = z.strictObject({
  ...Policy.shape,
  /** May a caller hand its own bearer token to a run (`scope: as given`)? */
  givenTokens: z.enum(['allow', 'deny']).default('allow'),
});
export type OrganisationPolicy = z.infer<typeof OrganisationPolicy>;

/** One list of a layer that asks. Every clause must be met; one person may count for more than one. */
export const ApproverClause = z.strictObject({
  layer: z.enum(['organisation', 'catalog', 'run', 'default']),
  ids: z.array(Identifier),
  groups: z.array(Identifier),
  /** So many different people; one where absent. */
  need: z.int().min(2).optional(),
  /** Who does not count, though named: four eyes. */
  not: z.array(Identifier).optional(),
});
export type ApproverClause = z.infer<typeof ApproverClause>;

export const ApproverRule = z.strictObject({
  allOf: z.array(ApproverClause).min(1),
  /** Several people may meet the clauses together. Without it, as in rules of the first release, each decider must meet all. */
  together: z.literal(true).optional(),
  /** Of the approval, from the decision that completed it. */
  validForSeconds: z.int().min(1).optional(),
  /** How far the deadline may be postponed, from the opening of the request. */
  extendableToSeconds: z.int().min(1).optional(),
});
export type ApproverRule = z.infer<typeof ApproverRule>;
