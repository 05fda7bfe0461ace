/**
 * The judge computes the verdict of policy on one call.
 *
 * 1. First match wins in a layer (`domain/policy/layer.ts`). Across layers the strictest verdict wins.
 * 2. Fail closed (INV-G4): without a policy, or with an unknown strategy, every call is asked. A condition that cannot
 *    be evaluated matches for rules that ask or deny.
 * 3. A server's annotations exempt a call only if the operator trusts the server, and only a boolean `readOnlyHint:
 *    true` does (MCP spec: annotations are untrusted).
 * 4. The layers of run and catalog can only tighten: a layer that states nothing gives no verdict.
 */
import type { Verdict } from '../../contracts/schemas/call.ts';
import type {
  Action,
  ApproverClause,
  OrganisationPolicy,
  PolicyInput,
  ToolPolicyInput,
} from '../../contracts/schemas/policy.ts';
import { visible } from '../text/escape.ts';
import { clauseOf, initiatorRule } from './approvers.ts';
import type { CatalogSay } from './catalog-layer.ts';
import { glassFor, haltedBy } from './emergency.ts';
import {
  type AskCondition,
  type CalledTool,
  consider,
  type Considered,
  DEFAULT,
  type LayerName,
  statesDefault,
} from './layer.ts';
import { DEFAULT_DEADLINE_SECONDS, ruleTimes, type StatedTimes } from './times.ts';

/** The organisation's policy as judged; without a written policy, defaults may be missing. */
export type Organisation = Omit<OrganisationPolicy, 'givenTokens'>;

export interface PolicyLayers {
  readonly organisation: Organisation;
  /** The run's policy as its starter wrote it: the workflow passes it on unchanged, so defaults may be missing. */
  readonly run: PolicyInput | undefined;
  /** The catalog's verdict, if the server is in a catalog. */
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
 * Judges one call.
 * @param ask evaluates conditions of rules; the default is for callers without an evaluator
 * @param now epoch ms; the default breaks no glass
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
  // A disabled or missing tool is reported as such, whatever else holds.
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
  // A question of the run stays, with the approvers that every layer names: a run must not remove other approvers.
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

/** Returns the rule that decides, after those that ask because their match is uncertain. */
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

/** A run gives a verdict only if its policy states something for the call. */
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

/**
 * Returns the shortest stated deadline. The catalog never extends it: if another layer asks and is silent, 24 hours
 * count.
 */
function shortest(asked: readonly LayerVerdict[], stated: readonly Statement[]): number {
  const deadlines = stated.flatMap(({ deadlineSeconds }) => deadlineSeconds ?? []);
  const isOnlyCatalogs = asked.every(({ layer }) => layer === 'catalog');
  const isOtherwiseSilent = stated.every((each) => each.layer === 'catalog' || each.deadlineSeconds === undefined);
  if (deadlines.length === 0 || (isOtherwiseSilent && !isOnlyCatalogs)) deadlines.push(DEFAULT_DEADLINE_SECONDS);
  return Math.min(...deadlines);
}

/** Collects approvers and times from each layer that asks, and from a run or catalog layer that states only those. */
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
