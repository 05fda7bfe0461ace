/**
 * The judge: what policy says of one call.
 *
 * 1. First match wins in a layer (`policy-layer.ts`). Across layers the strictest verdict wins.
 * 2. Fail closed (INV-G4): without a policy every call is asked; a strategy nobody knows asks; a condition that nobody can
 *    evaluate matches for what asks or denies.
 * 3. A server's annotations exempt a call only where the operator trusts the server, and only a boolean
 *    `readOnlyHint: true` does (MCP spec: annotations are untrusted).
 * 4. The layers of run and catalog can only tighten: they have no say where they state nothing.
 */
import type { Verdict } from '../contracts/schemas/call.ts';
import type {
  Action,
  ApproverClause,
  OrganisationPolicy,
  PolicyInput,
  ToolPolicyInput,
} from '../contracts/schemas/policy.ts';
import type { CatalogSay } from './catalog-layer.ts';
import { clauseOf, initiatorRule } from './clause.ts';
import { DEFAULT_DEADLINE_SECONDS } from './default-deadline.ts';
import { glassFor, haltedBy } from './emergency.ts';
import { visible } from './escape.ts';
import {
  type AskCondition,
  type CalledTool,
  type Considered,
  consider,
  DEFAULT,
  type LayerName,
  statesDefault,
} from './policy-layer.ts';
import { ruleTimes, type StatedTimes } from './rule-times.ts';

/** Defaults may be missing, as in a policy that nobody wrote. */
export type Organisation = Omit<OrganisationPolicy, 'givenTokens'>;

export interface PolicyLayers {
  readonly organisation: Organisation;
  /** As its starter wrote it: the workflow passes on what it got, so defaults may be missing. */
  readonly run: PolicyInput | undefined;
  /** Where the server stands in a catalog. */
  readonly catalog?: CatalogSay;
}

export type JudgedTool = CalledTool;

interface LayerVerdict {
  readonly layer: LayerName;
  readonly policy: PolicyInput;
  readonly action: Action;
  readonly rule: string;
  readonly entry?: Omit<ToolPolicyInput, 'action'>;
  readonly explain?: string;
}

/**
 * @param ask conditions of rules; nobody who could evaluate them is there where absent
 * @param now epoch ms; where absent, nothing breaks glass
 */
export function judge(
  layers: PolicyLayers,
  tool: JudgedTool,
  initiatorId: string,
  ask: AskCondition = () => 'unknown',
  now = Number.POSITIVE_INFINITY,
): Verdict {
  const halted = haltedBy(layers.organisation.halt, tool);
  if (halted !== undefined) return halted;
  // What is disabled or gone is said as such, whatever else holds.
  if (layers.catalog?.kind === 'deny') {
    const { rule, code, message } = layers.catalog;
    return { kind: 'deny', rules: [rule], code, message };
  }
  const verdicts = judgeLayer('organisation', layers.organisation, consider(layers.organisation, tool, ask));
  if (layers.catalog?.kind === 'ask') verdicts.push(askOf(layers.catalog));
  if (layers.run !== undefined) verdicts.push(...judgeRun(layers.run, tool, ask));
  const denied = verdicts.filter(({ action }) => action === 'deny');
  if (denied.length > 0) {
    const rules = denied.map(({ rule }) => rule);
    return {
      kind: 'deny',
      rules,
      code: 'POLICY_DENIED',
      message: [
        `${tool.server}/${tool.tool} is denied by ${rules.join(', ')}.`,
        ...denied.flatMap(({ explain }) => (explain === undefined ? [] : [visible(explain)])),
      ].join(' '),
    };
  }
  const asked = verdicts.filter(({ action }) => action === 'ask');
  // Where the run asks, somebody is asked: then those are whom everybody names, and nobody gets rid of the others.
  const isGlassAsked = asked.length > 0 && asked.every(({ layer }) => layer !== 'run');
  const glass = isGlassAsked ? glassFor(layers.organisation.rules ?? [], tool, ask, now) : undefined;
  if (asked.length === 0 || glass !== undefined) {
    const rules = verdicts.map(({ rule }) => rule);
    return glass === undefined
      ? { kind: 'allow', rules }
      : { kind: 'allow', rules: [`${glass.rule} (break glass)`, ...rules], breakGlass: glass };
  }
  const stated = statedBy(asked, layers);
  const clauses = distinct(
    stated.flatMap(({ layer, approvers }) =>
      approvers === undefined ? [] : [clauseOf(layer, approvers, initiatorId)],
    ),
  );
  const deadlineSeconds = shortest(asked, stated);
  const explain = asked.flatMap(({ rule, explain: text }) => (text === undefined ? [] : [{ rule, text }]));
  return {
    kind: 'ask',
    rules: asked.map(({ rule }) => rule),
    approvers: {
      allOf: clauses.length > 0 ? clauses : initiatorRule(initiatorId).allOf,
      ...(clauses.length > 1 ? { together: true as const } : {}),
      ...ruleTimes(stated, deadlineSeconds),
    },
    deadlineSeconds,
    ...(explain.length === 0 ? {} : { explain }),
  };
}

