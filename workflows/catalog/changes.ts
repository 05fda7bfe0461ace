/**
 * Applies messages to a catalog. Each first asks the configuration who may send it.
 *
 * 1. All checks are made again after the question: a refresh may have come in between.
 */
import type { ApplicationFailure } from '@temporalio/common';
import { patched } from '@temporalio/workflow';
import { defined } from '../../contracts/defined.ts';
import { codedFailureIn, failureOf } from '../../contracts/failure.ts';
import type { Approver } from '../../contracts/schemas/request.ts';
import type {
  CatalogAck,
  CatalogConnect,
  CatalogConnection,
  CatalogDecision,
  CatalogDisconnect,
  CatalogRefresh,
  CatalogRight,
  PendingChange,
  SetToolPolicies,
} from '../../contracts/schemas/catalog.ts';
import type { Review, ReviewInput, SignedChange } from '../../contracts/wire/catalog.ts';
import { overLimit } from '../../domain/catalog/carry.ts';
import { agreed, opened } from '../../domain/catalog/pending.ts';
import {
  type CatalogPlan,
  checkVersion,
  missingRight,
  planned,
  policiesSet,
  rightsOf,
} from '../../domain/catalog/settings.ts';
import { answered, type CatalogChange, connected, disconnected, refreshAsked } from '../../domain/catalog/state.ts';
import { refuseSameVoice, witnessed } from '../../domain/catalog/signed-change.ts';
import { hashOf } from '../../domain/text/canonical.ts';
import type { Refusal } from '../../domain/text/refusal.ts';
import { canonicalServerUrl } from '../../domain/text/urls.ts';
import { refuseWith } from '../entity/entity.ts';
import { assertFailure } from '../entity/unread.ts';
import type { LiveCatalog } from './live-catalog.ts';
import { type Message, refusal } from './trust.ts';

type Signed = SignedChange | undefined;

/** Connects a server. If trusting it needs a second voice, the server is connected untrusted until then. */
export async function connect(live: LiveCatalog, message: CatalogConnect, signed?: Signed): Promise<CatalogAck> {
  const { requestId: _, by, expectedVersion, ...wanted } = message;
  const chosen: CatalogConnection = { ...wanted, url: canonicalServerUrl(wanted.url) };
  const { rules, taskQueue } = await reviewed(live, { by, connection: chosen, ...proofOf(signed) });
  const asked = taskQueue === undefined ? chosen : { ...chosen, taskQueue };
  const { status, connection: known } = live.catalog;
  // A repeated connect only lists the tools again; one that would change something must name the version that was seen.
  if (status === 'connected' && hashOf(known) === hashOf(asked)) return refreshNow(live, message, rules);
  if (status !== 'new' || expectedVersion !== undefined) refuseWith(checkVersion(live.catalog, expectedVersion ?? 0));
  const trustsNow = live.catalog.connection?.trusted === true && live.catalog.connection.url === asked.url;
  const loosens = asked.trusted && !trustsNow;
  mustHave(live, by, rules, loosens ? ['connect', 'loosen'] : ['connect']);
  const mustWait = loosens && rules.loosening === 'countersign';
  const connection = mustWait ? { ...asked, trusted: false } : asked;
  const change = connected(live.catalog, connection, by);
  const refreshed = { ...change, catalog: refreshAsked(change.catalog) };
  if (!mustWait) return answer(live, message, refreshed, { refresh: refreshed.catalog.refreshes }, signed);
  const pending = must(
    opened(
      refreshed.catalog,
      { by, changes: [], trusted: true, ...defined({ signature: signed?.signature }) },
      { edits: [] },
      Date.now(),
    ),
  );
  return answer(
    live,
    message,
    { catalog: pending.catalog, facts: [...refreshed.facts, ...pending.facts] },
    { status: 'waiting', changeId: pending.changeId, refresh: refreshed.catalog.refreshes },
    signed,
  );
}

export async function refresh(live: LiveCatalog, message: CatalogRefresh, signed?: Signed): Promise<CatalogAck> {
  const { by } = message;
  const { rules } = await reviewed(live, { by, ...proofOf(signed) });
  return refreshNow(live, message, rules);
}

function refreshNow(live: LiveCatalog, message: CatalogRefresh, rules: Review['rules']): CatalogAck {
  if (rightsOf(rules, message.by).size === 0) throw forbidden(live, message.by, 'tighten');
  mustBeConnected(live);
  const catalog = refreshAsked(live.catalog);
  return answer(live, message, { catalog, facts: [] }, { refresh: catalog.refreshes });
}

export async function changePolicies(
  live: LiveCatalog,
  message: SetToolPolicies,
  signed?: Signed,
): Promise<CatalogAck> {
  const { by, changes, expectedVersion } = message;
  const first = must(planned(live.catalog, changes));
  // The limit is checked before the question, because the settings must fit into the question.
  refuseWith(overLimit(policiesSet(live.catalog, first, by)));
  const { rules } = await reviewed(live, { by, settings: toHonour(first), ...proofOf(signed) });
  refuseWith(checkVersion(live.catalog, expectedVersion));
  const plan = must(planned(live.catalog, changes));
  mustHave(live, by, rules, plan.needs);
  if (!plan.needs.has('loosen') || rules.loosening === 'allow')
    return answer(live, message, policiesSet(live.catalog, plan, by), {}, signed);
  const pending = must(
    opened(live.catalog, { by, changes, ...defined({ signature: signed?.signature }) }, plan, Date.now()),
  );
  return answer(live, message, pending, { status: 'waiting', changeId: pending.changeId }, signed);
}

