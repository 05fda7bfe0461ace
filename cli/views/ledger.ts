/**
 * Writes ledger entries as lines for people, and as JSONL or CSV for other programs.
 *
 * 1. `verify-ledger --file` reads the JSONL form.
 * 2. No CSV cell begins with a character that a spreadsheet takes for a formula (OWASP, CSV injection).
 * 3. Facts that this build does not know are written like others.
 */
import { fieldOf, type LedgerCopy } from '../../client/ledger/files.ts';
import { defined } from '../../contracts/defined.ts';
import type { AnyEntry, LedgerEntry, LedgerLine } from '../../contracts/schemas/ledger.ts';
import { describeRule } from '../../domain/policy/approvers.ts';
import { amountText } from '../../domain/run/limits.ts';
import { visible } from '../../domain/text/escape.ts';
import { safeJson } from '../session/verb.ts';
import type { Paint } from '../session/terminal.ts';
import { aboutCatalog, isOfCatalog, type RunFact } from './catalog-change.ts';
import { count, names, said, short, shortName } from './format.ts';
import { HELD_BY } from './run.ts';

export function entryText({ seq, at, fact }: LedgerEntry, paint: Paint): string {
  const number = paint('dim', `${String(seq).padStart(4)}  ${said(at)}`);
  if (isOfCatalog(fact)) return `${number}  ${fact.kind.padEnd(22)}  ${aboutCatalog(fact)}`.trimEnd();
  const call = 'callId' in fact ? visible(fact.callId) : '';
  return `${number}  ${fact.kind.padEnd(17)}  ${call.padEnd(6)}  ${about(fact)}`.trimEnd();
}

/**
 * Describes what a fact says beyond its kind and call. Free text of people and models is cut; the JSON form has all of
 * it.
 */
function about(fact: RunFact): string {
  switch (fact.kind) {
    case 'run.started':
      return `${said(fact.agent)} on ${said(fact.model)} for ${said(fact.initiator)}, tenant ${said(fact.tenant)}; servers: ${fact.servers.map(said).join(', ') || 'none'}`;
    case 'tools.discovered':
      return `${said(fact.server)}: ${count(fact.count, 'tool')}${fact.refused.length > 0 ? `, refused ${names(fact.refused)}` : ''}${fact.missing === undefined ? '' : `; not there: ${names(fact.missing)}`}`;
    case 'turn.proposed':
      return `turn ${fact.turn}: ${count(fact.calls, 'call')}, ${fact.usage.inputTokens} + ${fact.usage.outputTokens} tokens${fact.cost === undefined ? '' : `, cost ${amountText(fact.cost)}`}`;
    case 'verdict':
      return `${fact.verdict}: ${fact.server === undefined ? '' : `${said(fact.server)}/`}${shortName(fact.tool)} by ${fact.rules.map(said).join(', ')}${fact.breakGlass === undefined ? '' : `; BREAK GLASS until ${said(fact.breakGlass.until)}: ${said(fact.breakGlass.reason)}`}`;
    case 'request.opened':
      return `${again(fact.generation)}${fact.about === undefined ? '' : `about its ${fact.about.kind}, `}for ${said(describeRule(fact.approvers))} until ${said(fact.deadline)}${fact.grantExpiresAt === undefined ? '' : ` (its grant ends at ${said(fact.grantExpiresAt)})`}, digest ${short(fact.digest)}${fact.duplicateOf === undefined ? '' : `, the same as ${said(fact.duplicateOf)}`}${fact.because === undefined ? '' : `: ${said(fact.because)}`}`;
    case 'decision.accepted':
      return `${fact.decision}${fact.edited === undefined ? '' : ' with other arguments'}${fact.until === undefined ? '' : ` until ${said(fact.until)}`} by ${said(fact.approver.id)}, digest ${short(fact.digest)}${fact.comment === undefined ? '' : `: ${said(fact.comment)}`}`;
    case 'authorization.given':
      return `${fact.answer}${fact.counted === true ? ' (others must, too)' : ''} by ${said(fact.approver.id)}${again(fact.generation)}${fact.comment === undefined ? '' : `: ${said(fact.comment)}`}`;
    case 'outcome.resolved':
      return `${again(fact.generation)}${fact.answer} by ${said(fact.approver.id)}, digest ${short(fact.digest)}${fact.comment === undefined ? '' : `: ${said(fact.comment)}`}`;
    case 'input.provided':
      return `${again(fact.generation)}${fact.answer} by ${said(fact.approver.id)}, digest ${short(fact.digest)}${fact.comment === undefined ? '' : `: ${said(fact.comment)}`}`;
    case 'input.told':
      return `the server of attempt ${fact.attempt}, to question ${fact.round}: ${fact.told}${fact.code === undefined ? '' : ` (${said(fact.code)})`}`;
    case 'standing.made':
      return `${fact.scope}${fact.names === undefined ? '' : ` (${fact.names.map(said).join(', ')})`} by ${fact.by.map(said).join(', ')}${fact.until === undefined ? '' : ` until ${said(fact.until)}`}, as ${said(fact.standing)}`;
    case 'standing.used':
      return `by ${said(fact.standing)}`;
    case 'standing.forgotten':
      return `${said(fact.standing)}${fact.by === undefined ? '' : ` by ${said(fact.by)}`}${fact.because === undefined ? '' : `: ${said(fact.because)}`}`;
    case 'decision.refused':
      return `${said(fact.code)}, sent by ${said(fact.approver)}`;
    case 'request.reminded':
      return `${again(fact.generation)}until ${said(fact.deadline)}`;
    case 'request.escalated':
      return `${again(fact.generation)}by now for ${said(describeRule(fact.approvers))}`;
    case 'request.closed':
      return `${again(fact.generation)}${fact.status}`;
    case 'dispatched':
      return `attempt ${fact.attempt}${fact.decisionId === undefined ? '' : `, by decision ${said(fact.decisionId)}`}`;
    case 'resumed':
      return `the answer to attempt ${fact.attempt}, whose worker is lost`;
    case 'held':
      return `by ${HELD_BY[fact.by]} (${said(fact.code)})`;
    case 'task.begun':
      return `attempt ${fact.attempt}, its server works on it until ${said(fact.until)} at most`;
    case 'outcome':
      return `${fact.outcome}${fact.code === undefined ? '' : ` (${said(fact.code)})`}${fact.repeatOf === undefined ? '' : `, as ${said(fact.repeatOf)} before`}${(fact.warnings ?? []).map((warning) => `; ${said(warning)}`).join('')}`;
    case 'said':
      return `by ${said(fact.from)}${fact.interrupt === true ? ', interrupting' : ''}`;
    case 'stop.requested':
      return `by ${said(fact.by)}: ${said(fact.reason)}`;
    case 'cancel.requested':
      return '';
    case 'limit.reached':
      return `${said(fact.limit)} = ${fact.limit === 'spend' ? amountText(fact.value) : fact.value}`;
    case 'run.rolled':
      return `after turn ${fact.turn}: ${said(fact.because)}`;
    case 'run.ended':
      return `${fact.status}${fact.code === undefined ? '' : ` (${said(fact.code)})`}`;
  }
}

