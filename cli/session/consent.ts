/**
 * Makes sure that a person approves what they have read.
 *
 * 1. On a terminal it is shown, and they are asked. Everywhere else they name its digest, or enough of its beginning.
 * 2. A changed digest is refused before anything is sent (INV-G2).
 */
import { randomUUID } from 'node:crypto';
import { CountersignError } from '../../contracts/errors.ts';
import type { ApprovalRequest } from '../../contracts/schemas/request.ts';
import { lastWord } from './shell-word.ts';
import { usage } from './options.ts';
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

/** Makes an id for a message of a person. Temporal UI shows it beside the update, so it says who answers what, and how. */
export function messageIdOf(kind: string, callId: string, by: string): string {
  return `${kind}-${callId}-by-${by.slice(0, 100)}-${randomUUID().slice(0, 13)}`;
}

/**
 * @param named a digest or its beginning, if the decider names one
 * @throws CountersignError `DIGEST_MISMATCH`
 */
export function assertDigest(
  runId: string,
  { callId, digest }: Pick<ApprovalRequest, 'callId' | 'digest'>,
  named: string | undefined,
): void {
  if (named === undefined || digest.startsWith(named)) return;
  const message = `Call ${callId} now has digest ${digest}, not the one you named. Read it again (countersign requests ${lastWord(runId)}) before you decide; nothing was sent.`;
  throw new CountersignError('DIGEST_MISMATCH', message, { runId, callId });
}
