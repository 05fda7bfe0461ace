/**
 * The judge: what policy says of one call.
 *
 * 1. First match wins in a layer: tool, then server, then strategy. Across layers the strictest verdict wins.
 * 2. Fail closed (INV-G4): without a policy every call is asked; a strategy nobody knows asks.
 * 3. A server's annotations exempt a call only where the operator trusts the server, and only a boolean
 *    `readOnlyHint: true` does (MCP spec: annotations are untrusted).
 * 4. The layers of run and catalog can only tighten: they have no say where they state nothing.
 */
import type { Verdict } from '../contracts/schemas/call.ts';
import type { Action, ApproverClause, Policy, PolicyInput, ToolPolicyInput } from '../contracts/schemas/policy.ts';
import type { ToolAnnotations } from '../contracts/schemas/tool.ts';
import type { CatalogSay } from './catalog-layer.ts';
import { ruleTimes, type StatedTimes } from './rule-times.ts';

/** 24 hours, see docs/adr/0010. */
export const DEFAULT_DEADLINE_SECONDS = 86_400;

export interface PolicyLayers {
  readonly organisation: Policy;
  /** As its starter wrote it: the workflow passes on what it got, so defaults may be missing. */
  readonly run: PolicyInput | undefined;
  /** Where the server stands in a catalog. */
  readonly catalog?: CatalogSay;
}

export interface JudgedTool {
  readonly server: string;
  /** Original name. */
  readonly tool: string;
  readonly annotations: ToolAnnotations | undefined;
  /** The operator's word, not the server's. */
  readonly serverTrusted: boolean;
}

type LayerName = 'organisation' | 'catalog' | 'run';

interface LayerVerdict {
  readonly layer: LayerName;
  readonly policy: PolicyInput;
  readonly action: Action;
  readonly rule: string;
  readonly entry?: ToolPolicyInput;
}

export function judge(layers: PolicyLayers, tool: JudgedTool, initiatorId: string): Verdict {
  // What is disabled or gone is said as such, whatever else holds.
  if (layers.catalog?.kind === 'deny') {
    const { rule, code, message } = layers.catalog;
    return { kind: 'deny', rules: [rule], code, message };
  }
  const verdicts = [judgeLayer('organisation', layers.organisation, tool)];
  if (layers.catalog?.kind === 'ask') verdicts.push(askOf(layers.catalog));
  if (layers.run !== undefined && speaks(layers.run, tool.server)) verdicts.push(judgeLayer('run', layers.run, tool));
  const denied = verdicts.filter(({ action }) => action === 'deny');
  if (denied.length > 0) {
    const rules = denied.map(({ rule }) => rule);
    return {
      kind: 'deny',
      rules,
      code: 'POLICY_DENIED',
      message: `${tool.server}/${tool.tool} is denied by ${rules.join(', ')}.`,
    };
  }
  const asked = verdicts.filter(({ action }) => action === 'ask');
  if (asked.length === 0) return { kind: 'allow', rules: verdicts.map(({ rule }) => rule) };
  const stated = statedBy(asked, layers);
  const clauses = stated.flatMap(({ layer, approvers }) =>
    approvers === undefined ? [] : [clauseOf(layer, approvers, initiatorId)],
  );
  const deadlineSeconds = shortest(asked, stated);
  return {
    kind: 'ask',
    rules: asked.map(({ rule }) => rule),
    // Nobody named: the person who started the run decides.
    approvers: {
      allOf: clauses.length > 0 ? clauses : [{ layer: 'default', ids: [initiatorId], groups: [] }],
      ...(clauses.length > 1 ? { together: true as const } : {}),
      ...ruleTimes(stated, deadlineSeconds),
    },
    deadlineSeconds,
  };
}

function askOf(say: Extract<CatalogSay, { kind: 'ask' }>): LayerVerdict {
  return {
    layer: 'catalog',
    policy: {},
    action: 'ask',
    rule: say.rule,
    entry: { action: 'ask', ...ruleOf(say) },
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

function judgeLayer(
  layer: LayerName,
  policy: PolicyInput,
  { server, tool, annotations, serverTrusted }: JudgedTool,
): LayerVerdict {
  const ofServer = own(policy.servers, server);
  const ofTool = own(ofServer?.tools, tool);
  if (ofTool !== undefined) {
    const entry = typeof ofTool === 'string' ? { action: ofTool } : ofTool;
    return { layer, policy, action: known(entry.action), rule: `${layer}/servers/${server}/tools/${tool}`, entry };
  }
  if (ofServer?.default !== undefined) {
    return { layer, policy, action: known(ofServer.default), rule: `${layer}/servers/${server}/default` };
  }
  const { action, rule } = byStrategy(policy.strategy, serverTrusted && own(annotations, 'readOnlyHint') === true);
  return { layer, policy, action, rule: `${layer}/${rule}` };
}

function byStrategy(strategy: string | undefined, readOnly: boolean): { action: Action; rule: string } {
  switch (strategy) {
    case 'never':
      return { action: 'allow', rule: 'strategy/never' };
    case 'annotations':
      return readOnly
        ? { action: 'allow', rule: 'strategy/annotations/read-only' }
        : { action: 'ask', rule: 'strategy/annotations' };
    case 'always':
      return { action: 'ask', rule: 'strategy/always' };
    default:
      return { action: 'ask', rule: 'default' };
  }
}

/** An action that nobody knows, as a stored policy of a later version may hold, asks. */
function known(action: string): Action {
  return action === 'allow' || action === 'deny' ? action : 'ask';
}

/** Does the run's layer state anything about this server? A layer that only names approvers tightens who, not what. */
function speaks(policy: PolicyInput, server: string): boolean {
  return policy.strategy !== undefined || own(policy.servers, server) !== undefined;
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
  if (catalog?.kind === 'nothing') stated.push(statementOf('catalog', {}, { action: 'ask', ...ruleOf(catalog) }));
  if (run !== undefined && asked.every(({ layer }) => layer !== 'run')) stated.push(statementOf('run', run));
  return stated;
}

function statementOf(layer: LayerName, policy: PolicyInput, entry?: ToolPolicyInput): Statement {
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
  };
}

function clauseOf(
  layer: LayerName,
  { ids = [], groups = [], need, notInitiator }: NonNullable<PolicyInput['approvers']>,
  initiatorId: string,
): ApproverClause {
  return {
    layer,
    ids,
    groups,
    ...(need === undefined ? {} : { need }),
    ...(notInitiator === true ? { not: [initiatorId] } : {}),
  };
}

/** Tools and servers may be called `constructor`. */
function own<T>(record: Readonly<Record<string, T>> | undefined, key: string): T | undefined {
  return record !== undefined && Object.hasOwn(record, key) ? record[key] : undefined;
}
