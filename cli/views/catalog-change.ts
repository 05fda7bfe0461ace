/** What whoever changes a catalog is told, and whoever agrees to a change. */
import type { CatalogAck, CatalogSnapshot, PendingChange } from '../../contracts/schemas/catalog.ts';
import { visible } from '../../domain/escape.ts';
import type { Answer } from '../answer.ts';
import type { CatalogReading } from '../catalog-reading.ts';
import { toolTable } from './catalog.ts';
import { fields } from './fields.ts';
import { pendingText } from './pending-change.ts';

/**
 * @param before as it was shown
 * @param ack absent where there was nothing to send
 * @param after with what happens to calls now
 */
export function changeAnswer(
  before: CatalogSnapshot,
  ack: CatalogAck | undefined,
  after: CatalogReading,
  names: readonly string[],
): Answer {
  const { tenant, server, policyVersion, entries, pending } = after.snapshot;
  const waiting = pending.find(({ changeId }) => changeId === ack?.changeId);
  const isChanged = ack?.status === 'applied' && ack.policyVersion !== before.policyVersion;
  const status = ack?.status === 'waiting' ? 'waiting' : isChanged ? 'applied' : 'unchanged';
  return {
    json: {
      tenant,
      server,
      ...ack,
      status,
      policyVersion,
      ...(waiting === undefined ? {} : { change: waiting }),
      tools: entries
        .filter(({ name }) => names.includes(name))
        .map(({ name, setting }) => ({ name, setting, verdict: after.verdicts.get(name) })),
    },
    text: (paint) => {
      const shade = status === 'applied' ? 'green' : 'yellow';
      const head = `${paint(shade, status)}  ${paint('bold', visible(server))}, version ${policyVersion}`;
      const shown = names.length === 0 ? [] : [toolTable(after, paint, names)];
      return [
        head,
        ...(waiting === undefined ? [] : [pendingText(after.snapshot, waiting, Date.now(), paint)]),
        ...shown,
      ].join('\n\n');
    },
  };
}

export interface DecidedChange {
  readonly verdict: 'approve' | 'reject';
  readonly digest: string;
  readonly ack: CatalogAck;
  /** As it was shown; absent where it was decided before. */
  readonly change: PendingChange | undefined;
}

export function decidedAnswer({ verdict, digest, ack, change }: DecidedChange, after: CatalogReading): Answer {
  const { tenant, server, policyVersion } = after.snapshot;
  const status = verdict === 'approve' ? 'approved' : 'rejected';
  const names = change?.changes.map(({ tool }) => tool) ?? [];
  return {
    json: { tenant, server, ...ack, status, digest },
    text: (paint) => {
      const head = `${paint(verdict === 'approve' ? 'green' : 'red', status)}  ${paint('bold', visible(ack.changeId ?? ''))} of ${visible(server)}, version ${policyVersion}`;
      const rows = fields(paint, [
        ['digest', digest],
        ['asked by', change === undefined ? undefined : visible(change.by.id)],
      ]);
      return [`${head}\n${rows}`, ...(names.length === 0 ? [] : [toolTable(after, paint, names)])].join('\n\n');
    },
  };
}
