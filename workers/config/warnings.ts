/**
 * Warns of settings that a configuration allows but its operator probably does not mean, such as rules that never
 * match. It also finds conditions that cannot be evaluated, and routes to no channel: a configuration with one is
 * refused as a whole.
 */
import { compileCondition, firstBeyond } from '../../activities/policy/condition.ts';
import { credentialsOf, isExchanged, looksRandom } from '../../activities/tokens/configured.ts';
import { defined } from '../../contracts/defined.ts';
import type { Config } from '../../contracts/schemas/config.ts';
import { pathText } from '../../contracts/schemas/parse.ts';
import type { Action, ApproverList, PolicyInput, RequestTimes, RuleMatch } from '../../contracts/schemas/policy.ts';
import { type Compared, DEFAULT_DEADLINE_SECONDS, personOf } from '../../domain/policy/approvers.ts';
import type { Organisation } from '../../domain/policy/judge.ts';
import { visible } from '../../domain/text/escape.ts';
import { globCovers, globMatches, nearNames, splitTool } from '../../domain/text/match.ts';
import { canonicalServerUrl } from '../../domain/text/urls.ts';
import { authorityOf } from '../../activities/catalog/namesakes.ts';

type Path = readonly (string | number)[];
type Warn = (path: Path, text: string) => void;

function warned(check: (warn: Warn) => void): string[] {
  const warnings: string[] = [];
  check((path, text) => void warnings.push(`${pathText(path)} ${text}`));
  return warnings;
}

export function warningsOf(config: Config): string[] {
  const said = (...checks: readonly ((config: Config, warn: Warn) => void)[]): string[] =>
    warned((warn) => checks.forEach((check) => check(config, warn)));
  return [
    ...said(warnOfCredentials, warnOfIssuer, warnOfUrls),
    ...ruleWarnings(config.policy, Object.keys(config.servers)),
    ...approverWarnings(config),
    ...said(warnOfAdministrators, warnOfNamesakes),
  ];
}

function warnOfIssuer({ issuer, health }: Config, warn: Warn): void {
  if (issuer !== undefined && health === undefined)
    warn(['issuer'], 'publishes its keys nowhere: no worker with this file has a health port (health.port).');
}

function warnOfCredentials(config: Config, warn: Warn): void {
  const cannotSeal = config.grants.keys.length === 0;
  for (const { path, name, credentials } of credentialsOf(config)) {
    if (isExchanged(credentials) && cannotSeal)
      warn(path, `exchanges what callers seal, and grants.keys is empty: no run can seal for ${name}.`);
    if (credentials.kind !== 'given') continue;
    if (config.policy.givenTokens === 'deny')
      warn(path, `is given, which policy.givenTokens: deny forbids: no call of ${name} will have a token.`);
    else if (cannotSeal && config.vault === undefined)
      warn(path, `is given, and grants.keys is empty: no run can seal an authorization for ${name}.`);
  }
}

/** This is only a warning: ids of tenants and workspaces look the same. */
function warnOfUrls({ servers }: Config, warn: Warn): void {
  for (const [name, { url }] of Object.entries(servers))
    if (new URL(url).pathname.split('/').some(looksRandom))
      warn(
        ['servers', name, 'url'],
        'has a part that looks like a secret: a URL stands in history, logs and requests. If it is one, use headers or credentials.',
      );
}

/** Settings of a layer, a tool's entry or a rule. */
interface Entry extends RequestTimes {
  readonly approvers?: ApproverList | undefined;
}

/**
 * @param whole includes the layer's values for which the entry is silent; warnings are only about effects of the entry
 */
