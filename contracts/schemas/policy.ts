/**
 * Policy says what may run at once, what waits for a person, and what is refused. First match wins inside a layer
 * (rules, lists, tool, server, strategy); across layers the strictest verdict wins.
 */
import { z } from 'zod';
import { Identifier, Instant, Name, people } from './json.ts';
import { NotifyRoutes } from './notify.ts';

export const Action = z.enum(['allow', 'ask', 'deny']);
export type Action = z.infer<typeof Action>;

/** `annotations`: ask unless a trusted server says `readOnlyHint: true`. */
export const Strategy = z.enum(['always', 'never', 'annotations']);

/** Rights of approvers besides approving and rejecting. */
export const DecisionRight = z.enum(['edit', 'respond']);
export type DecisionRight = z.infer<typeof DecisionRight>;

/** Extent of a remembered approval: these very arguments, some of them, or any call of the tool. */
export const RememberScope = z.enum(['call', 'arguments', 'tool']);
export type RememberScope = z.infer<typeof RememberScope>;

export const DeadlineSeconds = z.int().min(1).max(31_536_000);

/** The people who may decide: any of the ids, or a member of any of the groups. An empty list entitles nobody. */
export const PlainApproverList = z.strictObject({
  ...people,
  /** Number of different people who must agree; absent means one. */
  need: z.int().min(2).max(20).optional(),
  /** Four eyes: the run's initiator does not count. */
  notInitiator: z.literal(true).optional(),
  /** Editing the arguments (`edit`), and answering in the tool's place (`respond`). Absent: neither. */
  may: z.array(DecisionRight).max(2).optional(),
  /** Extents to which approvals may answer later calls of the run. Absent: none. */
  remember: z.array(RememberScope).max(3).optional(),
});

/** Approvers after the request has been open for this long: in addition to the former ones, or in their place. */
export const Escalation = z.union([
  z.strictObject({ afterSeconds: DeadlineSeconds, add: z.strictObject(people) }),
  z.strictObject({ afterSeconds: DeadlineSeconds, replace: z.strictObject(people) }),
]);

export const ApproverList = z
  .strictObject({
    ...PlainApproverList.shape,
    escalate: Escalation.optional(),
    /** Only the run's initiator confirms: for tools that act in their name. */
    onlyInitiator: z.literal(true).optional(),
  })
  .refine(
    ({ onlyInitiator, ids, groups, need, notInitiator, escalate }) =>
      onlyInitiator === undefined ||
      (ids.length + groups.length === 0 && (need ?? notInitiator ?? escalate) === undefined),
    {
      message: 'onlyInitiator stands alone: it means whoever started the run, and nobody else',
      path: ['onlyInitiator'],
    },
  );
export type ApproverList = z.infer<typeof ApproverList>;

/** An original MCP tool name, as the server spells it. */
export const ToolName = z.string().min(1).max(128);

/** Times of a request, as a layer or one tool in it may state them. */
export const RequestTimes = z.strictObject({
  deadlineSeconds: DeadlineSeconds.optional(),
  /** Validity of an approval, from the decision that completed it; a later dispatch asks again. */
  validForSeconds: DeadlineSeconds.optional(),
  /** Latest deadline after a postponement, from the opening of the request. Absent: nobody may postpone. */
  extendableToSeconds: DeadlineSeconds.optional(),
  /** Time after the opening at which the approvers are reminded once. */
  remindAfterSeconds: DeadlineSeconds.optional(),
});
export type RequestTimes = z.infer<typeof RequestTimes>;

export const ToolPolicy = z.strictObject({
  action: Action,
  approvers: ApproverList.optional(),
  ...RequestTimes.shape,
});
export type ToolPolicyInput = z.input<typeof ToolPolicy>;

export const ServerPolicy = z.strictObject({
  default: Action.optional(),
  tools: z.record(ToolName, z.union([Action, ToolPolicy])).optional(),
});

/** An exact name, or one with `*` for any characters, none included. There is no escape: a star is always a star. */
const Glob = z.string().min(1).max(128);

