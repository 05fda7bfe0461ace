/**
 * The judge computes the verdict of policy on one call.
 *
 * 1. First match wins in a layer. Across layers the strictest verdict wins.
 * 2. Fail closed (INV-G4): without a policy, or with an unknown strategy, every call is asked. A condition that cannot
 *    be evaluated matches for rules that ask or deny.
 * 3. A server's annotations exempt a call only if the operator trusts the server, and only a boolean `readOnlyHint:
 *    true` does (MCP spec: annotations are untrusted).
 * 4. The layers of run and catalog can only tighten: a layer that states nothing gives no verdict.
 *
 * One file, because a verdict is read whole: layers, strategies, hints and the emergency switch.
 */
import { defined, own } from '../../contracts/defined.ts';
import type { BrokenGlass, Verdict } from '../../contracts/schemas/call.ts';
import type { CatalogConnection } from '../../contracts/schemas/catalog.ts';
import type { NotifyRoute } from '../../contracts/schemas/notify.ts';
import type {
  Action,
  ApproverClause,
  ApproverRule,
  Halt,
  OrganisationPolicy,
  OrganisationRule,
  PolicyInput,
  PolicyRuleInput,
  RequestTimes,
  RuleMatch,
  ToolPolicyInput,
} from '../../contracts/schemas/policy.ts';
import type { ToolAnnotations } from '../../contracts/schemas/tool.ts';
import { unhidden } from '../text/escape.ts';
import { globMatches, splitTool } from '../text/match.ts';
import { approverRule, clauseOf, comparing, DEFAULT_DEADLINE_SECONDS } from './approvers.ts';

/** The organisation's policy as judged; without a written policy, defaults may be missing. */
export type Organisation = Omit<OrganisationPolicy, 'givenTokens'>;

export interface PolicyLayers {
  readonly organisation: Organisation;
  /** The run's policy as its starter wrote it: the workflow passes it on unchanged, so defaults may be missing. */
  readonly run: PolicyInput | undefined;
  readonly catalog?: CatalogSay;
}

/** Settings of a rule for its requests; only a rule of the organisation says who is told. */
type RuleEntry = Omit<ToolPolicyInput, 'action'> & { readonly notify?: NotifyRoute[] | undefined };

interface LayerVerdict {
  readonly layer: LayerName;
  readonly policy: PolicyInput;
  readonly action: Action;
  readonly rule: string;
  readonly entry?: RuleEntry;
  readonly explain?: string;
}

/**
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
        ...denied.flatMap(({ explain }) => (explain === undefined ? [] : [unhidden(explain)])),
      ].join(' '),
    };
  }
  if (tool.unchecked !== undefined && verdicts.every(({ action }) => action === 'allow'))
    verdicts.push({ layer: 'organisation', policy: layers.organisation, action: 'ask', rule: UNCHECKED });
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
  const clauses = clausesOf(stated, initiatorId, isForgotten(layers, tool, ask));
  const deadlineSeconds = shortest(asked, stated);
  const explain = explained(asked, tool);
  return {
    kind: 'ask',
    rules: asked.map(({ rule }) => rule),
    approvers: {
      ...approverRule(clauses, initiatorId),
      ...comparing(layers.organisation),
      ...ruleTimes(stated, deadlineSeconds),
    },
    deadlineSeconds,
    ...defined({ explain: explain.length === 0 ? undefined : explain, notify: toldBy(asked) }),
  };
}

/** Returns the clauses of all approver lists. @param isNotKept true if no approval may be remembered */
function clausesOf(stated: readonly Statement[], initiatorId: string, isNotKept: boolean): ApproverClause[] {
  const clauses = stated.flatMap(({ layer, approvers }) =>
    approvers === undefined ? [] : [clauseOf(layer, approvers, initiatorId)],
  );
  return distinct(isNotKept ? clauses.map(({ remember: _, ...clause }) => clause) : clauses);
}

/** True if a rule forbids remembering, wherever it stands, uncertain or not (INV-G4), or arguments were not checked. */
function isForgotten({ organisation, run }: PolicyLayers, tool: JudgedTool, ask: AskCondition): boolean {
  if (tool.unchecked !== undefined) return true;
  const rules: readonly PolicyRuleInput[] = [...(organisation.rules ?? []), ...(run?.rules ?? [])];
  return rules.some((rule) => rule.neverRemember === true && matchOf(rule, tool, ask) !== false);
}

