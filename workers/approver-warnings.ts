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
  return [...ofEntry(policy, policy, ['policy']), ...rules, ...servers];
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
