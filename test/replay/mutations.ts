/** Changes that would break waiting runs, by the layer that must notice. */
import { DECISION_COMMANDS, DECISION_CONTENT, DECISION_REFUSALS } from './decision-mutations.ts';
import { HELD_COMMANDS, HELD_CONTENT } from './held-mutations.ts';
import type { Mutation } from './mutant.ts';

/** Other commands, or in another order: Temporal's replay fails. */
export const OTHER_COMMANDS: readonly Mutation[] = [
  ...DECISION_COMMANDS,
  ...HELD_COMMANDS,
  {
    name: 'one of two is enough',
    file: 'domain/approver.ts',
    find: 'return Math.max(0, (clause.need ?? 1) - people.size);',
    put: 'return Math.max(0, 1 - people.size);',
  },
  {
    name: 'a catalog asks nobody who may',
    file: 'workflows/live-catalog.ts',
    find: 'const review = await reviewActivities().reviewChange({ tenant, server, ...wanted, ...known });',
    put: "const review = { rules: { administrators: [{ ids: ['ann'], groups: [], may: ['connect', 'loosen', 'tighten'] as const }], newTools: 'ask' as const, loosening: 'allow' as const }, objections: [] } as unknown as Review; reviewActivities(); void [tenant, server, wanted, known];",
  },
  {
    name: 'a message that interrupts withdraws nothing',
    file: 'domain/talk.ts',
    find: 'if (by === undefined) return { run, facts: [] };',
    put: "if (by === undefined || by.text !== '') return { run, facts: [] };",
  },
  {
    name: 'a run spends more than it may',
    file: 'domain/limits.ts',
    find: 'if (most !== undefined && (run.spent ?? most) >= most)',
    put: 'if (most !== undefined && (run.spent ?? most) > most * 2)',
  },
  {
    name: 'a rejected call is asked again',
    file: 'domain/repeats.ts',
    find: 'refusals.find((refusal) => refusal.key === key)?.outcome;',
    put: "refusals.find((refusal) => refusal.key === '' + key + ' ')?.outcome;",
  },
  {
    name: 'an activity before the model step',
    file: 'workflows/turn.ts',
    find: '  const step = await modelStep({',
    put: "  await runActivities('').storeSegment({} as never);\n  const step = await modelStep({",
  },
  {
    name: 'a call goes to another activity',
    file: 'workflows/settle-call.ts',
    find: 'const { callTool } = callActivities(',
    put: 'const { callToolFast: callTool } = callActivities(',
  },
  {
    name: 'what waits is not shown in visibility',
    file: 'workflows/surface.ts',
    find: '    this.#showAttributes();\n',
    put: '',
  },
  {
    name: 'a request has no deadline',
    file: 'workflows/settle-call.ts',
    find: 'await condition(() => !isAsking() || live.rolling, left, { summary });',
    put: '(await condition(() => !isAsking() || live.rolling), summary !== "" && left > 0);',
  },
  {
    name: 'a reminder ends the request',
    file: 'workflows/settle-call.ts',
    find: 'if (step !== undefined && Date.now() < request.deadline)',
    put: 'if (step !== undefined && Date.now() > request.deadline)',
  },
  {
    name: 'a call is sent before anybody has decided',
    file: 'domain/call-state.ts',
    find: "if (verdict.kind === 'allow') return",
    put: "if (verdict.kind === 'allow' || verdict.kind === 'ask') return",
  },
  {
    name: 'a run sleeps before it starts',
    file: 'workflows/agent-run.ts',
    find: '    count();\n    ending',
    put: '    await sleep(1_000);\n    count();\n    ending',
  },
];