function askOf(say: Extract<CatalogSay, { kind: 'ask' }>): LayerVerdict {
  return {
    layer: 'catalog',
    policy: {},
    action: 'ask',
    rule: say.rule,
    entry: ruleOf(say),
  };
}

function ruleOf({
  approvers,
  deadlineSeconds,
}: Exclude<CatalogSay, { kind: 'deny' }>): Omit<ToolPolicyInput, 'action'> {
  return {
    ...(approvers === undefined ? {} : { approvers }),
    ...(deadlineSeconds === undefined ? {} : { deadlineSeconds }),
  };
}

/** Those that decide: one, and before it what asks because nobody could tell whether it matches. */
function judgeLayer(layer: LayerName, policy: PolicyInput, considered: readonly Considered[]): LayerVerdict[] {
  return considered
    .filter(({ decides }) => decides)
    .map(({ rule, action, entry, explain, holds }) => ({
      layer,
      policy,
      action,
      rule: `${layer}/${rule}${UNCERTAIN[String(holds)] ?? ''}`,
      ...(entry === undefined ? {} : { entry }),
      ...(explain === undefined ? {} : { explain }),
    }));
}

const UNCERTAIN: Readonly<Record<string, string>> = { failed: ' (condition failed)', unknown: ' (not known)' };

/** A run has a say where it states something. */
function judgeRun(policy: PolicyInput, tool: JudgedTool, ask: AskCondition): LayerVerdict[] {
  const considered = consider(policy, tool, ask);
  const isSilent = policy.strategy === undefined && !statesDefault(policy, tool.server);
  return judgeLayer('run', policy, isSilent ? considered.filter(({ rule }) => rule !== DEFAULT) : considered);
}

/** Two rules of a layer that name the same people need them once. */
function distinct(clauses: readonly ApproverClause[]): ApproverClause[] {
  return [...new Map(clauses.map((clause) => [JSON.stringify(clause), clause])).values()];
}

interface Statement extends StatedTimes {
  readonly layer: LayerName;
  readonly approvers: PolicyInput['approvers'];
}

/** The catalog gives no more time than there is without it: where another layer asks and is silent, that is 24 hours. */
function shortest(asked: readonly LayerVerdict[], stated: readonly Statement[]): number {
  const deadlines = stated.flatMap(({ deadlineSeconds }) => deadlineSeconds ?? []);
  const isOnlyCatalogs = asked.every(({ layer }) => layer === 'catalog');
  const isOtherwiseSilent = stated.every((each) => each.layer === 'catalog' || each.deadlineSeconds === undefined);
  if (deadlines.length === 0 || (isOtherwiseSilent && !isOnlyCatalogs)) deadlines.push(DEFAULT_DEADLINE_SECONDS);
  return Math.min(...deadlines);
}

/** Who and until when: from each layer that asks, and from a layer of run or catalog that says only that. */
function statedBy(asked: readonly LayerVerdict[], { run, catalog }: PolicyLayers): Statement[] {
  const stated = asked.map(({ layer, policy, entry }) => statementOf(layer, policy, entry));
  if (catalog?.kind === 'nothing') stated.push(statementOf('catalog', {}, ruleOf(catalog)));
  if (run !== undefined && asked.every(({ layer }) => layer !== 'run')) stated.push(statementOf('run', run));
  return stated;
}

function statementOf(layer: LayerName, policy: PolicyInput, entry?: LayerVerdict['entry']): Statement {
  return {
    layer,
    approvers: entry?.approvers ?? policy.approvers,
    // Silence of the organisation means 24 hours, which a run may shorten; silence of a run takes no time away.
    deadlineSeconds:
      entry?.deadlineSeconds ??
      policy.deadlineSeconds ??
      (layer === 'organisation' ? DEFAULT_DEADLINE_SECONDS : undefined),
    validForSeconds: entry?.validForSeconds ?? policy.validForSeconds,
    extendableToSeconds: entry?.extendableToSeconds ?? policy.extendableToSeconds,
    remindAfterSeconds: entry?.remindAfterSeconds ?? policy.remindAfterSeconds,
  };
}