function warnOfTimes(whole: Entry, own: Entry, path: Path, warn: Warn): void {
  const { deadlineSeconds = DEFAULT_DEADLINE_SECONDS, extendableToSeconds = 0 } = whole;
  const end = Math.max(deadlineSeconds, extendableToSeconds);
  const isMine = (part: keyof Entry): boolean => own[part] !== undefined || own.deadlineSeconds !== undefined;
  if (isMine('extendableToSeconds') && (whole.extendableToSeconds ?? Infinity) <= deadlineSeconds)
    warn([...path, 'extendableToSeconds'], `is not after the deadline (${deadlineSeconds} s): nobody can postpone it.`);
  if (isMine('remindAfterSeconds') && (whole.remindAfterSeconds ?? 0) >= end)
    warn([...path, 'remindAfterSeconds'], `is not before the deadline (${end} s): nobody is ever reminded.`);
  if (isMine('approvers') && (whole.approvers?.escalate?.afterSeconds ?? 0) >= end)
    warn(
      [...path, 'approvers', 'escalate', 'afterSeconds'],
      `is not before the deadline (${end} s): it never escalates.`,
    );
}

export function approverWarnings({ policy }: Pick<Config, 'policy'>): string[] {
  return warned((warn) => {
    const look = (own: Entry, path: Path): void => {
      const whole = { ...policy, ...own };
      warnOfList(whole, own.approvers, [...path, 'approvers'], warn);
      warnOfTimes(whole, own, path, warn);
    };
    look(policy, ['policy']);
    for (const [index, rule] of (policy.rules ?? []).entries()) look(rule, ['policy', 'rules', index]);
    for (const [server, { tools = {} }] of Object.entries(policy.servers ?? {}))
      for (const [tool, entry] of Object.entries(tools))
        if (typeof entry !== 'string') look(entry, ['policy', 'servers', server, 'tools', tool]);
    warnOfGroups(policy, warn);
  });
}

/** Reports groups that do not exist, so have no members: most often a name was mistyped. */
function warnOfGroups({ groups: known, ...policy }: Config['policy'], warn: Warn): void {
  if (known === undefined) return;
  for (const { groups, path } of groupListsIn(policy, ['policy']))
    for (const group of groups)
      if (!known.includes(group)) warn(path, `names ${group}, which is none of policy.groups: nobody can be in it.`);
}

/** Finds every `groups` list at any depth: of approvers, escalations, rules, servers and tools. */
function groupListsIn(value: unknown, path: Path): { groups: string[]; path: Path }[] {
  if (value === null || typeof value !== 'object') return [];
  return Object.entries(value).flatMap(([key, inner]: [string, unknown]) => {
    const at = [...path, Array.isArray(value) ? Number(key) : key];
    const isList = key === 'groups' && Array.isArray(inner) && inner.every((group) => typeof group === 'string');
    return isList ? [{ groups: inner, path: at }] : groupListsIn(inner, at);
  });
}

/** Groups are not counted: nobody knows how many members they have. */
function warnOfList(compared: Compared, list: ApproverList | undefined, path: Path, warn: Warn): void {
  if (list === undefined || list.onlyInitiator === true) return;
  const { escalate, need = 1 } = list;
  const isReplaced = escalate !== undefined && 'replace' in escalate;
  const later = isReplaced ? escalate.replace : escalate?.add;
  const lost = isReplaced ? ', and whoever was may not decide any more' : '';
  const hasGroups = list.groups.length > 0 || (later?.groups.length ?? 0) > 0;
  // Earlier approvals go on counting: people of both lists may meet the number together.
  const named = new Set([...list.ids, ...(later?.ids ?? [])].map((id) => personOf(compared, id)));
  const people = hasGroups ? Infinity : named.size;
  if (people === 0) return warn(path, 'names nobody: every request would expire.');
  if (later?.ids.length === 0 && later.groups.length === 0)
    warn([...path, 'escalate'], `names nobody: nobody else is asked${lost}.`);
  if (people < need) warn(path, `needs ${need} people and names ${people}: every request would expire.`);
  else if (list.notInitiator === true && people === need)
    warn(path, 'needs all whom it names, and not who started the run: runs of theirs have requests that expire.');
}

