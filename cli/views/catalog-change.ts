/**
 * Writes what people read when they change a catalog or decide on somebody else's change: results, import plans,
 * refreshes and ledger lines.
 */
import { defined } from '../../contracts/defined.ts';
import type { CatalogAck, CatalogSnapshot, PendingChange, RefreshReport } from '../../contracts/schemas/catalog.ts';
import type { LedgerFact } from '../../contracts/schemas/ledger.ts';
import type { ImportPlan } from '../../domain/catalog/file.ts';
import { named, visible } from '../../domain/text/escape.ts';
import { shellWord } from '../../domain/text/shell-word.ts';
import type { Answer } from '../session/verb.ts';
import type { CatalogReading } from '../session/catalog-reading.ts';
import type { Paint } from '../session/terminal.ts';
import { pendingText, settingText, toolTable } from './catalog.ts';
import { count, fields, names, said, short, shortInstant, shortName } from './format.ts';

/** @param acks answers to each message; of several, one may wait for a second administrator and another not */
export function changeAnswer(
  before: CatalogSnapshot,
  acks: readonly CatalogAck[],
  after: CatalogReading,
  tools: readonly string[],
): Answer {
  const { tenant, server, policyVersion, entries, pending } = after.snapshot;
  const ack = acks.find((each) => each.status === 'waiting') ?? acks.at(-1);
  const opened = pending.filter(({ changeId }) => acks.some((each) => each.changeId === changeId));
  const [waiting, ...others] = opened;
  const isChanged = acks.some((each) => each.policyVersion !== before.policyVersion);
  const status = ack?.status === 'waiting' ? 'waiting' : isChanged ? 'applied' : 'unchanged';
  return {
    json: {
      tenant,
      server,
      ...ack,
      status,
      policyVersion,
      ...defined({ change: waiting }),
      ...(others.length === 0 ? {} : { otherChanges: others }),
      tools: entries
        .filter(({ name }) => tools.includes(name))
        .map(({ name, setting }) => ({ name, setting, verdict: after.verdicts.get(name) })),
    },
    text: (paint) => {
      const shade = status === 'applied' ? 'green' : 'yellow';
      const head = `${paint(shade, status)}  ${paint('bold', visible(server))}, version ${policyVersion}`;
      const changes = opened.map((each) => pendingText(after.snapshot, each, Date.now(), paint));
      const shown = tools.length === 0 ? [] : [toolTable(after, paint, tools)];
      return [head, ...changes, ...shown].join('\n\n');
    },
  };
}

interface DecidedChange {
  readonly digest: string;
  readonly verdict: 'approve' | 'reject';
  readonly ack: CatalogAck;
  /** As it was shown; absent if it had been decided before. */
  readonly change: PendingChange | undefined;
}

export function decidedAnswer({ verdict, digest, ack, change }: DecidedChange, after: CatalogReading): Answer {
  const { tenant, server, policyVersion } = after.snapshot;
  const status = verdict === 'approve' ? 'approved' : 'rejected';
  const tools = change?.changes.map(({ tool }) => tool) ?? [];
  return {
    json: { tenant, server, ...ack, status, digest },
    text: (paint) => {
      const head = `${paint(verdict === 'approve' ? 'green' : 'red', status)}  ${paint('bold', visible(ack.changeId ?? ''))} of ${visible(server)}, version ${policyVersion}`;
      const rows = fields(paint, [
        ['digest', digest],
        ['asked by', change === undefined ? undefined : visible(change.by.id)],
      ]);
      return [`${head}\n${rows}`, ...(tools.length === 0 ? [] : [toolTable(after, paint, tools)])].join('\n\n');
    },
  };
}

export function planAnswer(
  { tenant, server, policyVersion }: CatalogSnapshot,
  plan: ImportPlan,
  connection: readonly string[],
): Answer {
  const { tools, refused, outdated, unnamed } = plan;
  return {
    json: {
      tenant,
      server,
      version: policyVersion,
      changes: tools.map(({ change: { tool, acknowledge }, before, after }) => ({ tool, before, after, acknowledge })),
      refused,
      outdated,
      unnamed,
      connection,
    },
    text: (paint) => {
      const head = `${paint('bold', visible(server))}, version ${policyVersion}: ${tools.length === 0 ? 'nothing would change' : `${count(tools.length, 'tool')} would change`}`;
      const lines = tools.map(({ change: { tool, acknowledge }, before, after }) => {
        const notice = acknowledge === undefined ? '' : `, for definition ${short(acknowledge)}`;
        return `  ${named(tool)}: ${settingText(before)} → ${settingText(after)}${notice}`;
      });
      const rows = [
        ['refused', refused.length === 0 ? '' : `${names(refused)}: loosened, and written for another definition`],
        [
          'changed',
          outdated.length === 0 ? '' : `${names(outdated)}: written for another definition, and not loosened`,
        ],
        ['not named', names(unnamed)],
        ['connection', connection.length === 0 ? '' : `${connection.join(', ')}: other than in the file; use connect`],
      ] as const;
      const notes = rows.every(([, value]) => value === '') ? [] : [fields(paint, rows)];
      return [head, ...lines, ...notes].join('\n');
    },
  };
}