function toldBy(asked: readonly LayerVerdict[]): NotifyRoute[] | undefined {
  const stated = asked.flatMap(({ layer, entry }) => (layer === 'organisation' ? [entry?.notify] : []));
  const routes = stated.filter((each) => each !== undefined);
  return routes.length === 0 ? undefined : routes.flat();
}

function askOf(say: Extract<CatalogSay, { kind: 'ask' }>): LayerVerdict {
  return { layer: 'catalog', policy: {}, action: 'ask', rule: say.rule, entry: ruleOf(say) };
}

/** Nobody knows if the arguments fit: people are asked where policy would allow, and told wherever they are asked. */
const UNCHECKED = 'default/schema';

type Explained = NonNullable<Extract<Verdict, { kind: 'ask' }>['explain']>;

function explained(asked: readonly LayerVerdict[], { unchecked }: JudgedTool): Explained {
  const explain = asked.flatMap(({ rule, explain: text }) => (text === undefined ? [] : [{ rule, text }]));
  if (unchecked === undefined) return explain;
  return [...explain, { rule: UNCHECKED, text: `The arguments could not be checked: the tool's schema ${unchecked}.` }];
}

function ruleOf({ approvers, deadlineSeconds }: Exclude<CatalogSay, { kind: 'deny' }>): RuleEntry {
  return defined({ approvers, deadlineSeconds });
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
      ...defined({ entry, explain }),
    }));
}

const UNCERTAIN: Readonly<Record<string, string>> = { failed: ' (condition failed)', unknown: ' (not known)' };

/** Returns the rule that a verdict names, without the words that its match was uncertain. */
export function withoutDoubt(rule: string): string {
  const doubt = Object.values(UNCERTAIN).find((words) => rule.endsWith(words)) ?? '';
  return rule.slice(0, rule.length - doubt.length);
}

/** A run gives a verdict only if its policy states something for the call. */
function judgeRun(policy: PolicyInput, tool: JudgedTool, ask: AskCondition): LayerVerdict[] {
  const considered = consider(policy, tool, ask);
  // Approvers alone, or rules about other tools, state no default.
  const isSilent = policy.strategy === undefined && !hasLists(policy) && own(policy.servers, tool.server) === undefined;
  return judgeLayer('run', policy, isSilent ? considered.filter(({ rule }) => rule !== DEFAULT) : considered);
}

function distinct(clauses: readonly ApproverClause[]): ApproverClause[] {
  return [...new Map(clauses.map((clause) => [JSON.stringify(clause), clause])).values()];
}

interface Statement extends RequestTimes {
  readonly layer: LayerName;
  readonly approvers: PolicyInput['approvers'];
}

/** The shortest deadline. The catalog never extends it: if another layer asks and is silent, 24 hours count. */
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

// The times of a rule combine what the layers state. The strictest counts: the shortest validity, the first reminder,
// the earliest end of a postponement. A layer whose deadline may not be postponed bounds every postponement by it.

/** An unstated time stays out, so that digests stay. @param deadlineSeconds the shortest deadline of all layers */
function ruleTimes(
  stated: readonly RequestTimes[],
  deadlineSeconds: number,
): Pick<ApproverRule, 'validForSeconds' | 'extendableToSeconds' | 'remindAfterSeconds'> {
  const latest = Math.min(
    ...stated.map((times) => times.extendableToSeconds ?? times.deadlineSeconds ?? Number.POSITIVE_INFINITY),
  );
  const isExtendable = latest > deadlineSeconds && stated.some((times) => times.extendableToSeconds !== undefined);
  return defined({
    validForSeconds: least(stated.flatMap(({ validForSeconds }) => validForSeconds ?? [])),
    extendableToSeconds: isExtendable ? latest : undefined,
    remindAfterSeconds: least(stated.flatMap(({ remindAfterSeconds }) => remindAfterSeconds ?? [])),
  });
}

function least(seconds: readonly number[]): number | undefined {
  return seconds.length === 0 ? undefined : Math.min(...seconds);
}

// One layer is an ordered list: its rules, its lists, then tool, server and strategy. The first match decides.
//
// 1. An uncertain condition or hint matches for rules that ask or deny, never for rules that allow (INV-G4).
// 2. A rule that asks only because its match is uncertain does not end the search: a later rule might deny, or ask
//    others. Both count.

type LayerName = 'organisation' | 'catalog' | 'run';

/** `failed`: the condition threw, ran out of time, or is not boolean. `unknown`: its input is missing. */
export type Holds = boolean | 'failed' | 'unknown';

export type AskCondition = (condition: string) => Holds;

