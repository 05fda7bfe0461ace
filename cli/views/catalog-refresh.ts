/** What a refresh has found. */
import type { CatalogAck } from '../../contracts/schemas/catalog.ts';
import { visible } from '../../domain/escape.ts';
import type { Answer } from '../answer.ts';
import type { Refreshed } from '../catalog-refresh.ts';
import type { Paint } from '../terminal.ts';
import { shortInstant } from './duration.ts';
import { fields } from './fields.ts';
import { pendingText } from './pending-change.ts';
import { count, names, said, shortName } from './words.ts';

export function refreshAnswer({ report, difference, snapshot }: Refreshed): Answer {
  const { tenant, server, policyVersion, entries } = snapshot;
  return {
    json: { tenant, server, version: policyVersion, tools: entries.length, ...report, ...difference },
    text: (paint) => `${paint('bold', visible(server))}  ${refreshedText({ report, difference, snapshot }, paint)}`,
  };
}

/** A connection, and the tools that were found over it; trust may still wait for a second administrator. */
export function connectAnswer(ack: CatalogAck, refreshed: Refreshed, now: number): Answer {
  const { snapshot } = refreshed;
  const { server, connection, pending } = snapshot;
  const found = refreshAnswer(refreshed);
  const waiting = pending.find(({ changeId }) => changeId === ack.changeId);
  return {
    json: { ...ack, connection, ...(waiting === undefined ? {} : { change: waiting }), refreshed: found.json },
    text: (paint) => {
      const head = `${paint('green', 'connected')}  ${paint('bold', visible(server))} to ${visible(connection?.url ?? '')}, version ${snapshot.policyVersion}`;
      const lines = [head, refreshedText(refreshed, paint)];
      return [...lines, ...(waiting === undefined ? [] : [`\n${pendingText(snapshot, waiting, now, paint)}`])].join(
        '\n',
      );
    },
  };
}

function refreshedText({ report, difference, snapshot }: Refreshed, paint: Paint): string {
  const { added, missing, returned, changed } = difference;
  const { server, tenant } = snapshot;
  const rows = [
    ['added', names(added)],
    ['missing', names(missing)],
    ['returned', names(returned)],
    [
      'changed',
      changed.length === 0
        ? ''
        : `${names(changed)}; see: countersign catalog diff ${visible(server)} --tenant ${visible(tenant)}`,
    ],
    ['refused', report.refused.map(({ name, reason }) => `${shortName(name)}: ${said(reason)}`).join('; ')],
  ] as const;
  const head = `refresh ${report.refresh} at ${shortInstant(report.at)}: ${count(snapshot.entries.length, 'tool')}`;
  return rows.every(([, value]) => value === '') ? `${head}, nothing has changed` : `${head}\n${fields(paint, rows)}`;
}
