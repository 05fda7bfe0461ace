/**
 * Shows catalogs to people, and of each tool its settings, its effective verdict and its definition.
 *
 * 1. A definition is its server's text. It is shown whole, escaped, and with a bar before every line, so that no text
 *    of a server can pass for ours.
 */
import { howToBeginAnew } from '../../client/catalog/catalog-handle.ts';
import type { EffectiveVerdict } from '../../client/index.ts';
import { defined } from '../../contracts/defined.ts';
import type {
  CatalogEntry,
  CatalogSnapshot,
  PendingChange,
  ToolChange,
  ToolSetting,
} from '../../contracts/schemas/catalog.ts';
import type { JsonValue } from '../../contracts/schemas/json.ts';
import type { ApproverList } from '../../contracts/schemas/policy.ts';
import type { ToolDefinition } from '../../contracts/schemas/tool.ts';
import type { FieldDifference } from '../../domain/catalog/discovery.ts';
import { changedSetting } from '../../domain/catalog/settings.ts';
import { hasDrifted } from '../../domain/catalog/state.ts';
import { describeRule } from '../../domain/policy/approvers.ts';
import { named, visible } from '../../domain/text/escape.ts';
import { shellWord } from '../../domain/text/shell-word.ts';
import type { Answer } from '../session/verb.ts';
import type { CatalogReading, readCatalogs } from '../session/catalog-reading.ts';
import type { Paint } from '../session/terminal.ts';
import {
  count,
  duration,
  fields,
  given,
  names as listed,
  said,
  short,
  shortInstant,
  shortName,
  table,
  timeLeft,
  toolText,
} from './format.ts';

const MOST_NAMED = 5;

export function catalogsAnswer(
  tenant: string,
  { snapshots, unread }: Awaited<ReturnType<typeof readCatalogs>>,
): Answer {
  const catalogs = snapshots.map((snapshot) => ({
    server: snapshot.server,
    status: snapshot.status,
    url: snapshot.connection?.url,
    version: snapshot.policyVersion,
    ...countsOf(snapshot),
    waiting: openChanges(snapshot, Date.now()).length,
    lastRefresh: snapshot.lastRefresh,
  }));
  return {
    json: { tenant, catalogs, unread },
    text: (paint) => {
      if (catalogs.length === 0) return `Tenant ${visible(tenant)} has no catalog.`;
      const rows = catalogs.map(({ server, status, url = '', lastRefresh, ...each }) => {
        const { version, tools, missing, changed, waiting } = each;
        const failed = lastRefresh?.ok === false ? ` ${said(lastRefresh.code ?? 'failed')}` : '';
        const refreshed = lastRefresh === undefined ? '' : `${shortInstant(lastRefresh.at)}${failed}`;
        const counts = [version, tools, missing, changed, waiting].map(String);
        return [visible(server), status, visible(url), ...counts, refreshed];
      });
      const head = ['SERVER', 'STATUS', 'URL', 'VERSION', 'TOOLS', 'MISSING', 'CHANGED', 'WAITING', 'LAST REFRESH'];
      const shown = table(paint, [head, ...rows]);
      const [first] = unread;
      if (first === undefined) return shown;
      const why = `see: countersign catalog show ${visible(first)} --tenant ${shellWord(tenant)}`;
      return `${shown}\n\n${paint('yellow', 'warning')}  ${listed(unread, MOST_NAMED)} cannot be read now; ${why}`;
    },
  };
}

function countsOf({ entries }: CatalogSnapshot) {
  const missing = entries.filter(({ status }) => status === 'missing').length;
  return { tools: entries.length, missing, changed: entries.filter(hasDrifted).length };
}

