/** What a policy says of approvers and times that can never come about. */
import type { Config } from '../contracts/schemas/config.ts';
import { pathText } from '../contracts/schemas/issues.ts';
import type { ApproverList } from '../contracts/schemas/policy.ts';
import { type Entry, timeWarnings } from './time-warnings.ts';

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

/** Nobody can be in a group that does not exist: most often it is one whose name was mistyped. */
function unknownGroups({ groups: known, ...policy }: Config['policy']): string[] {
  if (known === undefined) return [];
  return groupListsIn(policy, ['policy']).flatMap(({ groups, path }) =>
    groups
      .filter((group) => !known.includes(group))
      .map((group) => `${pathText(path)} names ${group}, which is none of policy.groups: nobody can be in it.`),
  );
}

/** Every `groups` in it, at whatever depth: of approvers, escalations, rules, servers and tools. */
function groupListsIn(value: unknown, path: readonly (string | number)[]): { groups: string[]; path: typeof path }[] {
  if (value === null || typeof value !== 'object') return [];
  return Object.entries(value).flatMap(([key, inner]: [string, unknown]) => {
    const at = [...path, Array.isArray(value) ? Number(key) : key];
    const isList = key === 'groups' && Array.isArray(inner) && inner.every((group) => typeof group === 'string');
    return isList ? [{ groups: inner, path: at }] : groupListsIn(inner, at);
  });
}

/** @param whole with what the layer says where the entry is silent */
function ofEntry(whole: Entry, own: Entry, path: readonly (string | number)[]): string[] {
  return [...warningsOf(own.approvers, path), ...timeWarnings(whole, own, path)];
}

/** Of groups nobody knows how many are in them. */
function warningsOf(list: ApproverList | undefined, path: readonly (string | number)[]): string[] {
  if (list === undefined || list.onlyInitiator === true) return [];
  const { escalate } = list;
  const later = escalate === undefined ? undefined : 'add' in escalate ? escalate.add : escalate.replace;
  const where = pathText([...path, 'approvers']);
  const empty =
    later?.ids.length === 0 && later.groups.length === 0
      ? [
          `${where}.escalate names nobody: nobody else is asked${escalate !== undefined && 'replace' in escalate ? ', and whoever was may not decide any more' : ''}.`,
        ]
      : [];
  // Whoever agreed before goes on counting: those of both lists may meet it together.
  if (list.groups.length > 0 || (later?.groups.length ?? 0) > 0) return empty;
  const people = new Set([...list.ids, ...(later?.ids ?? [])]).size;
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