export function refreshAnswer({ report, difference, snapshot }: Refreshed): Answer {
  const { tenant, server, policyVersion, entries } = snapshot;
  return {
    json: { tenant, server, version: policyVersion, tools: entries.length, ...report, ...difference },
    text: (paint) => `${paint('bold', visible(server))}  ${refreshedText({ report, difference, snapshot }, paint)}`,
  };
}

/** Describes a connection and the tools found over it; to trust the server may wait for a second administrator. */
export function connectAnswer(ack: CatalogAck, refreshed: Refreshed, now: number): Answer {
  const { snapshot } = refreshed;
  const { server, connection, pending } = snapshot;
  const found = refreshAnswer(refreshed);
  const waiting = pending.find(({ changeId }) => changeId === ack.changeId);
  return {
    json: { ...ack, connection, ...defined({ change: waiting }), refreshed: found.json },
    text: (paint) => {
      const head = `${paint('green', 'connected')}  ${paint('bold', visible(server))} to ${visible(connection?.url ?? '')}, version ${snapshot.policyVersion}`;
      const change = waiting === undefined ? [] : [`\n${pendingText(snapshot, waiting, now, paint)}`];
      return [head, refreshedText(refreshed, paint), ...change].join('\n');
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
        : `${names(changed)}; see: countersign catalog diff ${visible(server)} --tenant ${shellWord(tenant)}`,
    ],
    ['refused', report.refused.map(({ name, reason }) => `${shortName(name)}: ${said(reason)}`).join('; ')],
  ] as const;
  const head = `refresh ${report.refresh} at ${shortInstant(report.at)}: ${count(snapshot.entries.length, 'tool')}`;
  return rows.every(([, value]) => value === '') ? `${head}, nothing has changed` : `${head}\n${fields(paint, rows)}`;
}

type CatalogFact = Extract<LedgerFact, { readonly kind: `catalog.${string}` }>;
export type RunFact = Exclude<LedgerFact, CatalogFact>;

export function isOfCatalog(fact: LedgerFact): fact is CatalogFact {
  return fact.kind.startsWith('catalog.');
}

export function aboutCatalog(fact: CatalogFact): string {
  switch (fact.kind) {
    case 'catalog.connected':
      return `${said(fact.server)} of tenant ${said(fact.tenant)} to ${said(fact.connection.url)}${fact.connection.trusted ? ', trusted,' : ''} by ${said(fact.by.id)}, version ${fact.policyVersion}`;
    case 'catalog.disconnected':
      return `by ${said(fact.by.id)}, version ${fact.policyVersion}`;
    case 'catalog.refreshed':
      return `refresh ${fact.refresh}: ${[count(fact.count, 'tool'), ...changesOf(fact)].join('; ')}`;
    case 'catalog.refresh-failed':
      return `refresh ${fact.refresh}: ${said(fact.code)}: ${said(fact.message)}`;
    case 'catalog.policy':
      return `version ${fact.policyVersion} by ${said(fact.by.id)}${fact.countersignedBy === undefined ? '' : ` and ${said(fact.countersignedBy.id)}`}${policiesOf(fact)}`;
    case 'catalog.change-opened':
      return `${said(fact.changeId)} by ${said(fact.by.id)} until ${said(fact.deadline)}, digest ${short(fact.digest)}`;
    case 'catalog.change-closed':
      return `${said(fact.changeId)} ${fact.status} by ${said(fact.by.id)}`;
    case 'catalog.rolled':
      return '';
  }
}

function changesOf(fact: Extract<CatalogFact, { kind: 'catalog.refreshed' }>): string[] {
  const { added, missing, returned, refused } = fact;
  const lists = { added, missing, returned, changed: fact.changed.map(({ tool }) => tool), refused };
  return Object.entries(lists).flatMap(([what, list]) => (list.length === 0 ? [] : [`${what} ${names(list, 5)}`]));
}

function policiesOf({ trusted, changes }: Extract<CatalogFact, { kind: 'catalog.policy' }>): string {
  const shown = changes.slice(0, 5).map(({ tool, before, after, acknowledged }) => {
    const [was, is] = [settingText(before), settingText(after)];
    const seen = acknowledged === undefined ? '' : `, definition ${short(acknowledged)} acknowledged`;
    return `${shortName(tool)} ${was === is ? is : `${was} → ${is}`}${seen}`;
  });
  const more = changes.length > shown.length ? [`and ${changes.length - shown.length} more`] : [];
  const trust = trusted === undefined ? [] : [trusted ? 'server trusted' : 'server not trusted'];
  return [...trust, ...shown, ...more].map((part, index) => `${index === 0 ? ': ' : '; '}${part}`).join('');
}

export interface Refreshed {
  readonly report: RefreshReport;
  readonly difference: Readonly<Record<'added' | 'missing' | 'returned' | 'changed', readonly string[]>>;
  readonly snapshot: CatalogSnapshot;
}
