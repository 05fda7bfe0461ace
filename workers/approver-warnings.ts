/** Approver lists of a policy that nobody can meet: every request of theirs would expire. */
import type { Config } from '../contracts/schemas/config.ts';
import { pathText } from '../contracts/schemas/issues.ts';
import type { ApproverList } from '../contracts/schemas/policy.ts';

export function approverWarnings({ policy }: Pick<Config, 'policy'>): string[] {
  const servers = Object.entries(policy.servers ?? {}).flatMap(([server, { tools = {} }]) =>
    Object.entries(tools).flatMap(([tool, entry]) =>
      warningsOf(typeof entry === 'string' ? undefined : entry.approvers, ['policy', 'servers', server, 'tools', tool]),
    ),
  );
  return [...warningsOf(policy.approvers, ['policy']), ...servers];
}

/** Of groups nobody knows how many are in them. */
function warningsOf(list: ApproverList | undefined, path: readonly string[]): string[] {
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
