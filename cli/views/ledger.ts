/** A ledger entry as one line. */
import type { LedgerEntry } from '../../contracts/schemas/ledger.ts';
import { describeRule } from '../../domain/approver.ts';
import { visible } from '../../domain/escape.ts';
import { amountText } from '../../domain/spend.ts';
import type { Paint } from '../terminal.ts';
import { aboutCatalog, isOfCatalog, type RunFact } from './catalog-fact.ts';
import { HELD_BY } from './held.ts';
import { count, names, said, short, shortName } from './words.ts';

export function entryText({ seq, at, fact }: LedgerEntry, paint: Paint): string {
  const number = paint('dim', `${String(seq).padStart(4)}  ${said(at)}`);
  if (isOfCatalog(fact)) return `${number}  ${fact.kind.padEnd(22)}  ${aboutCatalog(fact)}`.trimEnd();
  const call = 'callId' in fact ? visible(fact.callId) : '';
  return `${number}  ${fact.kind.padEnd(17)}  ${call.padEnd(6)}  ${about(fact)}`.trimEnd();
}

/** What the fact says beyond its kind and call. Free text of people and models is cut; the JSON form has all. */
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
