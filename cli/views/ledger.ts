/**
 * Writes ledger entries as lines for people, and as JSONL or CSV for other programs.
 *
 * 1. `verify-ledger --file` reads the JSONL form.
 * 2. No CSV cell begins with a character that a spreadsheet takes for a formula (OWASP, CSV injection).
 * 3. Facts that this build does not know are written like others.
 */
import { fieldOf, type LedgerCopy } from '../../client/ledger/files.ts';
import { defined } from '../../contracts/defined.ts';
import type { AnyEntry, LedgerEntry, LedgerFact, LedgerLine } from '../../contracts/schemas/ledger.ts';
import { describeRule } from '../../domain/policy/approvers.ts';
import { amountText } from '../../domain/run/limits.ts';
import { unhidden, visible } from '../../domain/text/escape.ts';
import { safeJson } from '../session/verb.ts';
import type { Paint } from '../session/terminal.ts';
import { aboutCatalog, isOfCatalog, type RunFact } from './catalog-change.ts';
import { count, names, said, short, shortName } from './format.ts';
import { HELD_BY } from './run.ts';

export function entryText({ seq, at, fact }: LedgerEntry, paint: Paint): string {
  const number = paint('dim', `${String(seq).padStart(4)}  ${said(at)}`);
  if (isOfCatalog(fact)) return `${number}  ${fact.kind.padEnd(22)}  ${aboutCatalog(fact)}`.trimEnd();
  const call = 'callId' in fact ? visible(fact.callId) : '';
  return `${number}  ${visible(fact.kind).padEnd(17)}  ${call.padEnd(6)}  ${aboutRun(fact)}`.trimEnd();
}

function aboutRun(fact: RunFact): string {
  // Workers of a later build may have written it: a page of a live run is not parsed.
  if (!Object.hasOwn(ABOUT, fact.kind)) return '';
  // Sound: each row takes the facts of its own kind.
  return (ABOUT[fact.kind] as (fact: RunFact) => string)(fact);
}

type Describe<Fact extends LedgerFact> = {
  readonly [Kind in Fact['kind']]: (fact: Extract<Fact, { readonly kind: Kind }>) => string;
};

/** Says what a fact tells beyond its kind and call. Free text is cut; the JSON form has all of it. */
const ABOUT: Describe<RunFact> = {
  'run.started': ({ agent, model, initiator, tenant, servers }) =>
    `${said(agent)} on ${said(model)} for ${said(initiator)}, tenant ${said(tenant)}; servers: ${listed(servers) || 'none'}`,
  'tools.discovered': ({ server, count: tools, refused, missing }) =>
    `${said(server)}: ${count(tools, 'tool')}${refused.length > 0 ? `, refused ${names(refused)}` : ''}${missing === undefined ? '' : `; not there: ${names(missing)}`}`,
  'turn.proposed': ({ turn, calls, usage, cost }) =>
    `turn ${turn}: ${count(calls, 'call')}, ${usage.inputTokens} + ${usage.outputTokens} tokens${cost === undefined ? '' : `, cost ${amountText(cost)}`}`,
  verdict: ({ verdict, server, tool, rules, breakGlass: glass }) =>
    `${verdict}: ${then('', server, '/')}${shortName(tool)} by ${listed(rules)}${then('; BREAK GLASS until ', glass?.until)}${then(': ', glass?.reason)}`,
  'request.opened': ({ generation, about, approvers, deadline, grantExpiresAt, digest, duplicateOf, because }) =>
    `${again(generation)}${then('about its ', about?.kind, ', ')}for ${said(describeRule(approvers))} until ${said(deadline)}${then(' (its grant ends at ', grantExpiresAt, ')')}, digest ${short(digest)}${then(', the same as ', duplicateOf)}${then(': ', because)}`,
  'decision.accepted': ({ decision, edited, until, approver, digest, comment }) =>
    `${decision}${edited === undefined ? '' : ' with other arguments'}${then(' until ', until)} by ${said(approver.id)}, digest ${short(digest)}${then(': ', comment)}`,
  'authorization.given': ({ answer, counted, approver, generation, comment }) =>
    `${answer}${counted === true ? ' (others must, too)' : ''} by ${said(approver.id)}${again(generation)}${then(': ', comment)}`,
  'outcome.resolved': answered,
  'input.provided': answered,
  'input.told': ({ attempt, round, told, code }) =>
    `the server of attempt ${attempt}, to question ${round}: ${told}${then(' (', code, ')')}`,
  'standing.made': ({ scope, names: own, by, until, standing }) =>
    `${scope}${own === undefined ? '' : ` (${listed(own)})`} by ${listed(by)}${then(' until ', until)}, as ${said(standing)}`,
  'standing.used': ({ standing }) => `by ${said(standing)}`,
  'standing.forgotten': ({ standing, by, because }) => `${said(standing)}${then(' by ', by)}${then(': ', because)}`,
  'decision.refused': ({ code, approver }) => `${said(code)}, sent by ${said(approver)}`,
  'request.reminded': ({ generation, deadline }) => `${again(generation)}until ${said(deadline)}`,
  'request.escalated': ({ generation, approvers }) => `${again(generation)}by now for ${said(describeRule(approvers))}`,
  'request.closed': ({ generation, status }) => `${again(generation)}${status}`,
  dispatched: ({ attempt, decisionId }) => `attempt ${attempt}${then(', by decision ', decisionId)}`,
  resumed: ({ attempt }) => `the answer to attempt ${attempt}, whose worker is lost`,
  held: ({ by, code }) => `by ${HELD_BY[by]} (${said(code)})`,
  'task.begun': ({ attempt, until }) => `attempt ${attempt}, its server works on it until ${said(until)} at most`,
  outcome: ({ outcome, code, repeatOf, warnings = [] }) =>
    `${outcome}${then(' (', code, ')')}${then(', as ', repeatOf, ' before')}${warnings.map((warning) => `; ${said(warning)}`).join('')}`,
  said: ({ from, interrupt }) => `by ${said(from)}${interrupt === true ? ', interrupting' : ''}`,
  'stop.requested': ({ by, reason }) => `by ${said(by)}: ${said(reason)}`,
  'cancel.requested': () => '',
  'limit.reached': ({ limit, value }) => `${said(limit)} = ${limit === 'spend' ? amountText(value) : value}`,
  'run.rolled': ({ turn, because }) => `after turn ${turn}: ${said(because)}`,
  'run.ended': ({ status, code }) => `${status}${then(' (', code, ')')}`,
};

