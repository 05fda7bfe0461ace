/**
 * Makes sure that what a person sends is what they have read, and that it counts once.
 *
 * 1. On a terminal it is shown, and they are asked. Everywhere else they name its digest, or enough of its beginning.
 * 2. A changed digest is refused before anything is sent (INV-G2).
 * 3. An answer whose receipt got lost may be sent again under its id, and is told what was recorded (INV-D3). The
 *    ledger is asked first, because after an answer the call waits for something else, or for nothing.
 * 4. An id stands for one answer. The ledger's record must match the answer given now, or nothing is acknowledged
 *    (INV-G2).
 */
import { randomUUID } from 'node:crypto';
import { isDeepStrictEqual } from 'node:util';
import { CountersignError } from '../../contracts/errors.ts';
import type { LedgerEntry, LedgerFact } from '../../contracts/schemas/ledger.ts';
import type { ApprovalRequest } from '../../contracts/schemas/request.ts';
import { usage } from './options.ts';
import { lastWord } from '../../domain/text/shell-word.ts';
import type { Paint, Terminal } from './terminal.ts';

interface Asked {
  readonly yes?: true;
  readonly json?: true;
  readonly digest?: string;
}

/** Shows a text and asks about it; throws unless the person says yes. */
export type Ask = (shown: (paint: Paint) => string, question: string) => Promise<void>;

/** Undefined if nobody is asked: with --yes or --json, or if nobody sits at a terminal. */
export function asking(terminal: Terminal, { yes, json }: Asked): Ask | undefined {
  const { ask } = terminal;
  if (yes === true || json === true || ask === undefined) return undefined;
  return async (shown, question) => {
    terminal.out(`${shown(terminal.paint)}\n\n`);
    const answer = await ask(`${question} [y/N] `);
    if (!/^\s*y(?:es)?\s*$/i.test(answer)) throw usage('You did not say yes; nothing was sent.');
  };
}

/** @throws CountersignError `USAGE` if no digest says what was read */
export function assertRead(runId: string, { yes, digest }: Asked): void {
  if (digest !== undefined) return;
  const why = yes === true ? '--yes asks nothing' : 'Nobody can be asked here';
  throw usage(
    `${why}: name the --digest of the request that you have read (countersign requests ${lastWord(runId)}); nothing was sent.`,
  );
}

/** Makes an id for a message of a person. Temporal UI shows it, so it says who answers what, and how. */
export function messageIdOf(kind: string, callId: string, by: string): string {
  return `${kind}-${callId}-by-${by.slice(0, 100)}-${randomUUID().slice(0, 13)}`;
}

/** @param named a digest or its beginning, if the decider names one @throws CountersignError `DIGEST_MISMATCH` */
export function assertDigest(
  runId: string,
  { callId, digest }: Pick<ApprovalRequest, 'callId' | 'digest'>,
  named: string | undefined,
): void {
  if (named === undefined || digest.startsWith(named)) return;
  const message = `Call ${callId} now has digest ${digest}, not the one you named. Read it again (countersign requests ${lastWord(runId)}) before you decide; nothing was sent.`;
  throw new CountersignError('DIGEST_MISMATCH', message, { runId, callId });
}

type AnswerFact = Extract<LedgerFact, { digest: string; decisionId: string }>;

interface Recorded<Fact> {
  readonly at: string;
  readonly fact: Fact;
}

export function answersTo<Kind extends AnswerFact['kind']>(
  callId: string,
  ledger: readonly LedgerEntry[],
  kind: Kind,
): readonly Recorded<AnswerFact & { kind: Kind }>[] {
  const isOne = (fact: LedgerFact): fact is AnswerFact & { kind: Kind } => fact.kind === kind && fact.callId === callId;
  return ledger.flatMap(({ at, fact }) => (isOne(fact) ? [{ at, fact }] : []));
}

export type Told = readonly (readonly [told: unknown, said: unknown])[];

/**
 * Returns the answer that was recorded under this id; undefined if none was.
 * @param told pairs what is recorded with what is said now, beside the person and the digest
 * @throws CountersignError `DECISION_INVALID` if the id was used for another answer; the run itself would say the same
 */
export function ownAnswer<Fact extends AnswerFact>(
  answers: readonly Recorded<Fact>[],
  decisionId: string | undefined,
  { as, digest = '' }: { readonly as: string; readonly digest?: string },
  told: (fact: Fact) => Told,
): Recorded<Fact> | undefined {
  const own = answers.find(({ fact }) => fact.decisionId === decisionId);
  if (own === undefined) return undefined;
  const { callId, approver, digest: recorded } = own.fact;
  const pairs: Told = [[approver.id, as], [recorded.startsWith(digest), true], ...told(own.fact)];
  if (pairs.every((pair) => isDeepStrictEqual(...pair))) return own;
  const message = `Decision id ${decisionId} was used for another decision; send a new id.`;
  throw new CountersignError('DECISION_INVALID', message, { callId, path: 'decisionId' });
}

/**
 * Sends a message. If nobody knows whether it counts, the error names the options under which it counts once.
 * @param hint such as `--message-id 7c1e…`
 * @param facts are added to those of the error
 */
export async function sentUnder<T>(
  hint: string,
  facts: Readonly<Record<string, string>>,
  send: () => Promise<T>,
): Promise<T> {
  try {
    return await send();
  } catch (error) {
    if (!(error instanceof CountersignError) || error.code !== 'RESULT_UNCERTAIN') throw error;
    const message = `${error.message} Here: add ${hint}`;
    throw new CountersignError(error.code, message, { ...error.facts, ...facts }, { cause: error });
  }
}
