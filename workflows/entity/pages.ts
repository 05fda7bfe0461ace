/** Answers the queries for parts of a journal, page by page; the storing of a segment asks them too. */
import { defined } from '../../contracts/defined.ts';
import { failureOf } from '../../contracts/failure.ts';
import { isUndecodable } from '../../contracts/payload-converter.ts';
import type { LedgerPage, TranscriptPage } from '../../contracts/schemas/run-state.ts';
import { pageOf } from '../../domain/text/page.ts';
import type { Entity } from './entity.ts';

export function transcriptPage({ journal }: Pick<Entity, 'journal'>, ...asked: Bounds): TranscriptPage {
  const [from, to] = boundsOf(asked, journal.transcriptLength);
  return {
    from: Math.max(from, journal.transcriptFrom),
    total: journal.transcriptLength,
    messages: [...pageOf(journal.messages(from, to))],
    ...defined({ segment: journal.segment }),
  };
}

export function ledgerPage({ journal }: Pick<Entity, 'journal'>, ...asked: Bounds): LedgerPage {
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