/** `server/tool`, both exact or with `*`; a server's name has no slash, a tool's may. */
const ToolGlob = z
  .string()
  .regex(/^[A-Za-z0-9._*-]{1,64}\/.{1,128}$/u, 'must look like server/tool, with * for any characters');

/**
 * The calls that a rule is about; all stated parts must match. A hint that the tool does not state has MCP's default; a
 * hint of an untrusted server may be true or false (`domain/policy/judge.ts`).
 */
export const RuleMatch = z.strictObject({
  server: Glob.optional(),
  tool: Glob.optional(),
  annotations: z
    .strictObject({
      readOnlyHint: z.boolean(),
      destructiveHint: z.boolean(),
      idempotentHint: z.boolean(),
      openWorldHint: z.boolean(),
    })
    .partial()
    .optional(),
});
export type RuleMatch = z.infer<typeof RuleMatch>;

/** UTF-16 units. */
export const LONGEST_CONDITION = 1_000;
export const MOST_RULES = 500;

const { action: _, ...asking } = ToolPolicy.shape;

export const PolicyRule = z.strictObject({
  /** Appears in verdicts as `<layer>/rules/<id>`. */
  id: Name,
  /** Absent: every call. */
  match: RuleMatch.optional(),
  /** A condition in CEL; see docs/guide/policy.md. */
  when: z.string().min(1).max(LONGEST_CONDITION).optional(),
  then: Action,
  /** Approvers and times, as for a tool. */
  ...asking,
  /** Told to the approvers, and to the model if the call is refused. */
  explain: z.string().min(1).max(500).optional(),
  /** No approval of a call that the rule matches answers a later call, whatever its approver lists permit. */
  neverRemember: z.literal(true).optional(),
});
export type PolicyRuleInput = z.input<typeof PolicyRule>;

function rulesOf<Rule extends z.ZodType<{ readonly id: string }>>(rule: Rule) {
  return z
    .array(rule)
    .max(MOST_RULES)
    .superRefine((rules, context) => {
      for (const [index, { id }] of rules.entries()) {
        if (rules.findIndex((other) => other.id === id) === index) continue;
        const message = 'stands in the list already; each rule needs its own';
        context.addIssue({ code: 'custom', path: [index, 'id'], message });
      }
    });
}

/** A halt stops every call, also countersigned ones. */
export const Halt = z.strictObject({
  reason: z.string().min(1).max(500),
  /** Absent: calls of every server. */
  servers: z.array(Name).min(1).max(100).optional(),
});
export type Halt = z.infer<typeof Halt>;

/** A rule that for a while lets calls pass that would be asked, and is announced loudly. */
export const BreakGlass = z.strictObject({
  reason: z.string().min(1).max(500),
  /** The rule has no effect from then on. */
  until: Instant,
});

export const OrganisationRule = z
  .strictObject({
    ...PolicyRule.shape,
    breakGlass: BreakGlass.optional(),
    /** Who is told of the requests of this rule, instead of `policy.notify`; an empty list tells nobody. */
    notify: NotifyRoutes.optional(),
  })
  .refine(({ breakGlass, then }) => breakGlass === undefined || then === 'allow', {
    path: ['then'],
    message: 'must be allow: breaking glass lets a call pass, and nothing else',
  });
export type OrganisationRule = z.infer<typeof OrganisationRule>;

export const UnknownOutcomes = z.enum(['ask', 'record']);

export const Policy = z.strictObject({
  rules: rulesOf(PolicyRule).optional(),
  /** Tools that ask. If one of the two lists exists, a tool in neither or in both asks. */
  always: z.array(ToolGlob).max(MOST_RULES).optional(),
  never: z.array(ToolGlob).max(MOST_RULES).optional(),
  strategy: Strategy.optional(),
  servers: z.record(Name, ServerPolicy).optional(),
  approvers: ApproverList.optional(),
  /** If a server requires another authorization: ask people for it (default), or let the call fail. */
  missingAuthorization: z.enum(['ask', 'fail']).optional(),
  /** If a call was sent and its answer lost: ask a person for the outcome (default), or record that nobody knows. */
  unknownOutcomes: UnknownOutcomes.optional(),
  ...RequestTimes.shape,
});
export type Policy = z.infer<typeof Policy>;
/** A policy as its author wrote it, defaults not applied. */
export type PolicyInput = z.input<typeof Policy>;

