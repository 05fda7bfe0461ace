/** What a policy says of approvers and times that can never come about. */
import type { Config } from '../contracts/schemas/config.ts';
import { pathText } from '../contracts/schemas/issues.ts';
import type { ApproverList, RequestTimes } from '../contracts/schemas/policy.ts';
import { DEFAULT_DEADLINE_SECONDS } from '../domain/default-deadline.ts';

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

interface Entry extends RequestTimes {
  readonly approvers?: ApproverList | undefined;
}

/** @param whole with what the layer says where the entry is silent */
function ofEntry(whole: Entry, own: Entry, path: readonly (string | number)[]): string[] {
  return [...warningsOf(own.approvers, path), ...timeWarnings(whole, own, path)];
}

function timeWarnings(whole: Entry, own: Entry, path: readonly (string | number)[]): string[] {
  const { deadlineSeconds = DEFAULT_DEADLINE_SECONDS, extendableToSeconds } = whole;
  const isStatedHere = own.extendableToSeconds !== undefined || own.deadlineSeconds !== undefined;
  if (!isStatedHere || extendableToSeconds === undefined || extendableToSeconds > deadlineSeconds) return [];
  return [
    `${pathText([...path, 'extendableToSeconds'])} is not after the deadline (${deadlineSeconds} s): nobody can postpone it.`,
  ];
}

/** Of groups nobody knows how many are in them. */
function warningsOf(list: ApproverList | undefined, path: readonly (string | number)[]): string[] {
  if (list === undefined || list.groups.length > 0) return [];
  const where = pathText([...path, 'approvers']);
  const people = new Set(list.ids).size;
  if (people === 0) return [`${where} names nobody: every request would expire.`];
  const { need = 1 } = list;
  if (people < need) return [`${where} needs ${need} people and names ${people}: every request would expire.`];
  return list.notInitiator === true && people === need
    ? [`${where} needs all whom it names, and not who started the run: runs of theirs have requests that expire.`]
    : [];
}