/** @param ended how the catalog was ended from outside */
export function toolsAnswer({ snapshot, verdicts }: CatalogReading, ended?: string): Answer {
  const { tenant, server, status, policyVersion, entries } = snapshot;
  return {
    json: {
      tenant,
      server,
      status,
      ...defined({ ended }),
      version: policyVersion,
      tools: entries.map((entry) => ({
        name: entry.name,
        status: entry.status,
        changed: hasDrifted(entry),
        definition: entry.definition.hash,
        setting: entry.setting,
        verdict: verdicts.get(entry.name),
      })),
    },
    text: (paint) => {
      const head = `${paint('bold', visible(server))}  ${status}, version ${policyVersion}, ${count(entries.length, 'tool')}`;
      const whole = ended === undefined ? head : `${head}\n${fields(paint, [endedRow(snapshot, ended)])}`;
      return entries.length === 0 ? whole : `${whole}\n\n${toolTable({ snapshot, verdicts }, paint)}`;
    },
  };
}

export function toolTable(
  { snapshot, verdicts }: Pick<CatalogReading, 'snapshot' | 'verdicts'>,
  paint: Paint,
  names?: readonly string[],
): string {
  const rows = snapshot.entries
    .filter(({ name }) => names === undefined || names.includes(name))
    .map((entry) => {
      const verdict = verdicts.get(entry.name);
      const texts = [statusText(entry), settingText(entry.setting), verdictText(verdict), reasonText(verdict)];
      return [named(entry.name), ...texts];
    });
  return table(paint, [['TOOL', 'STATUS', 'SETTING', 'A CALL', 'BY'], ...rows]);
}

/** @param ended how the catalog was ended from outside */
export function catalogAnswer(snapshot: CatalogSnapshot, now: number, ended?: string): Answer {
  return {
    json: { ...snapshot, ...defined({ ended }) },
    text: (paint) => catalogText(snapshot, now, paint, ended),
  };
}

/** Nothing else tells it: a catalog that has ended is read as it was last. */
function endedRow({ tenant, server }: CatalogSnapshot, ended: string): readonly [string, string] {
  return ['ended', `from outside (${ended}), and takes no change: ${howToBeginAnew({ tenant, server })}`];
}

function catalogText(snapshot: CatalogSnapshot, now: number, paint: Paint, ended: string | undefined): string {
  const { tenant, server, status, connection, policyVersion, lastRefresh, newTools } = snapshot;
  const { tools, missing, changed } = countsOf(snapshot);
  const head = `${paint('bold', visible(server))}  ${paint(status === 'connected' ? 'green' : 'red', status)}`;
  const rows = [
    ...(ended === undefined ? [] : [endedRow(snapshot, ended)]),
    ['tenant', visible(tenant)],
    ['url', given(connection?.url, visible)],
    ['credentials', connection?.credentials],
    ['queue', connection?.taskQueue],
    ['trusted', connection?.trusted === true ? 'yes' : 'no'],
    ['version', String(policyVersion)],
    ['tools', `${tools}, ${missing} missing, ${changed} changed`],
    ['new tools', newTools === 'ask' ? 'ask' : "as the organisation's strategy says"],
    ['refreshed', lastRefresh === undefined ? 'never' : refreshText(lastRefresh)],
    ['ledger', `${snapshot.ledgerLength} entries, head ${snapshot.ledgerHead}`],
  ] as const;
  const refused = (lastRefresh?.refused ?? []).map(
    ({ name, reason }) => `  ${paint('red', 'refused')}  ${shortName(name)}: ${said(reason)}`,
  );
  const waiting = openChanges(snapshot, now).map((change) => pendingText(snapshot, change, now, paint));
  const parts = [`${head}\n${fields(paint, rows)}`, ...(refused.length > 0 ? [refused.join('\n')] : []), ...waiting];
  return parts.join('\n\n');
}

function refreshText({ refresh, at, ok, code, message }: NonNullable<CatalogSnapshot['lastRefresh']>): string {
  const end = ok ? '' : `, failed: ${said(code ?? '')} ${said(message ?? '')}`.trimEnd();
  return `${shortInstant(at)}, refresh ${refresh}${end}`;
}