/** The same commands that carry something else: only the comparison of what they carry notices. */
export const OTHER_CONTENT: readonly Mutation[] = [
  ...DECISION_CONTENT,
  ...HELD_CONTENT,
  {
    name: 'a call that policy denies has a share of the room of its turn',
    file: 'domain/limits.ts',
    find: 'calls.filter((state) => !isDenied(state)).length',
    put: 'calls.length',
  },
  {
    name: 'a run of an earlier release has a room of a turn',
    file: 'domain/limits.ts',
    find: 'if (resultBytesPerTurn === undefined) return { resultBytes };',
    put: 'if (resultBytesPerTurn === undefined) return { resultBytes: Math.min(resultBytes, 255) };',
  },
  {
    name: 'the ledger does not say where the conversation stood',
    file: 'workflows/live-run.ts',
    find: 'isMarked ? marked(said, this.journal) : said',
    put: 'isMarked ? said : said',
  },
  {
    name: 'the ledger of an older run says where the conversation stood',
    file: 'workflows/live-run.ts',
    find: "this.#prepared?.messages === 'hashed'",
    put: 'true',
  },
  {
    name: 'the next execution of a catalog forgets its policy',
    file: 'workflows/live-catalog.ts',
    find: 'return { version: CATALOG_CARRY_VERSION, catalog: this.catalog, journal };',
    put: 'return { version: CATALOG_CARRY_VERSION, catalog: { ...this.catalog, entries: [] }, journal };',
  },
  {
    name: 'a dispatch is not told of the calls before it',
    file: 'workflows/dispatch-input.ts',
    find: 'earlierThan(live.earlier.earlier, live.run.calls, call.callId)',
    put: 'earlierThan(live.earlier.earlier, [], call.callId)',
  },
  {
    name: 'a turn that is over is not counted',
    file: 'workflows/turn.ts',
    find: 'closeTurn(live.run, live.prepared.tally)',
    put: 'closeTurn(live.run)',
  },
  {
    name: 'other tool arguments are sent',
    file: 'workflows/dispatch-input.ts',
    find: '    arguments: call.arguments,\n',
    put: '    arguments: { ...call.arguments, force: true },\n',
  },
  {
    name: 'a call may be sent twice',
    file: 'workflows/activity-stubs.ts',
    find: 'retry: { maximumAttempts: 1 }',
    put: 'retry: { maximumAttempts: 2 }',
  },
  {
    name: 'a call may take longer',
    file: 'workflows/activity-stubs.ts',
    find: 'callTimeoutSeconds * 1_000 + 90_000',
    put: 'callTimeoutSeconds * 1_000 + 3_600_000',
  },
  {
    name: 'a request waits longer',
    file: 'domain/call-state.ts',
    find: 'deadline: at + verdict.deadlineSeconds * 1_000',
    put: 'deadline: at + verdict.deadlineSeconds * 2_000',
  },
  {
    name: 'a postponed request keeps its deadline',
    file: 'domain/extension.ts',
    find: 'deadline: Date.parse(decision.until),',
    put: 'deadline: request.deadline,',
  },
  {
    name: 'what was told is told again',
    file: 'domain/steps.ts',
    find: 'return told === undefined || at > told;',
    put: 'return told === undefined || at >= told;',
  },
  {
    name: 'a vote forgets when it was given',
    file: 'workflows/dispatch-input.ts',
    find: 'further: further.map(({ decidedAt }) => instant(decidedAt)) }',
    put: 'further: further.map(() => instant(openedAt)) }',
  },
  {
    name: 'the model does not see what happened',
    file: 'workflows/turn.ts',
    find: 'return { base: { ...seen, ...segment }, tail };',
    put: 'return { base: { ...seen, ...segment }, tail: [] };',
  },
  {
    name: 'the next execution does not know the earlier ones',
    file: 'workflows/live-run.ts',
    find: 'earlier: carriedExecutions(this.#execution)',
    put: 'earlier: []',
  },
  {
    name: 'the answer to a decision names somebody else',
    file: 'domain/decision.ts',
    find: '    decidedBy: decision.approver.id,\n    decidedAt: new',
    put: "    decidedBy: 'system',\n    decidedAt: new",
  },
];

/** Nothing that was recorded changes, only what is let through: only asking again notices. */
export const OTHER_REFUSALS: readonly Mutation[] = [
  ...DECISION_REFUSALS,
  {
    name: 'a rule of the first release is met by several together',
    file: 'domain/approver.ts',
    find: 'return rule.together === true ? rule.allOf.some(isNamed) : rule.allOf.every(isNamed);',
    put: 'return rule.allOf.some(isNamed);',
  },
  {
    name: 'a deadline may be postponed for ever',
    file: 'domain/extension.ts',
    find: 'if (wanted > latest)',
    put: "if (wanted > latest && callId === '')",
  },
  {
    name: 'a message id stands for any message',
    file: 'domain/talk.ts',
    find: 'if (known === undefined || known === hashOfSaid(say)) return undefined;',
    put: "if (known === undefined || hashOfSaid(say) !== '') return undefined;",
  },
  {
    name: 'who is asked later may decide at once',
    file: 'domain/approver.ts',
    find: 'if (!isLater(escalate, after)) return { ids, groups };',
    put: "if (!isLater(escalate, after)) return { ids: escalate === undefined ? ids : [...ids, 'zoe'], groups };",
  },
  {
    name: 'one person may agree twice',
    file: 'domain/decision.ts',
    find: '  if (own !== undefined) {',
    put: "  if (own !== undefined && callId === '') {",
  },
  {
    name: 'a catalog takes a change of any version',
    file: 'domain/catalog-policy.ts',
    find: 'if (expected === catalog.policyVersion) return undefined;',
    put: 'if (expected >= 0) return undefined;',
  },
  {
    name: 'anybody may write to a catalog',
    file: 'workflows/catalog-handlers.ts',
    find: 'if (rules !== undefined && rightsOf(rules, message.by).size === 0)',
    put: "if (rules !== undefined && rightsOf(rules, message.by).size === 0 && message.by.id === '')",
  },
  {
    name: 'decisions made before a reset count',
    file: 'workflows/handlers.ts',
    find: '(madeInTime(decision, live.decidedIn) ?? refuseFlood(live, decision))',
    put: 'refuseFlood(live, decision)',
  },
  {
    name: 'any digest will do',
    file: 'domain/closed-request.ts',
    find: 'if (digestOf(state, { ...ids, runId }) !== digest)',
    put: "if (digestOf(state, { ...ids, runId }) === '')",
  },
  {
    name: 'anybody may decide',
    file: 'domain/approver.ts',
    find: 'return ids.includes(voter.id) || groups.some((group) => voter.groups.includes(group));',
    put: "return ids.length + groups.length > 0 || voter.id === '';",
  },
  {
    name: 'nobody may decide',
    file: 'workflows/handlers.ts',
    find: '      if (refusal !== undefined) throw',
    put: "      if (refusal === undefined) throw failureOf('REQUEST_NOT_OPEN', 'Closed for today.');\n      if (refusal !== undefined) throw",
  },
];