function warnOfAdministrators({ catalog: { administrators, loosening }, policy }: Config, warn: Warn): void {
  for (const [index, { ids, groups }] of administrators.entries())
    if (ids.length + groups.length === 0)
      warn(['catalog', 'administrators', index], 'names neither ids nor groups: it gives its rights to nobody.');
  if (loosening !== 'countersign') return;
  const mayLoosen = administrators.filter(({ may }) => may.includes('loosen'));
  for (const tenant of new Set(mayLoosen.map((each) => each.tenant))) {
    const named = mayLoosen.filter((each) => each.tenant === tenant);
    const people = new Map(named.flatMap(({ ids }) => ids.map((id) => [personOf(policy, id), id] as const)));
    // Groups may have any number of members.
    if (people.size === 1 && named.every(({ groups }) => groups.length === 0))
      warn(
        ['catalog', 'loosening'],
        `is countersign, and in tenant ${tenant} only ${[...people.values()].join('')} may loosen: nobody can agree to a loosening there.`,
      );
  }
}

/** Reports names with one address in trust mode `signed`: signed consent names a server by its address alone. */
function warnOfNamesakes({ servers, trust }: Config, warn: Warn): void {
  if (trust.mode !== 'signed') return;
  const entries = Object.entries(servers);
  for (const [index, [name, server]] of entries.entries()) {
    const url = canonicalServerUrl(server.url);
    const other = entries
      .slice(0, index)
      .find(([, each]) => canonicalServerUrl(each.url) === url && authorityOf(each) !== authorityOf(server));
    if (other !== undefined)
      warn(
        ['servers', name],
        `has the address of ${other[0]} and other credentials: in trust mode signed a run that names both makes no call of theirs that people have approved.`,
      );
  }
}

interface Place {
  readonly path: Path;
  readonly server: string;
  readonly tool: string;
  readonly then: Action;
  /** Undefined if the hints do not matter. */
  readonly annotations?: RuleMatch['annotations'];
  readonly isConditional: boolean;
}

/** @param configured names of servers; a run or a catalog may bring others */
export function ruleWarnings(policy: Organisation, configured: readonly string[], now = Date.now()): string[] {
  return warned((warn) => {
    warnOfOrder(placesOf(policy), warn);
    warnOfServers(policy, configured, warn);
    warnOfEmergencies(policy, configured, now, warn);
  });
}

function warnOfOrder(places: readonly Place[], warn: Warn): void {
  for (const [index, place] of places.entries()) {
    const before = places.slice(0, index).find((earlier) => takesAll(earlier, place));
    if (before !== undefined)
      warn(place.path, `never matches: ${pathText(before.path)} stands before it and matches all of it.`);
  }
}

/** Returns places in the order in which a layer reads them. */
function placesOf({ rules = [], always = [], never = [], servers = {} }: Organisation): Place[] {
  const listed = (list: string, entries: readonly string[], then: Action): Place[] =>
    entries.map((entry, index) => ({
      path: ['policy', list, index],
      ...splitTool(entry),
      then,
      isConditional: false,
    }));
  // An entry of both lists is none of either.
  const isOfOne = ({ server, tool }: Place): boolean =>
    !always.includes(`${server}/${tool}`) || !never.includes(`${server}/${tool}`);
  return [
    ...rules.flatMap(({ match: { server = '*', tool = '*', annotations } = {}, when, then, breakGlass }, index) => {
      if (breakGlass !== undefined) return [];
      const path = ['policy', 'rules', index];
      return [{ path, server, tool, then, ...defined({ annotations }), isConditional: when !== undefined }];
    }),
    ...[...listed('always', always, 'ask'), ...listed('never', never, 'allow')].filter(isOfOne),
    ...Object.entries(servers).flatMap(([server, { tools = {} }]) =>
      Object.entries(tools).map(([tool, entry]) => ({
        path: ['policy', 'servers', server, 'tools', tool],
        server,
        tool,
        then: typeof entry === 'string' ? entry : entry.action,
        isConditional: false,
      })),
    ),
  ];
}

/** Hints that hold for one place may not hold for the other. Only equal hints are trusted, or not, for both. */
function takesAll(earlier: Place, later: Place): boolean {
  if (earlier.isConditional || !globCovers(earlier.server, later.server) || !globCovers(earlier.tool, later.tool))
    return false;
  if (earlier.annotations === undefined) return true;
  return (
    JSON.stringify(earlier.annotations) === JSON.stringify(later.annotations) &&
    // A place that allows never matches an untrusted hint; one that asks or denies does.
    (earlier.then === later.then || later.then === 'allow')
  );
}