function again(generation: number): string {
  return generation > 1 ? `asked for the ${generation}. time, ` : '';
}

export type ExportFormat = 'jsonl' | 'csv';

/**
 * Columns in order, documented in docs/operations/ledger.md. A column is never renamed or moved; new ones come at the
 * end.
 */
const COLUMNS: readonly (readonly [name: string, of: (entry: AnyEntry) => unknown])[] = [
  ['seq', ({ seq }) => seq],
  ['at', ({ at }) => at],
  ['kind', ({ fact }) => fact.kind],
  ['call_id', ({ fact }) => fact['callId']],
  ['who', ({ fact }) => whoIn(fact)],
  ['server', ({ fact }) => fact['server']],
  ['tool', ({ fact }) => fact['tool']],
  [
    'result',
    ({ fact }) =>
      fact['verdict'] ?? fact['decision'] ?? fact['outcome'] ?? fact['status'] ?? fact['told'] ?? fact['limit'],
  ],
  ['code', ({ fact }) => fact['code']],
  ['decision_id', ({ fact }) => fact['decisionId']],
  ['rules', ({ fact }) => listed(fact['rules'])],
  ['policy_version', ({ fact }) => fact['policyVersion']],
  ['token_jti', ({ fact }) => fieldOf(fact['token'], 'jti')],
  ['token_scopes', ({ fact }) => listed(fieldOf(fact['token'], 'scopes'))],
  ['token_expires_at', ({ fact }) => fieldOf(fact['token'], 'expiresAt')],
  ['hash', ({ hash }) => hash],
  ['prev', ({ prev }) => prev],
  ['fact', ({ fact }) => safeJson(fact)],
];

export function exportText(format: ExportFormat, copy: LedgerCopy): string {
  return format === 'jsonl' ? jsonl(copy) : csv(copy);
}

/** Writes heads last, since each names the entry that it signs. */
function jsonl({ place, entries, signedHeads }: LedgerCopy): string {
  const { namespace, workflowId, firstRunId } = place;
  const known = {
    ...defined({ namespace }),
    workflowId,
    ...defined({ firstRunId }),
  };
  const lines: LedgerLine[] = [
    ...entries.map((entry) => ({ ...known, entry })),
    ...signedHeads.map((signedHead) => ({ ...known, signedHead })),
  ];
  return lines.map((line) => `${safeJson(line)}\n`).join('');
}

/** Writes CSV (RFC 4180) with a header. */
function csv({ place: { workflowId }, entries }: LedgerCopy): string {
  const rows = [
    ['run', ...COLUMNS.map(([name]) => name)],
    ...entries.map((entry) => [workflowId, ...COLUMNS.map(([, of]) => textOf(of(entry)))]),
  ];
  return rows.map((row) => `${row.map(cell).join(',')}\r\n`).join('');
}

function cell(text: string): string {
  const shown = visible(text);
  const safe = /^[=+\-@\t\r]/.test(shown) ? `'${shown}` : shown;
  return /[",\r\n]/.test(safe) ? `"${safe.replaceAll('"', '""')}"` : safe;
}

/** Returns the person of a fact, in whichever field it has one. */
function whoIn(fact: AnyEntry['fact']): unknown {
  for (const field of ['approver', 'by', 'from', 'initiator'])
    if (fact[field] !== undefined) return fieldOf(fact[field], 'id') ?? fact[field];
  return undefined;
}

function listed(value: unknown): unknown {
  return Array.isArray(value) ? value.map(textOf).join(' ') : value;
}

function textOf(value: unknown): string {
  if (value === undefined || value === null) return '';
  return typeof value === 'string' ? value : JSON.stringify(value);
}
