/**
 * Warns of rules and list entries of a policy that can never match, and of parts of a rule that are never
 * read. It also finds conditions that cannot be evaluated: a configuration with one is refused as a whole.
 */
import { compileCondition } from '../../activities/policy/condition.ts';
import { pathText } from '../../contracts/schemas/parse.ts';
import type { Action, PolicyInput, RuleMatch } from '../../contracts/schemas/policy.ts';
import type { Organisation } from '../../domain/policy/judge.ts';
import { visible } from '../../domain/text/escape.ts';
import { globCovers, globMatches, splitTool } from '../../domain/text/match.ts';

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
    ...rules.flatMap(({ match = {}, when, then, breakGlass }, index) =>
      breakGlass !== undefined
        ? []
        : [
            {
              path: pathText(['policy', 'rules', index]),
              server: match.server ?? '*',
              tool: match.tool ?? '*',
              then,
              ...(match.annotations === undefined ? {} : { annotations: match.annotations }),
              isConditional: when !== undefined,
            },
          ],
    ),
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
  const named = [
    ...rules.map(({ match }, index) => ({
      path: pathText(['policy', 'rules', index, 'match', 'server']),
      server: match?.server ?? '*',
    })),
    ...always.map((entry, index) => ({ path: pathText(['policy', 'always', index]), server: splitTool(entry).server })),
    ...never.map((entry, index) => ({ path: pathText(['policy', 'never', index]), server: splitTool(entry).server })),
  ];
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

/** Reports temporary measures, which are easily forgotten. */
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

/** @returns the path, and a reason that continues it */
export function conditionProblems(
  policy: PolicyInput,
  at: readonly (string | number)[] = ['policy'],
): { readonly path: string; readonly reason: string }[] {
  return (policy.rules ?? []).flatMap(({ when }, index) => {
    if (when === undefined) return [];
    try {
      compileCondition(when);
      return [];
    } catch (error) {
      // Sound: `compileCondition` throws nothing else.
      return [{ path: pathText([...at, 'rules', index, 'when']), reason: (error as Error).message }];
    }
  });
}
