/**
 * Warns of settings that a configuration allows but its operator probably does not mean: times that never come, lists
 * of approvers that can never be met, catalog settings that nobody can use, rules that never match. It also finds
 * conditions that cannot be evaluated: a configuration with one is refused as a whole.
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

export function warningsOf(config: Config): string[] {
  return [
    ...policyServerWarnings(config),
    ...credentialWarnings(config),
    ...(config.issuer !== undefined && config.health === undefined
      ? ['issuer publishes its keys nowhere: no worker with this file has a health port (health.port).']
      : []),
    ...Object.entries(config.servers).flatMap(([name, server]) => serverWarnings(name, server)),
    ...ruleWarnings(config.policy, Object.keys(config.servers)),
    ...approverWarnings(config),
    ...forNobody(config),
    ...withoutSecond(config),
    ...namesakeWarnings(config),
  ];
}

function policyServerWarnings({ policy, servers, egress }: Config): string[] {
  const unknown = Object.keys(policy.servers ?? {}).filter((name) => !Object.hasOwn(servers, name));
  return unknown.map((name) =>
    egress.runServers.length === 0
      ? `${pathText(['policy', 'servers', name])} never applies: no server ${name} is configured, and runs may not bring servers (egress.runServers).`
      : `${pathText(['policy', 'servers', name])} applies only to runs that bring a server under the name ${name}: none is configured.`,
  );
}

function credentialWarnings(config: Config): string[] {
  const cannotSeal = config.grants.keys.length === 0;
  return credentialsOf(config).flatMap(({ path: at, name, credentials }) => {
    const path = pathText(at);
    if (isExchanged(credentials) && cannotSeal)
      return [`${path} exchanges what callers seal, and grants.keys is empty: no run can seal for ${name}.`];
    if (credentials.kind !== 'given') return [];
    if (config.policy.givenTokens === 'deny')
      return [`${path} is given, which policy.givenTokens: deny forbids: no call of ${name} will have a token.`];
    return cannotSeal && config.vault === undefined
      ? [`${path} is given, and grants.keys is empty: no run can seal an authorization for ${name}.`]
      : [];
  });
}

/** This is only a warning: ids of tenants and workspaces look the same. */
function serverWarnings(name: string, { url }: Config['servers'][string]): string[] {
  if (!new URL(url).pathname.split('/').some(looksRandom)) return [];
  const path = pathText(['servers', name, 'url']);
  return [
    `${path} has a part that looks like a secret: a URL stands in history, logs and requests. If it is one, use headers or credentials.`,
  ];
}

/** Settings of a layer, a tool's entry or a rule. */
interface Entry extends RequestTimes {
  readonly approvers?: ApproverList | undefined;
}

/**
 * @param whole includes the layer's values for which the entry is silent; warnings are only about effects of the entry
 */
function timeWarnings(whole: Entry, own: Entry, path: readonly (string | number)[]): string[] {
  const { deadlineSeconds = DEFAULT_DEADLINE_SECONDS, extendableToSeconds = 0 } = whole;
  const end = Math.max(deadlineSeconds, extendableToSeconds);
  const afterSeconds = whole.approvers?.escalate?.afterSeconds;
  const never: readonly (readonly [boolean, keyof Entry, readonly string[], string])[] = [
    [
      whole.extendableToSeconds !== undefined && extendableToSeconds <= deadlineSeconds,
      'extendableToSeconds',
      ['extendableToSeconds'],
      `is not after the deadline (${deadlineSeconds} s): nobody can postpone it.`,
    ],
    [
      whole.remindAfterSeconds !== undefined && whole.remindAfterSeconds >= end,
      'remindAfterSeconds',
      ['remindAfterSeconds'],
      `is not before the deadline (${end} s): nobody is ever reminded.`,
    ],
    [
      afterSeconds !== undefined && afterSeconds >= end,
      'approvers',
      ['approvers', 'escalate', 'afterSeconds'],
      `is not before the deadline (${end} s): it never escalates.`,
    ],
  ];
  return never.flatMap(([holds, part, field, why]) => {
    const isMine = own[part] !== undefined || own.deadlineSeconds !== undefined;
    return holds && isMine ? [`${pathText([...path, ...field])} ${why}`] : [];
  });
}

export function approverWarnings({ policy }: Pick<Config, 'policy'>): string[] {
  const servers = Object.entries(policy.servers ?? {}).flatMap(([server, { tools = {} }]) =>
    Object.entries(tools).flatMap(([tool, entry]) =>
      typeof entry === 'string'
        ? []
        : ofEntry({ ...policy, ...entry }, entry, ['policy', 'servers', server, 'tools', tool]),
    ),
  );
  const rules = (policy.rules ?? []).flatMap((rule, index) =>
    ofEntry({ ...policy, ...rule }, rule, ['policy', 'rules', index]),
  );
  return [...ofEntry(policy, policy, ['policy']), ...rules, ...servers, ...unknownGroups(policy)];
}

