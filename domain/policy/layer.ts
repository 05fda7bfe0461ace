/**
 * One layer of policy as an ordered list of rules: its rules, its lists, then tool, server and strategy. The first that matches decides.
 *
 * 1. A condition or hint of which nothing certain is known matches for what asks or denies, never for what allows (INV-G4).
 * 2. What asks for want of certainty does not end the search: were it no match, a later rule might deny, or ask others. Both count.
 * 3. Conditions are evaluated by whoever asks: nothing here knows their language.
 */
import type { Action, PolicyInput, PolicyRuleInput, ToolPolicyInput } from '../../contracts/schemas/policy.ts';
import type { ToolAnnotations } from '../../contracts/schemas/tool.ts';
import { globMatches, splitTool } from '../text/match.ts';
import { hintsHold } from './hints.ts';

export type LayerName = 'organisation' | 'catalog' | 'run';

/** `failed`: it threw, ran out of time, or is no yes or no. `unknown`: what it depends on is not there. */
export type Holds = boolean | 'failed' | 'unknown';

/** Does a condition hold for the call at hand? */
export type AskCondition = (condition: string) => Holds;

/** What one rule says, and of a call asked about, whether it matches. */
export interface LayerRule {
  /** As it stands in verdicts, without the layer. */
  readonly rule: string;
  readonly action: Action;
  readonly entry?: Omit<ToolPolicyInput, 'action'>;
  readonly explain?: string;
  readonly condition?: string;
  readonly matches: () => Holds;
}

/** A rule that was looked at. */
export interface Considered extends Omit<LayerRule, 'matches'> {
  readonly holds: Holds;
  /** Or is one of those that do. */
  readonly decides: boolean;
}

export interface CalledTool {
  readonly server: string;
  /** Original name. */
  readonly tool: string;
  readonly annotations: ToolAnnotations | undefined;
  /** The operator's word, not the server's. */
  readonly serverTrusted: boolean;
}

/** Of the rules that are about this tool, up to the one that decides for certain; the last one always does. */
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

/** Does a layer that may be silent say what its default says? One that only names approvers, or has rules about others, does not. */
export function statesDefault(policy: PolicyInput, server: string): boolean {
  return hasLists(policy) || own(policy.servers, server) !== undefined;
}

export const DEFAULT = 'default';

function rulesOf(policy: PolicyInput, tool: CalledTool, ask: AskCondition): LayerRule[] {
  return [
    ...(policy.rules ?? [])
      // What breaks glass stands above the list, see `emergency.ts`.
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

/** Hosted-style lists: what stands in both asks, and what stands in neither falls through. */
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

/** An action that nobody knows, as a stored policy of a later version may hold, asks. */
function known(action: string): Action {
  return action === 'allow' || action === 'deny' ? action : 'ask';
}

/** Tools and servers may be called `constructor`. */
function own<T>(record: Readonly<Record<string, T>> | undefined, key: string): T | undefined {
  return record !== undefined && Object.hasOwn(record, key) ? record[key] : undefined;
}
