/**
 * The catalog's entry for a tool is one layer of the judge.
 *
 * 1. The layer only tightens: without a verdict of its own, the other layers decide.
 * 2. A tool without an entry starts as the organisation says; a definition that nobody has acknowledged asks (INV-G4).
 */
import { defined } from '../../contracts/defined.ts';
import type { CatalogEntry } from '../../contracts/schemas/catalog.ts';
import type { CatalogSay } from '../policy/judge.ts';
import { type Catalog, entryOf } from './state.ts';

export type CatalogView = Pick<Catalog, 'server' | 'status' | 'entries' | 'newTools'>;

/** The catalog's verdict on a tool. @param hash of the definition that would be called */
export function catalogSays(catalog: CatalogView, tool: string, hash: string): CatalogSay {
  const { server } = catalog;
  if (catalog.status === 'disconnected')
    return denied(`catalog/${server}/disconnected`, 'TOOL_DISABLED', `${server} was disconnected from the catalog.`);
  const entry = entryOf(catalog, tool);
  if (entry === undefined)
    return catalog.newTools === 'strategy' ? { kind: 'nothing' } : { kind: 'ask', rule: `catalog/${server}/new` };
  const rule = `catalog/${server}/tools/${tool}`;
  const refusal = refusalOf(entry, rule, `${server}/${tool}`);
  if (refusal !== undefined) return refusal;
  const { approvers, deadlineSeconds, requiresApproval } = entry.setting;
  const stated = defined({ approvers, deadlineSeconds });
  if (entry.acknowledged?.hash !== hash) return { kind: 'ask', rule: `${rule}/drift`, ...stated };
  return requiresApproval ? { kind: 'ask', rule, ...stated } : { kind: 'nothing', ...stated };
}

type Denial = Extract<CatalogSay, { kind: 'deny' }>;

function refusalOf({ setting, status }: CatalogEntry, rule: string, shown: string): Denial | undefined {
  if (!setting.enabled) return denied(`${rule}/disabled`, 'TOOL_DISABLED', `${shown} is disabled in the catalog.`);
  if (status === 'missing')
    return denied(`${rule}/missing`, 'TOOL_MISSING', `${shown} is missing: its server does not list it any more.`);
  if (setting.denied) return denied(rule, 'POLICY_DENIED', `${shown} is denied by ${rule}.`);
  return undefined;
}

function denied(rule: string, code: Denial['code'], message: string): Denial {
  return { kind: 'deny', rule, code, message };
}

/** True if the model is offered the tool. A denied one is, and says so when called. */
export function isOffered(catalog: CatalogView, tool: string): boolean {
  if (catalog.status === 'disconnected') return false;
  const entry = entryOf(catalog, tool);
  return entry === undefined || (entry.setting.enabled && entry.status === 'available');
}