/** Reports groups that do not exist, so have no members: most often a name was mistyped. */
function unknownGroups({ groups: known, ...policy }: Config['policy']): string[] {
  if (known === undefined) return [];
  return groupListsIn(policy, ['policy']).flatMap(({ groups, path }) =>
    groups
      .filter((group) => !known.includes(group))
      .map((group) => `${pathText(path)} names ${group}, which is none of policy.groups: nobody can be in it.`),
  );
}

/** Finds every `groups` list at any depth: of approvers, escalations, rules, servers and tools. */
function groupListsIn(value: unknown, path: readonly (string | number)[]): { groups: string[]; path: typeof path }[] {
  if (value === null || typeof value !== 'object') return [];
  return Object.entries(value).flatMap(([key, inner]: [string, unknown]) => {
    const at = [...path, Array.isArray(value) ? Number(key) : key];
    const isList = key === 'groups' && Array.isArray(inner) && inner.every((group) => typeof group === 'string');
    return isList ? [{ groups: inner, path: at }] : groupListsIn(inner, at);
  });
}

/** @param whole includes the layer's values for which the entry is silent */
function ofEntry(whole: Entry & Compared, own: Entry, path: readonly (string | number)[]): string[] {
  return [...listWarnings(whole, own.approvers, path), ...timeWarnings(whole, own, path)];
}

/** Groups are not counted: nobody knows how many members they have. */
function listWarnings(
  compared: Compared,
  list: ApproverList | undefined,
  path: readonly (string | number)[],
): string[] {
  if (list === undefined || list.onlyInitiator === true) return [];
  const { escalate } = list;
  const isReplaced = escalate !== undefined && 'replace' in escalate;
  const later = isReplaced ? escalate.replace : escalate?.add;
  const where = pathText([...path, 'approvers']);
  const lost = isReplaced ? ', and whoever was may not decide any more' : '';
  const isEmpty = later?.ids.length === 0 && later.groups.length === 0;
  const empty = isEmpty ? [`${where}.escalate names nobody: nobody else is asked${lost}.`] : [];
  // Earlier approvals go on counting: people of both lists may meet the number together.
  if (list.groups.length > 0 || (later?.groups.length ?? 0) > 0) return empty;
  const people = new Set([...list.ids, ...(later?.ids ?? [])].map((id) => personOf(compared, id))).size;
  if (people === 0) return [`${where} names nobody: every request would expire.`];
  const { need = 1 } = list;
  if (people < need)
    return [...empty, `${where} needs ${need} people and names ${people}: every request would expire.`];
  return list.notInitiator === true && people === need
    ? [
        ...empty,
        `${where} needs all whom it names, and not who started the run: runs of theirs have requests that expire.`,
      ]
    : empty;
}

function forNobody({ catalog }: Config): string[] {
  return catalog.administrators.flatMap(({ ids, groups }, index) =>
    ids.length + groups.length === 0
      ? [`catalog.administrators[${index}] names neither ids nor groups: it gives its rights to nobody.`]
      : [],
  );
}

/** Groups may have any number of members. */
function withoutSecond({ catalog: { administrators, loosening }, policy }: Config): string[] {
  if (loosening !== 'countersign') return [];
  const mayLoosen = administrators.filter(({ may }) => may.includes('loosen'));
  return [...new Set(mayLoosen.map(({ tenant }) => tenant))].flatMap((tenant) => {
    const named = mayLoosen.filter((each) => each.tenant === tenant);
    const people = new Map(named.flatMap(({ ids }) => ids.map((id) => [personOf(policy, id), id] as const)));
    return people.size === 1 && named.every(({ groups }) => groups.length === 0)
      ? [
          `catalog.loosening is countersign, and in tenant ${tenant} only ${[...people.values()].join('')} may loosen: nobody can agree to a loosening there.`,
        ]
      : [];
  });
}

/** Reports names with one address in trust mode `signed`: signed consent names a server by its address alone. */
function namesakeWarnings({ servers, trust }: Config): string[] {
  if (trust.mode !== 'signed') return [];
  const entries = Object.entries(servers);
  return entries.flatMap(([name, server], index) => {
    const url = canonicalServerUrl(server.url);
    const other = entries
      .slice(0, index)
      .find(([, each]) => canonicalServerUrl(each.url) === url && authorityOf(each) !== authorityOf(server));
    if (other === undefined) return [];
    const path = pathText(['servers', name]);
    return [
      `${path} has the address of ${other[0]} and other credentials: in trust mode signed a run that names both makes no call of theirs that people have approved.`,
    ];
  });
}