function warnOfServers(
  { rules = [], always = [], never = [], servers = {} }: Organisation,
  configured: readonly string[],
  warn: Warn,
): void {
  const look = (path: Path, server: string): void => {
    if (server !== '*' && !configured.some((name) => globMatches(server, name)))
      warn(path, 'applies only where a run or a catalog has a server of that name: none is configured.');
  };
  for (const [index, { match }] of rules.entries())
    look(['policy', 'rules', index, 'match', 'server'], match?.server ?? '*');
  for (const [list, entries] of Object.entries({ always, never }))
    for (const [index, entry] of entries.entries()) look(['policy', list, index], splitTool(entry).server);
  for (const name of Object.keys(servers)) look(['policy', 'servers', name], name);
  for (const [index, { then, approvers, deadlineSeconds }] of rules.entries())
    if (then !== 'ask' && (approvers !== undefined || deadlineSeconds !== undefined))
      warn(['policy', 'rules', index], `says who decides or until when, and asks nobody: it says ${then}.`);
}

function warnOfEmergencies(
  { halt, rules = [] }: Organisation,
  configured: readonly string[],
  now: number,
  warn: Warn,
): void {
  if (halt !== undefined) {
    const what = halt.servers === undefined ? 'every call' : `every call of ${halt.servers.join(', ')}`;
    warn(['policy', 'halt'], `is in force and denies ${what}: ${visible(halt.reason)}`);
  }
  for (const [index, { breakGlass }] of rules.entries()) {
    if (breakGlass === undefined) continue;
    const isOpen = now < Date.parse(breakGlass.until);
    const state = isOpen
      ? `is in force until ${breakGlass.until}: ${visible(breakGlass.reason)}`
      : `has ended at ${breakGlass.until}: remove the rule.`;
    warn(['policy', 'rules', index, 'breakGlass'], state);
  }
  // Most often a name was mistyped, and its calls go on.
  for (const [index, name] of (halt?.servers ?? []).entries()) {
    if (configured.includes(name)) continue;
    const near = nearNames(name, configured);
    const hint = near.length === 0 ? '' : ` Did you mean ${near.join(', ')}?`;
    const text = `halts ${name} only where a run or a catalog has a server of that name: none is configured.${hint}`;
    warn(['policy', 'halt', 'servers', index], text);
  }
}

/** A path, and a reason that continues it. */
export interface ConditionProblem {
  readonly path: string;
  readonly reason: string;
}

/** Holds the thread until all conditions are read: it is for policies of operators. */
export function conditionProblems(
  policy: PolicyInput,
  at: readonly (string | number)[] = ['policy'],
): ConditionProblem[] {
  const problem = (index: number, reason: string): ConditionProblem => ({
    path: pathText([...at, 'rules', index, 'when']),
    reason,
  });
  const beyond = firstBeyond(policy);
  if (beyond !== undefined) return [problem(beyond.index, beyond.reason)];
  return (policy.rules ?? []).flatMap(({ when }, index) => {
    if (when === undefined) return [];
    try {
      compileCondition(when);
      return [];
    } catch (error) {
      // Sound: `compileCondition` throws nothing else.
      return [problem(index, (error as Error).message)];
    }
  });
}

interface Route {
  readonly channel: string;
  readonly path: string;
}

/**
 * Returns a route to nowhere: it would tell nobody, and no one would miss it.
 * @param channels names of those there are
 */
export function routeToNowhere(
  { notify, rules = [] }: Config['policy'],
  channels: readonly string[],
): Route | undefined {
  const lists = [
    { notify, path: ['policy'] },
    ...rules.map((rule, index) => ({ notify: rule.notify, path: ['policy', 'rules', index] })),
  ];
  const routes = lists.flatMap(({ notify: own = [], path }) =>
    own.map(({ channel }, index) => ({ channel, path: pathText([...path, 'notify', index, 'channel']) })),
  );
  return routes.find(({ channel }) => !channels.includes(channel));
}
