/** Catalogs and their tools as people read them. */
import type { CatalogSnapshot, PendingChange } from '../../contracts/schemas/catalog.ts';
import { hasDrifted } from '../../domain/catalog.ts';
import { named, visible } from '../../domain/escape.ts';
import type { Answer } from '../answer.ts';
import type { CatalogReading } from '../catalog-reading.ts';
import type { Paint } from '../terminal.ts';
import { reasonText, settingText, statusText, verdictText } from './catalog-setting.ts';
import { shortInstant } from './duration.ts';
import { fields, table } from './fields.ts';
import { pendingText } from './pending-change.ts';
import { count, said, shortName } from './words.ts';

export function catalogsAnswer(tenant: string, snapshots: readonly CatalogSnapshot[]): Answer {
  const catalogs = snapshots.map((snapshot) => ({
    server: snapshot.server,
    status: snapshot.status,
    url: snapshot.connection?.url,
    version: snapshot.policyVersion,
    tools: snapshot.entries.length,
    missing: snapshot.entries.filter(({ status }) => status === 'missing').length,
    changed: snapshot.entries.filter(hasDrifted).length,
    waiting: openChanges(snapshot, Date.now()).length,
    lastRefresh: snapshot.lastRefresh,
  }));
  return {
    json: { tenant, catalogs },
    text: (paint) => {
      if (catalogs.length === 0) return `Tenant ${visible(tenant)} has no catalog.`;
      const rows = catalogs.map(
        ({ server, status, url = '', version, tools, missing, changed, waiting, lastRefresh }) => [
          visible(server),
          status,
          visible(url),
          String(version),
          String(tools),
          String(missing),
          String(changed),
          String(waiting),
          lastRefresh === undefined
            ? ''
            : `${shortInstant(lastRefresh.at)}${lastRefresh.ok ? '' : ` ${said(lastRefresh.code ?? 'failed')}`}`,
        ],
      );
      const head = ['SERVER', 'STATUS', 'URL', 'VERSION', 'TOOLS', 'MISSING', 'CHANGED', 'WAITING', 'LAST REFRESH'];
      return table(paint, [head, ...rows]);
    },
  };
}

export function toolsAnswer({ snapshot, verdicts }: CatalogReading): Answer {
  const { tenant, server, status, policyVersion, entries } = snapshot;
  return {
    json: {
      tenant,
      server,
      status,
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
      return entries.length === 0 ? head : `${head}\n\n${toolTable({ snapshot, verdicts }, paint)}`;
    },
  };
}

/** @param names only these */
export function toolTable(
  { snapshot, verdicts }: Pick<CatalogReading, 'snapshot' | 'verdicts'>,
  paint: Paint,
  names?: readonly string[],
): string {
  const rows = snapshot.entries
    .filter(({ name }) => names === undefined || names.includes(name))
    .map((entry) => {
      const verdict = verdicts.get(entry.name);
      return [
        named(entry.name),
        statusText(entry),
        settingText(entry.setting),
        verdictText(verdict),
        reasonText(verdict),
      ];
    });
  return table(paint, [['TOOL', 'STATUS', 'SETTING', 'A CALL', 'BY'], ...rows]);
}

export function catalogAnswer(snapshot: CatalogSnapshot, now: number): Answer {
  return { json: snapshot, text: (paint) => catalogText(snapshot, now, paint) };
}

function catalogText(snapshot: CatalogSnapshot, now: number, paint: Paint): string {
  const { tenant, server, status, connection, policyVersion, lastRefresh, entries, newTools } = snapshot;
  const missing = entries.filter((entry) => entry.status === 'missing').length;
  const changed = entries.filter(hasDrifted).length;
  const head = `${paint('bold', visible(server))}  ${paint(status === 'connected' ? 'green' : 'red', status)}`;
  const rows = [
    ['tenant', visible(tenant)],
    ['url', connection === undefined ? undefined : visible(connection.url)],
    ['credentials', connection?.credentials],
    ['queue', connection?.taskQueue],
    ['trusted', connection?.trusted === true ? 'yes' : 'no'],
    ['version', String(policyVersion)],
    ['tools', `${entries.length}, ${missing} missing, ${changed} changed`],
    ['new tools', newTools === 'ask' ? 'ask' : "as the organisation's strategy says"],
    ['refreshed', lastRefresh === undefined ? 'never' : refreshText(lastRefresh)],
    ['ledger', `${snapshot.ledgerLength} entries, head ${snapshot.ledgerHead}`],
  ] as const;
  const refused = (lastRefresh?.refused ?? []).map(
    ({ name, reason }) => `  ${paint('red', 'refused')}  ${shortName(name)}: ${said(reason)}`,
  );
  const waiting = openChanges(snapshot, now).map((change) => pendingText(snapshot, change, now, paint));
  return [`${head}\n${fields(paint, rows)}`, ...(refused.length > 0 ? [refused.join('\n')] : []), ...waiting].join(
    '\n\n',
  );
}

function refreshText({ refresh, at, ok, code, message }: NonNullable<CatalogSnapshot['lastRefresh']>): string {
  const end = ok ? '' : `, failed: ${said(code ?? '')} ${said(message ?? '')}`.trimEnd();
  return `${shortInstant(at)}, refresh ${refresh}${end}`;
}

/** The others are closed when the catalog is next changed. */
export function openChanges({ pending }: Pick<CatalogSnapshot, 'pending'>, now: number): readonly PendingChange[] {
  return pending.filter(({ deadline }) => Date.parse(deadline) > now);
}
