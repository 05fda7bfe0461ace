/**
 * The judge: what policy says of one call.
 *
 * 1. First match wins in a layer: tool, then server, then strategy. Across layers the strictest verdict wins.
 * 2. Fail closed (INV-G4): without a policy every call is asked; a strategy nobody knows asks.
 * 3. A server's annotations exempt a call only where the operator trusts the server, and only a boolean
 *    `readOnlyHint: true` does (MCP spec: annotations are untrusted).
 * 4. The run's layer can only tighten: it has no say where it states nothing.
 */
import type { Verdict } from '../contracts/schemas/call.ts';
import type { Action, Policy, PolicyInput, ToolPolicyInput } from '../contracts/schemas/policy.ts';
import type { ToolAnnotations } from '../contracts/schemas/tool.ts';

/** 24 hours, see docs/adr/0010. */
export const DEFAULT_DEADLINE_SECONDS = 86_400;

export interface PolicyLayers {
  readonly organisation: Policy;
  /** As its starter wrote it: the workflow passes on what it got, so defaults may be missing. */
  readonly run: PolicyInput | undefined;
}

export interface JudgedTool {
  readonly server: string;
  /** Original name. */
  readonly tool: string;
  readonly annotations: ToolAnnotations | undefined;
  /** The operator's word, not the server's. */
  readonly serverTrusted: boolean;
}

type LayerName = 'organisation' | 'run';

interface LayerVerdict {
  readonly layer: LayerName;
  readonly policy: PolicyInput;
  readonly action: Action;
  readonly rule: string;
  readonly entry?: ToolPolicyInput;
}

export function judge(layers: PolicyLayers, tool: JudgedTool, initiatorId: string): Verdict {
  const verdicts = [judgeLayer('organisation', layers.organisation, tool)];
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
  const stated = statedBy(asked, layers.run);
  const deadlines = stated.flatMap(({ deadlineSeconds }) => deadlineSeconds ?? []);
  const clauses = stated.flatMap(({ layer, approvers }) =>
    approvers === undefined ? [] : [{ layer, ids: approvers.ids ?? [], groups: approvers.groups ?? [] }],
  );
  return {
    kind: 'ask',
    rules: asked.map(({ rule }) => rule),
    // Nobody named: the person who started the run decides.
    approvers: { allOf: clauses.length > 0 ? clauses : [{ layer: 'default', ids: [initiatorId], groups: [] }] },
    deadlineSeconds: deadlines.length > 0 ? Math.min(...deadlines) : DEFAULT_DEADLINE_SECONDS,
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

interface Statement {
  readonly layer: LayerName;
  readonly approvers: PolicyInput['approvers'];
  readonly deadlineSeconds: number | undefined;
}

/** Who and until when: from each layer that asks, and from a run's layer that says only that. */
function statedBy(asked: readonly LayerVerdict[], run: PolicyInput | undefined): Statement[] {
  const stated = asked.map(({ layer, policy, entry }) => statementOf(layer, policy, entry));
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
  };
}

/** Tools and servers may be called `constructor`. */
function own<T>(record: Readonly<Record<string, T>> | undefined, key: string): T | undefined {
  return record !== undefined && Object.hasOwn(record, key) ? record[key] : undefined;
}
