/**
 * One layer of policy is an ordered list of rules: its rules, its lists, then tool, server and strategy. The first
 * match decides.
 *
 * 1. An uncertain condition or hint matches for rules that ask or deny, never for rules that allow (INV-G4).
 * 2. A rule that asks only because its match is uncertain does not end the search: a later rule might deny, or ask
 *    others. Both count.
 * 3. The caller evaluates conditions: nothing here knows their language.
 */
import type { Action, PolicyInput, PolicyRuleInput, ToolPolicyInput } from '../../contracts/schemas/policy.ts';
import type { ToolAnnotations } from '../../contracts/schemas/tool.ts';
import { globMatches, splitTool } from '../text/match.ts';
import { hintsHold } from './hints.ts';

export type LayerName = 'organisation' | 'catalog' | 'run';

/** `failed`: the condition threw, ran out of time, or is not boolean. `unknown`: its input is missing. */
export type Holds = boolean | 'failed' | 'unknown';

/** Evaluates a condition for the call at hand. */
export type AskCondition = (condition: string) => Holds;

/** A rule, with a function that says if the rule matches the call. */
export interface LayerRule {
  /** Name of the rule in verdicts, without the layer. */
  readonly rule: string;
  readonly action: Action;
  readonly entry?: Omit<ToolPolicyInput, 'action'>;
  readonly explain?: string;
  readonly condition?: string;
  readonly matches: () => Holds;
}

/** A rule that was evaluated. */
export interface Considered extends Omit<LayerRule, 'matches'> {
  readonly holds: Holds;
  /** True if this rule decides, alone or with others. */
  readonly decides: boolean;
}

export interface CalledTool {
  readonly server: string;
  /** Original name. */
  readonly tool: string;
  readonly annotations: ToolAnnotations | undefined;
  /** Trust as the operator configured it, not as the server claims it. */
  readonly serverTrusted: boolean;
}

/** Evaluates the rules for this tool up to the first that decides for certain; the last rule always does. */
export function consider(policy: PolicyInput, tool: CalledTool, ask: AskCondition): Considered[] {
  const considered: Considered[] = [];
  for (const { matches, ...rule } of rulesOf(policy, tool, ask)) {
    const holds = matches();
    const decides = holds === true || (holds !== false && rule.action !== 'allow');
    considered.push({ ...rule, holds, decides });
    if (decides && (holds === true || rule.action === 'deny')) break;
  }
  return considered;
}

/** True if a layer that may be silent states a default. Approvers alone, or rules about other tools, state none. */
export function statesDefault(policy: PolicyInput, server: string): boolean {
  return hasLists(policy) || own(policy.servers, server) !== undefined;
}

export const DEFAULT = 'default';

function rulesOf(policy: PolicyInput, tool: CalledTool, ask: AskCondition): LayerRule[] {
  return [
    ...(policy.rules ?? [])
      // Rules that break glass stand apart from the list, see `domain/policy/emergency.ts`.
      .filter((rule) => isAbout(rule, tool) && !('breakGlass' in rule))
      .map((rule) => ordered(rule, tool, ask)),
    ...listed(policy, tool),
    ...named(policy, tool),
    byStrategy(policy.strategy, tool.serverTrusted && own(tool.annotations, 'readOnlyHint') === true),
  ];
}

function isAbout({ match = {} }: Pick<PolicyRuleInput, 'match'>, { server, tool }: CalledTool): boolean {
  return globMatches(match.server ?? '*', server) && globMatches(match.tool ?? '*', tool);
}

function ordered(rule: PolicyRuleInput, tool: CalledTool, ask: AskCondition): LayerRule {
  const { id, match: _, when, then, explain, ...entry } = rule;
  return {
    rule: `rules/${id}`,
    action: known(then),
    entry,
    ...(explain === undefined ? {} : { explain }),
    ...(when === undefined ? {} : { condition: when }),
    matches: () => matchOf(rule, tool, ask),
  };
}

export function matchOf(rule: Pick<PolicyRuleInput, 'match' | 'when'>, tool: CalledTool, ask: AskCondition): Holds {
  if (!isAbout(rule, tool)) return false;
  const hints = hintsHold(rule.match?.annotations, tool.annotations, tool.serverTrusted);
  if (hints === false) return false;
  const holds = rule.when === undefined ? true : ask(rule.when);
  return holds === true ? hints : holds;
}

function hasLists({ always, never }: PolicyInput): boolean {
  return always !== undefined || never !== undefined;
}

/** The lists of hosted agents: a tool in both lists asks, and a tool in neither falls through. */
function listed({ always = [], never = [] }: PolicyInput, tool: CalledTool): LayerRule[] {
  const isIn = (list: readonly string[]): boolean =>
    list.some((entry) => {
      const glob = splitTool(entry);
      return globMatches(glob.server, tool.server) && globMatches(glob.tool, tool.tool);
    });
  const isAlways = isIn(always);
  const isNever = isIn(never);
  const matches = (): boolean => true;
  if (isAlways) return [{ rule: isNever ? 'lists/both' : 'lists/always', action: 'ask', matches }];
  return isNever ? [{ rule: 'lists/never', action: 'allow', matches }] : [];
}

function named({ servers }: PolicyInput, { server, tool }: CalledTool): LayerRule[] {
  const ofServer = own(servers, server);
  const ofTool = own(ofServer?.tools, tool);
  const found: LayerRule[] = [];
  if (ofTool !== undefined) {
    const { action, ...entry } = typeof ofTool === 'string' ? { action: ofTool } : ofTool;
    found.push({ rule: `servers/${server}/tools/${tool}`, action: known(action), entry, matches: () => true });
  }
  if (ofServer?.default !== undefined)
    found.push({ rule: `servers/${server}/default`, action: known(ofServer.default), matches: () => true });
  return found;
}

function byStrategy(strategy: string | undefined, readOnly: boolean): LayerRule {
  const matches = (): boolean => true;
  switch (strategy) {
    case 'never':
      return { action: 'allow', rule: 'strategy/never', matches };
    case 'annotations':
      return readOnly
        ? { action: 'allow', rule: 'strategy/annotations/read-only', matches }
        : { action: 'ask', rule: 'strategy/annotations', matches };
    case 'always':
      return { action: 'ask', rule: 'strategy/always', matches };
    default:
      return { action: 'ask', rule: DEFAULT, matches };
  }
}

/** An unknown action asks; a policy stored by a later version may have one. */
function known(action: string): Action {
  return action === 'allow' || action === 'deny' ? action : 'ask';
}

/** `hasOwn` guards tools and servers named like `constructor`. */
function own<T>(record: Readonly<Record<string, T>> | undefined, key: string): T | undefined {
  return record !== undefined && Object.hasOwn(record, key) ? record[key] : undefined;
}
