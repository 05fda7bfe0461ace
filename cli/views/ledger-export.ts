/**
 * A ledger as a file for other programs: JSONL, which `verify-ledger --file` reads, or CSV, for tables.
 *
 * 1. A cell of CSV never begins with what a spreadsheet takes for a formula (OWASP, CSV injection).
 * 2. Facts that this build does not know are written like others.
 */
import { fieldOf, type LedgerCopy } from '../../client/ledger-files.ts';
import type { AnyEntry, LedgerLine } from '../../contracts/schemas/ledger-record.ts';
import { visible } from '../../domain/escape.ts';
import { safeJson } from '../answer.ts';

export type ExportFormat = 'jsonl' | 'csv';

/** Columns in their order; documented in docs/operations/ledger.md. Never renamed or moved: new ones come at the end. */
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

/** Heads come last: each names the entry it stands for. */
function jsonl({ place, entries, signedHeads }: LedgerCopy): string {
  const { namespace, workflowId, firstRunId } = place;
  const known = {
    ...(namespace === undefined ? {} : { namespace }),
    workflowId,
    ...(firstRunId === undefined ? {} : { firstRunId }),
  };
  const lines: LedgerLine[] = [
    ...entries.map((entry) => ({ ...known, entry })),
    ...signedHeads.map((signedHead) => ({ ...known, signedHead })),
  ];
  return lines.map((line) => `${safeJson(line)}\n`).join('');
}

/** RFC 4180, with a header. */
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

/** Whoever did it, in whichever field a fact has it. */
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