export interface LayerRule {
  /** Name of the rule in verdicts, without the layer. */
  readonly rule: string;
  readonly action: Action;
  readonly entry?: RuleEntry;
  readonly explain?: string;
  readonly condition?: string;
  readonly matches: () => Holds;
}

export interface Considered extends Omit<LayerRule, 'matches'> {
  readonly holds: Holds;
  /** True if this rule decides, alone or with others. */
  readonly decides: boolean;
}

export interface JudgedTool {
  readonly server: string;
  readonly tool: string;
  readonly annotations: ToolAnnotations | undefined;
  /** Trust as the operator configured it, not as the server claims it. */
  readonly serverTrusted: boolean;
  /** Why the arguments could not be checked against the tool's schema; continues "the tool's schema". */
  readonly unchecked?: string | undefined;
}

/** Evaluates the rules for this tool up to the first that decides for certain; the last rule always does. */
export function consider(policy: PolicyInput, tool: JudgedTool, ask: AskCondition): Considered[] {
  const considered: Considered[] = [];
  for (const { matches, ...rule } of rulesOf(policy, tool, ask)) {
    const holds = matches();
    const decides = holds === true || (holds !== false && rule.action !== 'allow');
    considered.push({ ...rule, holds, decides });
    if (decides && (holds === true || rule.action === 'deny')) break;
  }
  return considered;
}

const DEFAULT = 'default';
const ALWAYS = (): boolean => true;

function rulesOf(policy: PolicyInput, tool: JudgedTool, ask: AskCondition): LayerRule[] {
  return [
    ...(policy.rules ?? [])
      // Rules that break glass stand apart from the list.
      .filter((rule) => isAbout(rule, tool) && !('breakGlass' in rule))
      .map((rule) => ordered(rule, tool, ask)),
    ...listed(policy, tool),
    ...named(policy, tool),
    hasLists(policy)
      ? { rule: 'lists/neither', action: 'ask', matches: ALWAYS }
      : byStrategy(policy.strategy, tool.serverTrusted && own(tool.annotations, 'readOnlyHint') === true),
  ];
}

function isAbout({ match = {} }: Pick<PolicyRuleInput, 'match'>, { server, tool }: JudgedTool): boolean {
  return globMatches(match.server ?? '*', server) && globMatches(match.tool ?? '*', tool);
}

function ordered(rule: PolicyRuleInput, tool: JudgedTool, ask: AskCondition): LayerRule {
  const { id, match: _, when, then, explain, neverRemember: __, ...entry } = rule;
  return {
    rule: `rules/${id}`,
    action: known(then),
    entry,
    ...defined({ explain, condition: when }),
    matches: () => matchOf(rule, tool, ask),
  };
}

function matchOf(rule: Pick<PolicyRuleInput, 'match' | 'when'>, tool: JudgedTool, ask: AskCondition): Holds {
  if (!isAbout(rule, tool)) return false;
  const hints = hintsHold(rule.match?.annotations, tool.annotations, tool.serverTrusted);
  if (hints === false) return false;
  const holds = rule.when === undefined ? true : ask(rule.when);
  return holds === true ? hints : holds;
}

function hasLists({ always, never }: PolicyInput): boolean {
  return always !== undefined || never !== undefined;
}

/** A tool in both lists asks, as does one in neither that the layer does not name: no strategy counts here. */
function listed({ always = [], never = [] }: PolicyInput, tool: JudgedTool): LayerRule[] {
  const isIn = (list: readonly string[]): boolean =>
    list.some((entry) => {
      const glob = splitTool(entry);
      return globMatches(glob.server, tool.server) && globMatches(glob.tool, tool.tool);
    });
  const isNever = isIn(never);
  if (isIn(always)) return [{ rule: isNever ? 'lists/both' : 'lists/always', action: 'ask', matches: ALWAYS }];
  return isNever ? [{ rule: 'lists/never', action: 'allow', matches: ALWAYS }] : [];
}

function named({ servers }: PolicyInput, { server, tool }: JudgedTool): LayerRule[] {
  const ofServer = own(servers, server);
  const ofTool = own(ofServer?.tools, tool);
  const found: LayerRule[] = [];
  if (ofTool !== undefined) {
    const { action, ...entry } = typeof ofTool === 'string' ? { action: ofTool } : ofTool;
    found.push({ rule: `servers/${server}/tools/${tool}`, action: known(action), entry, matches: ALWAYS });
  }
  if (ofServer?.default !== undefined)
    found.push({ rule: `servers/${server}/default`, action: known(ofServer.default), matches: ALWAYS });
  return found;
}