function answered(fact: Extract<RunFact, { readonly kind: 'outcome.resolved' | 'input.provided' }>): string {
  const { generation, answer, approver, digest, comment } = fact;
  return `${again(generation)}${answer} by ${said(approver.id)}, digest ${short(digest)}${then(': ', comment)}`;
}

function then(before: string, text: string | undefined, after = ''): string {
  return text === undefined ? '' : `${before}${said(text)}${after}`;
}

function listed(texts: readonly string[]): string {
  return texts.map(said).join(', ');
}

function again(generation: number): string {
  return generation > 1 ? `asked for the ${generation}. time, ` : '';
}

export type ExportFormat = 'jsonl' | 'csv';

/** In order (docs/operations/ledger.md). None is ever renamed or moved; new ones come at the end. */
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
  ['rules', ({ fact }) => spaced(fact['rules'])],
  ['policy_version', ({ fact }) => fact['policyVersion']],
  ['token_jti', ({ fact }) => fieldOf(fact['token'], 'jti')],
  ['token_scopes', ({ fact }) => spaced(fieldOf(fact['token'], 'scopes'))],
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
  const known = { ...defined({ namespace }), workflowId, ...defined({ firstRunId }) };
  const lines: LedgerLine[] = [
    ...entries.map((entry) => ({ ...known, entry })),
    ...signedHeads.map((signedHead) => ({ ...known, signedHead })),
  ];
  return lines.map((line) => `${safeJson(line)}\n`).join('');
}

function csv({ place: { workflowId }, entries }: LedgerCopy): string {
  const rows = [
    ['run', ...COLUMNS.map(([name]) => name)],
    ...entries.map((entry) => [workflowId, ...COLUMNS.map(([, of]) => textOf(of(entry)))]),
  ];
  return rows.map((row) => `${row.map(cell).join(',')}\r\n`).join('');
}

function cell(text: string): string {
  const shown = unhidden(text);
  const safe = /^[=+\-@\t\r]/.test(shown) ? `'${shown}` : shown;
  return /[",\r\n]/.test(safe) ? `"${safe.replaceAll('"', '""')}"` : safe;
}

function whoIn(fact: AnyEntry['fact']): unknown {
  for (const field of ['approver', 'by', 'from', 'initiator'])
    if (fact[field] !== undefined) return fieldOf(fact[field], 'id') ?? fact[field];
  return undefined;
}

function spaced(value: unknown): unknown {
  return Array.isArray(value) ? value.map(textOf).join(' ') : value;
}

function textOf(value: unknown): string {
  if (value === undefined || value === null) return '';
  return typeof value === 'string' ? value : JSON.stringify(value);
}