/** One place in a policy, with the calls that it covers. */
interface Place {
  readonly path: string;
  readonly server: string;
  readonly tool: string;
  readonly then: Action;
  /** Undefined if the hints do not matter. */
  readonly annotations?: RuleMatch['annotations'];
  readonly isConditional: boolean;
}

/** @param configured names of servers; a run or a catalog may bring others */
export function ruleWarnings(policy: Organisation, configured: readonly string[], now = Date.now()): string[] {
  const places = placesOf(policy);
  return [
    ...places.flatMap((place, index) => {
      const before = places.slice(0, index).find((earlier) => takesAll(earlier, place));
      return before === undefined
        ? []
        : [`${place.path} never matches: ${before.path} stands before it and matches all of it.`];
    }),
    ...unknownServers(policy, configured),
    ...unread(policy),
    ...emergencies(policy, now),
    ...unknownHalted(policy, configured),
  ];
}

/** Returns places in the order in which a layer reads them. */
function placesOf({ rules = [], always = [], never = [], servers = {} }: Organisation): Place[] {
  const list = (name: string, entries: readonly string[], then: Action): Place[] =>
    entries
      .filter((entry) => !(name === 'never' ? always : never).includes(entry))
      .map((entry) => ({
        path: pathText(['policy', name, entries.indexOf(entry)]),
        ...splitTool(entry),
        then,
        isConditional: false,
      }));
  return [
    ...rules.flatMap(({ match: { server = '*', tool = '*', annotations } = {}, when, then, breakGlass }, index) => {
      if (breakGlass !== undefined) return [];
      const path = pathText(['policy', 'rules', index]);
      return [{ path, server, tool, then, ...defined({ annotations }), isConditional: when !== undefined }];
    }),
    ...list('always', always, 'ask'),
    ...list('never', never, 'allow'),
    ...Object.entries(servers).flatMap(([server, { tools = {} }]) =>
      Object.entries(tools).map(([tool, entry]) => ({
        path: pathText(['policy', 'servers', server, 'tools', tool]),
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

function unknownServers(
  { rules = [], always = [], never = [] }: Organisation,
  configured: readonly string[],
): string[] {
  const listed = (list: string, entries: readonly string[]) =>
    entries.map((entry, index) => ({ path: pathText(['policy', list, index]), server: splitTool(entry).server }));
  const matched = rules.map(({ match }, index) => {
    return { path: pathText(['policy', 'rules', index, 'match', 'server']), server: match?.server ?? '*' };
  });
  const named = [...matched, ...listed('always', always), ...listed('never', never)];
  return named.flatMap(({ path, server }) =>
    server === '*' || configured.some((name) => globMatches(server, name))
      ? []
      : [`${path} applies only where a run or a catalog has a server of that name: none is configured.`],
  );
}

function unread({ rules = [] }: Organisation): string[] {
  return rules.flatMap(({ then, approvers, deadlineSeconds }, index) =>
    then === 'ask' || (approvers === undefined && deadlineSeconds === undefined)
      ? []
      : [`${pathText(['policy', 'rules', index])} says who decides or until when, and asks nobody: it says ${then}.`],
  );
}

function emergencies({ halt, rules = [] }: Organisation, now: number): string[] {
  const glass = rules.flatMap(({ breakGlass }, index) => {
    if (breakGlass === undefined) return [];
    const path = pathText(['policy', 'rules', index, 'breakGlass']);
    return now < Date.parse(breakGlass.until)
      ? [`${path} is in force until ${breakGlass.until}: ${visible(breakGlass.reason)}`]
      : [`${path} has ended at ${breakGlass.until}: remove the rule.`];
  });
  if (halt === undefined) return glass;
  const what = halt.servers === undefined ? 'every call' : `every call of ${halt.servers.join(', ')}`;
  return [`policy.halt is in force and denies ${what}: ${visible(halt.reason)}`, ...glass];
}

/** Reports servers of a halt that nobody has configured: most often a name was mistyped, and its calls go on. */
function unknownHalted({ halt }: Organisation, configured: readonly string[]): string[] {
  return (halt?.servers ?? []).flatMap((name, index) => {
    if (configured.includes(name)) return [];
    const near = nearNames(name, configured);
    const hint = near.length === 0 ? '' : ` Did you mean ${near.join(', ')}?`;
    return [
      `${pathText(['policy', 'halt', 'servers', index])} halts ${name} only where a run or a catalog has a server of that name: none is configured.${hint}`,
    ];
  });
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
