/** A list of approvers as policy states it, as the clause that a request carries. */
import type { ApproverClause, ApproverRule, PolicyInput } from '../contracts/schemas/policy.ts';

type Stated = NonNullable<PolicyInput['approvers']>;

export function clauseOf(layer: ApproverClause['layer'], list: Stated, initiatorId: string): ApproverClause {
  const { ids = [], groups = [], need, notInitiator, may, remember, escalate } = list;
  const rights = { ...(may === undefined ? {} : { may }), ...(remember === undefined ? {} : { remember }) };
  // Whatever else it may say: nobody but whoever started the run.
  if (list.onlyInitiator === true) return { layer, ids: [initiatorId], groups: [], ...rights };
  return {
    layer,
    ids,
    groups,
    ...(need === undefined ? {} : { need }),
    ...(notInitiator === true ? { not: [initiatorId] } : {}),
    ...rights,
    ...(escalate === undefined ? {} : { escalate: laterOf(escalate) }),
  };
}

/** Where nobody is named, whoever started the run decides. */
export function initiatorRule(initiatorId: string): ApproverRule {
  return { allOf: [{ layer: 'default', ids: [initiatorId], groups: [] }] };
}

/** Defaults may be missing in a run's own policy. */
function laterOf(stated: NonNullable<Stated['escalate']>): NonNullable<ApproverClause['escalate']> {
  const { afterSeconds } = stated;
  const { ids = [], groups = [] } = 'add' in stated ? stated.add : stated.replace;
  return 'add' in stated ? { afterSeconds, add: { ids, groups } } : { afterSeconds, replace: { ids, groups } };
}