/** Arguments kept out of lists, summaries and lasting records; see docs/guide/policy.md. */
export const Redaction = z.strictObject({
  /** Absent: every server. */
  server: Name.optional(),
  /** Absent: every tool. */
  tool: ToolName.optional(),
  /** Top-level names, or JSON pointers; `*` as a part stands for every member. */
  arguments: z.array(z.string().min(1).max(200)).min(1).max(50),
});
export type Redaction = z.infer<typeof Redaction>;

export const IdCase = z.enum(['matters', 'ignored']);
export type IdCase = z.infer<typeof IdCase>;

/** An organisation's policy, with settings that only the operator may state. */
export const OrganisationPolicy = z.strictObject({
  ...Policy.shape,
  rules: rulesOf(OrganisationRule).optional(),
  halt: Halt.optional(),
  /** `allow` lets a caller hand its own bearer token to a run (`scope: as given`). */
  givenTokens: z.enum(['allow', 'deny']).default('allow'),
  redact: z.array(Redaction).max(200).optional(),
  /** `trusted-reads`: tools that a trusted server marks `readOnlyHint` may be called again, too. */
  repeatable: z.enum(['listed', 'trusted-reads']).optional(),
  /** All groups that people can be in. If stated, lists with another group are reported; no verdict depends on it. */
  groups: z.array(Identifier).min(1).max(1_000).optional(),
  /** Who is told of requests; see docs/guide/messages.md. Absent: nobody. */
  notify: NotifyRoutes.optional(),
  /** `ignored`: ids of people that differ in the case of letters only are one person. Absent: `matters`. */
  idCase: IdCase.optional(),
});
export type OrganisationPolicy = z.infer<typeof OrganisationPolicy>;

const named = { ids: z.array(Identifier), groups: z.array(Identifier) };

/** One approver list of a layer that asks. Every clause must be met; one person may count for more than one. */
export const ApproverClause = z.strictObject({
  layer: z.enum(['organisation', 'catalog', 'run', 'default']),
  ...named,
  /** Number of different people; absent means one. */
  need: z.int().min(2).optional(),
  /** People who do not count although named: four eyes. */
  not: z.array(Identifier).optional(),
  /** Rights besides approving and rejecting; a rule permits what all of its clauses permit. */
  may: z.array(DecisionRight).optional(),
  /** Later approvers: `need` and `not` stay. */
  escalate: z
    .union([
      z.strictObject({ afterSeconds: DeadlineSeconds, add: z.strictObject(named) }),
      z.strictObject({ afterSeconds: DeadlineSeconds, replace: z.strictObject(named) }),
    ])
    .optional(),
  /** Extents of remembered approvals; a rule permits what all of its clauses permit. */
  remember: z.array(RememberScope).optional(),
});
export type ApproverClause = z.infer<typeof ApproverClause>;

export const ApproverRule = z.strictObject({
  allOf: z.array(ApproverClause).min(1),
  /** Several people may meet the clauses together (policy: rules with several clauses). Else each must meet all. */
  together: z.literal(true).optional(),
  /** The policy's word at the time of asking; a request keeps it. Absent: the case of ids matters. */
  idCase: z.literal('ignored').optional(),
  /** Validity of the approval, from the decision that completed it. */
  validForSeconds: z.int().min(1).optional(),
  /** Latest deadline after a postponement, from the opening of the request. */
  extendableToSeconds: z.int().min(1).optional(),
  /** Seconds from the opening of the request. */
  remindAfterSeconds: z.int().min(1).optional(),
});
export type ApproverRule = z.infer<typeof ApproverRule>;