function byStrategy(strategy: string | undefined, readOnly: boolean): LayerRule {
  const isSafe = strategy === 'annotations' && readOnly;
  if (isSafe) return { action: 'allow', rule: 'strategy/annotations/read-only', matches: ALWAYS };
  if (strategy === 'never') return { action: 'allow', rule: 'strategy/never', matches: ALWAYS };
  const isKnown = strategy === 'annotations' || strategy === 'always';
  return { action: 'ask', rule: isKnown ? `strategy/${strategy}` : DEFAULT, matches: ALWAYS };
}

/** An unknown action asks; a policy stored by a later version may have one. */
function known(action: string): Action {
  return action === 'allow' || action === 'deny' ? action : 'ask';
}

// An organisation in an emergency halts calls, or breaks glass: it lets pass what would be asked.
//
// 1. A halt is above all else, also above approvals and broken glass.
// 2. Breaking glass withdraws the questions of the organisation and of a catalog, and lifts no denial. If the run's own
//    policy asks, breaking glass does nothing: else the starter of a run could get rid of the other approvers. The rule
//    must match for certain, and has an end (INV-G4).

function haltedBy(
  halt: Halt | undefined,
  { server, tool }: JudgedTool,
): Extract<Verdict, { kind: 'deny' }> | undefined {
  if (halt === undefined || halt.servers?.includes(server) === false) return undefined;
  const what = halt.servers === undefined ? 'All tool calls are' : `All calls of ${server} are`;
  return {
    kind: 'deny',
    rules: ['organisation/halt'],
    code: 'ORGANISATION_HALTED',
    message: `${what} halted by the organisation, ${server}/${tool} too: ${unhidden(halt.reason)} Call none of them again until the user says that they are not.`,
  };
}

/** The rule that breaks glass for a call now. @param now epoch ms */
function glassFor(
  rules: readonly Pick<OrganisationRule, 'id' | 'match' | 'when' | 'then' | 'breakGlass'>[],
  tool: JudgedTool,
  ask: AskCondition,
  now: number,
): BrokenGlass | undefined {
  for (const rule of rules) {
    const { id, breakGlass } = rule;
    // The comparison fails for an invalid time, which counts as over.
    if (breakGlass === undefined || !(now < Date.parse(breakGlass.until))) continue;
    if (matchOf(rule, tool, ask) === true)
      return { rule: `organisation/rules/${id}`, reason: breakGlass.reason, until: breakGlass.until };
  }
  return undefined;
}

// A rule may depend on a tool's hints, which are untrusted (MCP spec, server/tools "ToolAnnotations").
//
// 1. A hint of an untrusted server may be true or false: it holds for rules that ask or deny, never for those that
//    allow (INV-G4).
// 2. An absent hint has the default of the specification.

type Hints = NonNullable<RuleMatch['annotations']>;

const ABSENT: Required<Hints> = {
  readOnlyHint: false,
  destructiveHint: true,
  idempotentHint: false,
  openWorldHint: true,
};

/** Returns `unknown` if the server is not trusted, or if a stated hint is not boolean. */
export function hintsHold(
  wanted: Hints | undefined,
  annotations: ToolAnnotations | undefined,
  isTrusted: boolean,
): boolean | 'unknown' {
  const names = Object.keys(ABSENT).filter((name): name is keyof Hints => Object.hasOwn(wanted ?? {}, name));
  let held: boolean | 'unknown' = true;
  for (const name of names) {
    const stated = annotations !== undefined && Object.hasOwn(annotations, name) ? annotations[name] : ABSENT[name];
    if (!isTrusted || typeof stated !== 'boolean') held = 'unknown';
    else if (stated !== wanted?.[name]) return false;
  }
  return held;
}

/** True if catalog and configuration trust the server's annotations. @param configured undefined: not named there */
export function trustsServer(
  catalog: { readonly connection?: Pick<CatalogConnection, 'trusted'> | undefined } | undefined,
  configured: boolean | undefined,
): boolean {
  if (catalog === undefined) return configured === true;
  return catalog.connection?.trusted === true && configured !== false;
}

type CatalogTerms = Pick<RuleEntry, 'approvers' | 'deadlineSeconds'>;

export type CatalogSay =
  | ({ readonly kind: 'nothing' } & CatalogTerms)
  | ({ readonly kind: 'ask'; readonly rule: string } & CatalogTerms)
  | {
      readonly kind: 'deny';
      readonly rule: string;
      readonly code: 'TOOL_DISABLED' | 'TOOL_MISSING' | 'POLICY_DENIED';
      readonly message: string;
    };