/** Returns the changes that can still be decided; the others are closed when the catalog next changes. */
export function openChanges({ pending }: Pick<CatalogSnapshot, 'pending'>, now: number): readonly PendingChange[] {
  return pending.filter(({ deadline }) => Date.parse(deadline) > now);
}

export function toolAnswer({ snapshot, definitions, verdicts }: CatalogReading, entry: CatalogEntry): Answer {
  const { tenant, server, policyVersion } = snapshot;
  const { name, setting, definition, acknowledged, firstSeen, lastSeen } = entry;
  const known = definitions.get(name);
  const verdict = verdicts.get(name);
  return {
    json: { tenant, server, version: policyVersion, ...entry, verdict, definitions: known },
    text: (paint) => {
      const rows = [
        ['status', statusText(entry)],
        ['setting', settingText(setting)],
        ['a call', verdictText(verdict)],
        ['by', reasonText(verdict)],
        ['definition', definition.hash],
        ['acknowledged', acknowledged?.hash === definition.hash ? 'this definition' : (acknowledged?.hash ?? 'none')],
        ['first seen', shortInstant(firstSeen)],
        ['last seen', shortInstant(lastSeen)],
      ] as const;
      const shown = known === undefined ? '' : `\n\n${definitionText(known.current, paint)}`;
      return `${paint('bold', toolText(server, name))}\n${fields(paint, rows)}${shown}`;
    },
  };
}

export function diffAnswer(
  { tenant, server, policyVersion }: Pick<CatalogSnapshot, 'tenant' | 'server' | 'policyVersion'>,
  diffs: readonly ToolDiff[],
): Answer {
  const tools = diffs.map(({ entry: { name, definition, acknowledged }, differences }) => {
    return { name, acknowledged: acknowledged?.hash, definition: definition.hash, differences };
  });
  return {
    json: { tenant, server, version: policyVersion, tools },
    text: (paint) => {
      if (diffs.length === 0) return `No tool of ${visible(server)} has changed since it was acknowledged.`;
      const shown = diffs.map((diff) => {
        const { name, definition, acknowledged } = diff.entry;
        if (acknowledged?.hash === definition.hash) return diffText(diff, paint);
        const next = `Accept it: countersign catalog allow ${visible(server)} ${shellWord(name)} --tenant ${shellWord(tenant)} --as ID --hash ${definition.hash.slice(0, 12)}`;
        return `${diffText(diff, paint)}\n  ${paint('dim', next)}`;
      });
      return shown.join('\n\n');
    },
  };
}

export function settingText({ enabled, requiresApproval, denied, approvers, deadlineSeconds }: ToolSetting): string {
  const words = [
    ...(enabled ? [] : ['disabled']),
    ...(denied ? ['denied'] : []),
    ...(requiresApproval ? ['asks'] : []),
  ];
  return [
    // Without a setting, only the organisation's policy decides.
    ...(words.length > 0 ? words : ['open']),
    ...(approvers === undefined ? [] : [approversText(approvers)]),
    ...(deadlineSeconds === undefined ? [] : [`within ${duration(deadlineSeconds * 1_000)}`]),
  ].join(', ');
}

function approversText({ ids, groups, need, notInitiator, may, remember }: ApproverList): string {
  const not = notInitiator === true ? ['the initiator'] : undefined;
  const clause = { layer: 'catalog', ids, groups, ...defined({ need, not, may, remember }) } as const;
  return visible(describeRule({ allOf: [clause] }));
}

function statusText(entry: CatalogEntry): string {
  return hasDrifted(entry) ? `${entry.status}, changed` : entry.status;
}

function verdictText(verdict: EffectiveVerdict | undefined): string {
  if (verdict?.kind !== 'ask') return verdict?.kind ?? '';
  const { approvers, deadlineSeconds } = verdict;
  const who = approvers === undefined ? 'whoever starts the run' : visible(describeRule(approvers));
  return `ask ${who}, ${duration(deadlineSeconds * 1_000)}`;
}

