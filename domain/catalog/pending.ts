/**
 * A pending change is a loosening that a second administrator must agree to.
 *
 * 1. Its digest covers every change with the state before and after: what was shown is what is agreed to (INV-G2).
 * 2. The change binds the state it was planned on; if that state has changed, the change is outdated and does nothing.
 * 3. Nobody agrees to their own change, nor after its deadline. Both administrators must still have the right then.
 */
import { defined } from '../../contracts/defined.ts';
import type { ErrorCode } from '../../contracts/errors.ts';
import type { CatalogDecision, CatalogRules, PendingChange, ToolChange } from '../../contracts/schemas/catalog.ts';
import type { LedgerFact } from '../../contracts/schemas/ledger.ts';
import { DEFAULT_DEADLINE_SECONDS, isSamePerson } from '../policy/approvers.ts';
import { hashOf } from '../text/canonical.ts';
import { type Refusal, refuse } from '../text/refusal.ts';
import { type CatalogPlan, missingRight, planned, policiesSet } from './settings.ts';
import { type Catalog, type CatalogChange, catalogId } from './state.ts';

const MOST_PENDING = 20;

export type Loosening = Pick<PendingChange, 'by' | 'trusted' | 'signature'> & {
  readonly changes: readonly ToolChange[];
};

/** Opens a pending change. @param now epoch ms */
export function opened(
  catalog: Catalog,
  { by, changes, trusted, signature }: Loosening,
  plan: Pick<CatalogPlan, 'edits'>,
  now: number,
): (CatalogChange & { readonly changeId: string }) | Refusal {
  const open = catalog.pending.filter(({ deadline }) => Date.parse(deadline) > now);
  if (open.length >= MOST_PENDING)
    return refuse('LIMIT_REACHED', `${MOST_PENDING} changes wait already; decide some of them first.`);
  const number = catalog.changesOpened + 1;
  const changeId = `change-${number}`;
  const digest = digestOf(catalog, { changeId, by, trusted }, plan);
  const deadline = new Date(now + DEFAULT_DEADLINE_SECONDS * 1_000).toISOString();
  const change: PendingChange = {
    changeId,
    digest,
    by,
    openedAt: new Date(now).toISOString(),
    deadline,
    ...defined({ trusted }),
    changes: [...changes],
    ...defined({ signature }),
  };
  const expired = catalog.pending.filter((each) => !open.includes(each)).map((each) => closedFact(each, 'expired'));
  return {
    changeId,
    catalog: { ...catalog, changesOpened: number, pending: [...open, change] },
    facts: [...expired, { kind: 'catalog.change-opened', changeId, digest, by, deadline }],
  };
}

/**
 * Decides a pending change. @param now epoch ms
 * @param isStrict whether who asked for trust must still have the right for it; asked only if they have not
 */
export function agreed(
  catalog: Catalog,
  decision: CatalogDecision,
  rules: CatalogRules,
  now: number,
  isStrict: () => boolean,
): CatalogChange | Refusal {
  const { changeId, by, verdict } = decision;
  const no = (code: ErrorCode, message: string): Refusal => refuse(code, message, { changeId });
  const pending = catalog.pending.find((change) => change.changeId === changeId);
  if (pending === undefined) return no('REQUEST_NOT_OPEN', `No change ${changeId} waits; see the catalog.`);
  const rest = { ...catalog, pending: catalog.pending.filter((change) => change !== pending) };
  if (decision.digest !== pending.digest)
    return no('DIGEST_MISMATCH', `Change ${changeId} is another one than was shown; look at it again.`);
  if (Date.parse(pending.deadline) <= now)
    return no('DECISION_EXPIRED', `Change ${changeId} waited until ${pending.deadline}; ask for it again.`);
  if (isSamePerson(rules, by.id, pending.by.id) && verdict === 'approve')
    return no('APPROVER_NOT_ENTITLED', `Somebody else than ${by.id} must agree to change ${changeId}.`);
  if (missingRight(rules, by, ['loosen']) !== undefined)
    return no('CATALOG_FORBIDDEN', `${by.id} may not loosen the catalogs of tenant ${catalog.tenant}.`);
  if (verdict === 'reject') return { catalog: rest, facts: [closedFact({ ...pending, by }, 'rejected')] };
  const plan = planned(catalog, pending.changes);
  if (
    plan.kind === 'refuse' ||
    digestOf(catalog, pending, plan) !== pending.digest ||
    missingRight(rules, pending.by, ['loosen', ...plan.needs]) !== undefined ||
    (pending.trusted !== undefined && missingRight(rules, pending.by, ['connect']) !== undefined && isStrict())
  )
    return { catalog: rest, facts: [closedFact({ ...pending, by }, 'outdated')] };
  const set = policiesSet(rest, plan, pending.by, {
    agreed: by,
    ...defined({ trusted: pending.trusted, signature: pending.signature }),
  });
  return { catalog: set.catalog, facts: [closedFact({ ...pending, by }, 'approved'), ...set.facts] };
}

function digestOf(
  catalog: Catalog,
  { changeId, by, trusted }: Pick<PendingChange, 'changeId' | 'by' | 'trusted'>,
  { edits }: Pick<CatalogPlan, 'edits'>,
): string {
  return hashOf({
    catalog: catalogId(catalog),
    changeId,
    by,
    connection: catalog.connection,
    trusted,
    edits: edits.map(({ before, setting, acknowledges }) => ({
      tool: before.name,
      before: before.setting,
      after: setting,
      definition: before.definition.hash,
      acknowledges,
    })),
  });
}

function closedFact(
  { changeId, by }: Pick<PendingChange, 'changeId' | 'by'>,
  status: 'approved' | 'rejected' | 'expired' | 'outdated',
): LedgerFact {
  return { kind: 'catalog.change-closed', changeId, by, status };
}