export async function disconnect(live: LiveCatalog, message: CatalogDisconnect, signed?: Signed): Promise<CatalogAck> {
  const { by, expectedVersion } = message;
  const { rules } = await reviewed(live, { by, ...proofOf(signed) });
  refuseWith(checkVersion(live.catalog, expectedVersion));
  mustHave(live, by, rules, ['connect']);
  mustBeConnected(live);
  return answer(live, message, disconnected(live.catalog, by), {}, signed);
}

/** @throws ApplicationFailure `CATALOG_VERSION_CONFLICT` if the approved change no longer does what was shown */
export async function decideChange(live: LiveCatalog, message: CatalogDecision, signed?: Signed): Promise<CatalogAck> {
  const { by, changeId, verdict } = message;
  const { connection } = live.catalog;
  const pending = live.catalog.pending.find((change) => change.changeId === changeId);
  const plan = planned(live.catalog, pending?.changes ?? []);
  const { rules } = await reviewed(live, {
    by,
    // A setting that could be honoured when it was asked for may no longer be.
    ...(verdict === 'approve' && plan.kind === 'plan' ? { settings: toHonour(plan) } : {}),
    ...(verdict === 'approve' && pending?.trusted === true && connection !== undefined
      ? { connection: { ...connection, trusted: true } }
      : {}),
    ...proofOf(signed, verdict === 'approve' ? pending : undefined),
  });
  assertOtherVoice(live, message, signed?.signature);
  const change = must(agreed(live.catalog, message, rules, Date.now(), () => patched('as-documented')));
  if (verdict === 'reject' || change.catalog.policyVersion > live.catalog.policyVersion)
    return answer(live, message, change, { changeId }, signed);
  live.commit({ ...change, facts: witnessed(change.facts, by, signed?.signature) });
  throw failureOf(
    'CATALOG_VERSION_CONFLICT',
    `The catalog has changed since ${changeId} was asked for, so it no longer does what was shown; it is closed. Ask for it again.`,
    { changeId },
  );
}

/** Refuses a second voice by the same key, because one key is one voice; the validator calls this too. */
export function assertOtherVoice(live: LiveCatalog, decision: CatalogDecision, signature: string | undefined): void {
  if (live.signing === undefined || signature === undefined) return;
  const refused = refuseSameVoice(decision, live.catalog.pending, signature, live.signing.trust);
  if (refused !== undefined) throw refusal(live, refused);
}

/** @param asked the pending change to which the message agrees */
function proofOf(signed: Signed, asked?: PendingChange): Pick<ReviewInput, 'signed'> {
  if (signed === undefined) return {};
  if (asked === undefined) return { signed };
  return { signed: { ...signed, asked: { by: asked.by, ...defined({ signature: asked.signature }) } } };
}

/** Settings that the configuration must be able to honour; one that takes a permission away always can be. */
function toHonour({ edits }: CatalogPlan): NonNullable<ReviewInput['settings']> {
  return edits
    .filter(({ setting }) => setting.enabled && !setting.denied)
    .map(({ before, setting }) => ({ tool: before.name, setting, before: before.setting }));
}

/** @throws ApplicationFailure if the configuration cannot be asked, or could not honour the wish */
async function reviewed(live: LiveCatalog, wanted: Parameters<LiveCatalog['review']>[0]): Promise<Review> {
  let review: Review;
  try {
    review = await live.review(wanted);
  } catch (error) {
    assertFailure(error);
    const coded = codedFailureIn(error);
    throw failureOf(
      coded?.code ?? 'CATALOG_UNAVAILABLE',
      coded?.message ?? 'The configuration could not be asked; nothing was changed. Try again.',
      coded?.facts ?? {},
    );
  }
  const { unproven } = review;
  if (unproven !== undefined) throw failureOf(unproven.code, unproven.message, unproven.facts);
  // A sender without any right is not told what could be honoured.
  if (rightsOf(review.rules, wanted.by).size === 0) throw forbidden(live, wanted.by, 'tighten');
  const [objection] = review.objections;
  if (objection === undefined) return review;
  throw failureOf(
    'CATALOG_SETTING_UNSUPPORTED',
    `${objection.path}: ${objection.reason} Nothing was changed; taking away (disable, deny) is always possible.`,
    { path: objection.path },
  );
}

function answer(
  live: LiveCatalog,
  message: Message,
  { catalog, facts }: CatalogChange,
  more: Partial<CatalogAck> = {},
  signed?: Signed,
): CatalogAck {
  const ack: CatalogAck = {
    requestId: message.requestId,
    status: 'applied',
    policyVersion: catalog.policyVersion,
    ...more,
  };
  live.commit({
    catalog: answered(catalog, ack, hashOf(message)),
    facts: witnessed(facts, message.by, signed?.signature),
  });
  return ack;
}

function mustHave(live: LiveCatalog, by: Approver, rules: Review['rules'], needed: Iterable<CatalogRight>): void {
  const missing = missingRight(rules, by, needed);
  if (missing !== undefined) throw forbidden(live, by, missing);
}

function mustBeConnected({ catalog }: LiveCatalog): void {
  if (catalog.status === 'connected') return;
  throw failureOf('CATALOG_NOT_FOUND', `${catalog.server} is not connected; connect it first.`, {
    server: catalog.server,
  });
}

export function forbidden(
  { catalog: { tenant, server } }: LiveCatalog,
  by: Approver,
  right: CatalogRight,
): ApplicationFailure {
  return failureOf(
    'CATALOG_FORBIDDEN',
    `${by.id} may not ${right} tools of ${server} in tenant ${tenant}. Ask an administrator that catalog.administrators names; nothing was changed.`,
    { right },
  );
}

function must<T>(value: T): Exclude<T, Refusal> {
  refuseWith(value);
  return value;
}
