/** The messages that runs and catalogs both take. The storing of a segment asks both queries, page by page. */
import { defineQuery, defineSignal, setHandler } from '@temporalio/workflow';
import { defined } from '../../contracts/defined.ts';
import { failureOf } from '../../contracts/failure.ts';
import { QUERIES, SIGNALS } from '../../contracts/names.ts';
import { isUndecodable } from '../../contracts/payload-converter.ts';
import type { LedgerPage, TranscriptPage } from '../../contracts/schemas/run-state.ts';
import { pageOf } from '../../domain/text/page.ts';
import type { Entity } from './entity.ts';

const nudgeSignal = defineSignal(SIGNALS.nudge);
const transcriptQuery = defineQuery<TranscriptPage, [unknown, unknown]>(QUERIES.transcript);
const ledgerQuery = defineQuery<LedgerPage, [unknown, unknown]>(QUERIES.ledger);

export function serveEntity(entity: Entity): void {
  setHandler(transcriptQuery, (from, to) => transcriptPage(entity, from, to));
  setHandler(ledgerQuery, (from, to) => ledgerPage(entity, from, to));
  setHandler(nudgeSignal, () => entity.nudge(), { description: 'Continue as new at the next safe point' });
}

function transcriptPage({ journal }: Entity, ...asked: Bounds): TranscriptPage {
  const [from, to] = boundsOf(asked, journal.transcriptLength);
  return {
    from: Math.max(from, journal.transcriptFrom),
    total: journal.transcriptLength,
    messages: [...pageOf(journal.messages(from, to))],
    ...defined({ segment: journal.segment }),
  };
}

function ledgerPage({ journal }: Entity, ...asked: Bounds): LedgerPage {
  const [from, to] = boundsOf(asked, journal.ledgerLength);
  return {
    from: Math.max(from, journal.ledgerFrom),
    total: journal.ledgerLength,
    head: journal.ledgerHead,
    entries: [...pageOf(journal.entries(from, to))],
    ...defined({ segment: journal.segment }),
  };
}

type Bounds = readonly [from: unknown, to: unknown];

/**
 * Bounds of a page; a missing bound means everything.
 * @throws ApplicationFailure if a bound is not a whole number
 */
function boundsOf([from, to]: Bounds, length: number): readonly [number, number] {
  return [numberOr(from, 0, 'from'), numberOr(to, length, 'to')];
}

function numberOr(value: unknown, otherwise: number, path: string): number {
  if (value === undefined || value === null) return otherwise;
  if (Number.isSafeInteger(value)) return Number(value);
  const reason = isUndecodable(value) ? value.says : 'must be a whole number';
  throw failureOf('MESSAGE_INVALID', `${path} ${reason}: ask with two numbers, from and to.`, { path });
}
