/**
 * Sends one answer to a request about something else than consent, for `answer`, `resolve` and `authorize`.
 *
 * 1. An answer applies to the request as the run shows it now, with its digest recomputed. If the digest is named, it
 *    must be that one, or nothing is sent (INV-G2).
 * 2. A digest must be named if the asking server could have replaced the question that was read. A server can do so
 *    within seconds and with the same words for its fields. Consent, outcomes and authorizations cannot be replaced
 *    like that.
 * 3. The same id sent again gets the receipt that it had, even if the call has gone on (INV-D3).
 */
import { randomUUID } from 'node:crypto';
import type { Command } from 'commander';
import type { RunHandle } from '../../client/index.ts';
import { CountersignError } from '../../contracts/errors.ts';
import type { Pause, PauseAck, PauseKind } from '../../contracts/schemas/answer.ts';
import type { ApprovalRequest } from '../../contracts/schemas/request.ts';
import { answeredBefore, type AnswerFact, assertSame, sentUnder, type Told } from '../session/answered.ts';
import { repeated } from '../session/options.ts';
import type { Answered } from '../views/input.ts';
import type { DecideOptions } from './deciding.ts';
import { withComment } from './decision-command.ts';

export interface AnswerOptions extends DecideOptions {
  readonly comment?: string;
}

/** @param which help text of `--digest` */
export function withAnswerOptions(command: Command, which = 'answer only the request with this digest'): Command {
  return withComment(command)
    .option('--group <name>', 'a group that you belong to; may be given several times', repeated)
    .option('--digest <sha256>', which)
    .option('--decision-id <id>', 'the id of an answer whose receipt got lost: sent again, it counts once');
}

/** The fields that every answer has besides its content. */
export type AnswerBase = Pick<ApprovalRequest, 'callId' | 'digest' | 'runId'> & {
  readonly decisionId: string;
  readonly approver: { readonly id: string; readonly groups: string[] };
};

interface PauseVerb<Kind extends PauseKind, Said> {
  readonly kind: Kind;
  /** Completes "Call t1.c0 …" if the call has no open request of this kind. */
  readonly asksNot: string;
  /** Set if the digest must be named: shows the current request to a person who names none. */
  readonly unread?: (request: ApprovalRequest) => void;
  readonly say: (about: Extract<Pause, { kind: Kind }>, base: AnswerBase) => Said | Promise<Said>;
  readonly send: (said: Said) => Promise<PauseAck>;
  /** Pairs the recorded answer with the one given now, as far as ledger and options have the same fields. */
  readonly told: (fact: AnswerFact & { readonly kind: (typeof FACTS)[Kind] }) => Told;
}

const FACTS = { outcome: 'outcome.resolved', input: 'input.provided', authorization: 'authorization.given' } as const;

export async function answerPause<
  Kind extends PauseKind,
  Said extends { readonly callId: string; readonly decisionId: string },
>(
  run: RunHandle,
  callId: string,
  options: AnswerOptions,
  { kind, asksNot, unread, say, send, told }: PauseVerb<Kind, Said>,
): Promise<Answered> {
  const { runId } = run;
  const request = (await run.requests()).find((shown) => shown.callId === callId && shown.status === 'open');
  // After an answer the call waits for something else, or for nothing; the answer then stands only in the ledger.
  const before =
    request === undefined || options.decisionId !== undefined ? await answeredBefore(run, callId, FACTS[kind]) : [];
  const own = before.find(({ fact }) => fact.decisionId === options.decisionId);
  if (own !== undefined) {
    const { ack, fact } = own;
    const { approver, digest } = fact;
    // Sound: only facts of this kind were requested.
    const rest = told(fact as Parameters<typeof told>[0]);
    assertSame(callId, ack.decisionId, [[approver.id, options.as], [digest, options.digest ?? digest], ...rest]);
    return { ack };
  }
  if (request === undefined) throw notOpen(runId, callId, asksNot, before.at(-1)?.ack);
  const { about } = request;
  if (!isAbout(about, kind))
    throw new CountersignError(
      'DECISION_NOT_PERMITTED',
      `Call ${callId} ${asksNot}; something else is asked of it (countersign requests ${runId}). Nothing was sent.`,
      { runId, callId },
    );
  if (options.digest === undefined && unread !== undefined) {
    unread(request);
    throw new CountersignError(
      'USAGE',
      `Name the question of call ${callId} that you answer, by its --digest: its server may have asked another one since you looked. It is shown as it is now; nothing was sent.`,
      { runId, callId },
    );
  }
  if (options.digest !== undefined && options.digest !== request.digest)
    throw new CountersignError(
      'DIGEST_MISMATCH',
      `Call ${callId} now has digest ${request.digest}, not the one you named. Read it again (countersign requests ${runId}); nothing was sent.`,
      { runId, callId },
    );
  const said = await say(about, {
    decisionId: options.decisionId ?? randomUUID(),
    callId,
    digest: request.digest,
    runId: request.runId,
    approver: { id: options.as, groups: [...(options.group ?? [])] },
  });
  return { ack: await sentUnder(said, async () => await send(said)), request };
}

function isAbout<Kind extends PauseKind>(
  about: Pause | undefined,
  kind: Kind,
): about is Extract<Pause, { kind: Kind }> {
  return about?.kind === kind;
}

function notOpen(runId: string, callId: string, asksNot: string, last: PauseAck | undefined): CountersignError {
  if (last === undefined)
    return new CountersignError(
      'REQUEST_NOT_OPEN',
      `Call ${callId} of run ${runId} ${asksNot}; its ledger says how it ended (countersign ledger ${runId}). Nothing was sent.`,
      { runId, callId },
    );
  const { answer, decidedBy, decidedAt } = last;
  return new CountersignError(
    'ALREADY_DECIDED',
    `Call ${callId} was answered (${answer}) by ${decidedBy} at ${decidedAt}; nothing was changed.`,
    { runId, callId, decidedBy, decidedAt },
  );
}
