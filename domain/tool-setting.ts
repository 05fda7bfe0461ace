/** One tool's policy: what a change makes of it, and whether that lets more pass or less. */
import type { ToolChange, ToolSetting } from '../contracts/schemas/catalog.ts';
import type { ApproverList } from '../contracts/schemas/policy.ts';
import { DEFAULT_DEADLINE_SECONDS } from './default-deadline.ts';

export type Direction = 'loosens' | 'tightens';

export function changedSetting(before: ToolSetting, change: ToolChange): ToolSetting {
  const { enabled, requiresApproval, denied } = before;
  const approvers = change.approvers === undefined ? before.approvers : (change.approvers ?? undefined);
  const deadlineSeconds =
    change.deadlineSeconds === undefined ? before.deadlineSeconds : (change.deadlineSeconds ?? undefined);
  return {
    enabled: change.enabled ?? enabled,
    requiresApproval: change.requiresApproval ?? requiresApproval,
    denied: change.denied ?? denied,
    ...(approvers === undefined ? {} : { approvers }),
    ...(deadlineSeconds === undefined ? {} : { deadlineSeconds }),
  };
}

/** Both, where one part does this and another that; none where nothing changes. What is not surely stricter is looser (INV-G4). */
export function directionsOf(before: ToolSetting, after: ToolSetting): ReadonlySet<Direction> {
  const directions = new Set<Direction>();
  const flag = (was: boolean, is: boolean, stricter: boolean): void => {
    if (was !== is) directions.add(is === stricter ? 'tightens' : 'loosens');
  };
  flag(before.enabled, after.enabled, false);
  flag(before.requiresApproval, after.requiresApproval, true);
  flag(before.denied, after.denied, true);
  if (letsIn(after.approvers, before.approvers)) directions.add('loosens');
  else if (letsIn(before.approvers, after.approvers)) directions.add('tightens');
  const { deadlineSeconds: was } = before;
  const { deadlineSeconds: is } = after;
  // Silence means 24 hours where no other layer states a time: more than that would give time where there was less.
  if (was !== is) directions.add(is !== undefined && is <= (was ?? DEFAULT_DEADLINE_SECONDS) ? 'tightens' : 'loosens');
  return directions;
}

/** Does a list let in somebody whom the other keeps out, or let them do more? Where there is none, the initiator decides: any list may let in others. */
function letsIn(list: ApproverList | undefined, other: ApproverList | undefined): boolean {
  if (list === undefined || other === undefined) return list !== other;
  const { need = 1, notInitiator = false, may = [], remember = [] } = list;
  if (need < (other.need ?? 1) || (other.notInitiator === true && !notInitiator)) return true;
  if (remember.some((scope) => other.remember?.includes(scope) !== true)) return true;
  if (may.some((right) => other.may?.includes(right) !== true)) return true;
  return list.ids.some((id) => !other.ids.includes(id)) || list.groups.some((group) => !other.groups.includes(group));
}
