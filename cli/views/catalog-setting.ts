/** What operators say of a tool, and what comes of it, in few words. */
import type { EffectiveVerdict } from '../../client/index.ts';
import type { CatalogEntry, ToolSetting } from '../../contracts/schemas/catalog.ts';
import type { ApproverList } from '../../contracts/schemas/policy.ts';
import { describeRule } from '../../domain/approver.ts';
import { hasDrifted } from '../../domain/catalog.ts';
import { visible } from '../../domain/escape.ts';
import { duration } from './duration.ts';

export function settingText({ enabled, requiresApproval, denied, approvers, deadlineSeconds }: ToolSetting): string {
  const said = [...(enabled ? [] : ['disabled']), ...(denied ? ['denied'] : []), ...(requiresApproval ? ['asks'] : [])];
  return [
    // It then depends on the organisation's policy alone.
    ...(said.length > 0 ? said : ['open']),
    ...(approvers === undefined ? [] : [approversText(approvers)]),
    ...(deadlineSeconds === undefined ? [] : [`within ${duration(deadlineSeconds * 1_000)}`]),
  ].join(', ');
}

function approversText({ ids, groups, need, notInitiator, may, remember }: ApproverList): string {
  const clause = {
    layer: 'catalog' as const,
    ids,
    groups,
    ...(need === undefined ? {} : { need }),
    ...(notInitiator === true ? { not: ['the initiator'] } : {}),
    ...(may === undefined ? {} : { may }),
    ...(remember === undefined ? {} : { remember }),
  };
  return visible(describeRule({ allOf: [clause] }));
}

/** As the server was found, and whether it has changed the tool since somebody looked. */
export function statusText(entry: CatalogEntry): string {
  return hasDrifted(entry) ? `${entry.status}, changed` : entry.status;
}

export function verdictText(verdict: EffectiveVerdict | undefined): string {
  if (verdict?.kind !== 'ask') return verdict?.kind ?? '';
  const { approvers, deadlineSeconds } = verdict;
  const who = approvers === undefined ? 'whoever starts the run' : visible(describeRule(approvers));
  return `ask ${who}, ${duration(deadlineSeconds * 1_000)}`;
}

/** By which rule, or for which reason. */
export function reasonText(verdict: EffectiveVerdict | undefined): string {
  return (verdict?.rules ?? []).map(visible).join(', ');
}