function reasonText(verdict: EffectiveVerdict | undefined): string {
  return (verdict?.rules ?? []).map(visible).join(', ');
}

/** Shows a waiting change and how to agree to it, with all that its digest covers and a person can judge. */
export function pendingText(
  { tenant, server, entries }: Pick<CatalogSnapshot, 'tenant' | 'server' | 'entries'>,
  { changeId, digest, by, openedAt, deadline, trusted, changes }: PendingChange,
  now: number,
  paint: Paint,
): string {
  const lines = changes.map((change) => `    ${changeText(entries, change)}`);
  const rows = [
    ['asked by', `${visible(by.id)} at ${shortInstant(openedAt)}`],
    ['until', `${shortInstant(deadline)}, ${timeLeft(deadline, now)}`],
    ['digest', digest],
    ['trusts the server', trusted === undefined ? undefined : trusted ? 'yes' : 'no'],
  ] as const;
  const next = `Agree: countersign catalog approve ${visible(server)} ${visible(changeId)} --tenant ${shellWord(tenant)} --as ID --digest ${digest}`;
  return [
    `${paint('bold', visible(changeId))}  ${paint('yellow', 'waits for a second administrator')}, ${count(changes.length, 'tool')}`,
    fields(paint, rows),
    ...lines,
    paint('dim', next),
  ].join('\n');
}

function changeText(entries: CatalogSnapshot['entries'], change: ToolChange): string {
  const { tool, acknowledge } = change;
  const entry = entries.find(({ name }) => name === tool);
  const notice = acknowledge === undefined ? '' : `, definition ${short(acknowledge)} acknowledged`;
  if (entry === undefined) return `${shortName(tool)}: is not in the catalog any more`;
  return `${shortName(tool)}: ${settingText(entry.setting)} → ${settingText(changedSetting(entry.setting, change))}${notice}`;
}

const BAR = '│';

function definitionText(definition: ToolDefinition, paint: Paint): string {
  const { title, description, inputSchema, outputSchema, annotations } = definition;
  const parts: readonly (readonly [string, JsonValue | undefined])[] = [
    ['title', title],
    ['description', description],
    ['input', inputSchema],
    ['output', outputSchema],
    ['annotations', annotations],
  ];
  const lines = parts.flatMap(([label, value]) =>
    value === undefined ? [] : [`  ${paint('dim', label)}`, ...linesOf(value).map((line) => `  ${BAR} ${line}`)],
  );
  return lines.join('\n');
}

export interface ToolDiff {
  readonly entry: CatalogEntry;
  readonly differences: readonly FieldDifference[];
}

function diffText({ entry, differences }: ToolDiff, paint: Paint): string {
  const { name, acknowledged, definition } = entry;
  const from = acknowledged === undefined ? 'nothing was acknowledged' : `acknowledged ${acknowledged.hash}`;
  const shown = differences.map(({ path, before, after }) =>
    [
      `  ${paint('dim', 'at')} ${BAR} ${paint('bold', visible(path))}`,
      ...(before === undefined ? [] : linesOf(before).map((line) => `  ${paint('red', `- ${BAR} ${line}`)}`)),
      ...(after === undefined ? [] : linesOf(after).map((line) => `  ${paint('green', `+ ${BAR} ${line}`)}`)),
    ].join('\n'),
  );
  const head = `${paint('bold', named(name))}\n  ${paint('dim', from)}\n  ${paint('dim', `now ${definition.hash}`)}`;
  return [head, ...(shown.length > 0 ? shown : ['  nothing has changed'])].join('\n');
}

function linesOf(value: JsonValue): string[] {
  const text = typeof value === 'string' ? value : JSON.stringify(value, undefined, 2);
  return text.split(/\r?\n/).map((line) => line.split('\t').map(visible).join('    '));
}
