/** Answers to requests as people signed them, to be compared with what a ledger says of them. */
import type { Authorization } from '../contracts/schemas/authorization.ts';
import type { Decision } from '../contracts/schemas/decision.ts';
import type { LedgerFact } from '../contracts/schemas/ledger.ts';
import type { Provision } from '../contracts/schemas/provision.ts';
import type { Resolution } from '../contracts/schemas/resolution.ts';
import type { Answerable } from '../domain/call-state.ts';
import { hashOf, sha256Hex } from '../domain/canonical.ts';
import { isEdit } from '../domain/decision-rights.ts';
import type { Parsed } from '../domain/messages.ts';
import { responsesHash } from '../domain/provision.ts';
import { recordedHash } from '../domain/resolution.ts';
import { parseAuthorization, parseDecision, parseProvision, parseResolution } from '../domain/messages.ts';
import type { AnswerPurpose } from '../domain/signed-decision.ts';
import { openMessage } from '../domain/signed-message.ts';
import type { SentMessage } from './ledger-history.ts';

/** What an entry says of an answer besides who gave it to what: its field, and what was signed. */
type Said = readonly (readonly [string, readonly string[], unknown])[];

interface AnswerKind<Message> {
  readonly purpose: AnswerPurpose;
  readonly parse: (value: unknown) => Parsed<Message>;
  readonly said: (message: Message) => Said;
  /** Taken later than it came. */
  readonly isJudged: (message: Message) => boolean;
}

const DECISION: AnswerKind<Decision> = {
  purpose: 'decide',
  parse: parseDecision,
  said: (decision) => [
    ['decision', ['decision'], decision.kind],
    ['comment', ['comment'], decision.kind === 'reject' ? decision.reason : decision.comment],
    ['deadline', ['until'], decision.kind === 'extend' ? decision.until : undefined],
    ['change of arguments', ['edited', 'to'], isEdit(decision) ? hashOf(decision.arguments) : undefined],
    ['answer', ['answerHash'], decision.kind === 'respond' ? sha256Hex(decision.answer) : undefined],
    ['scope', ['remember'], decision.kind === 'approve' ? decision.remember : undefined],
  ],
  isJudged: isEdit,
};

const RESOLUTION: AnswerKind<Resolution> = {
  purpose: 'resolveOutcome',
  parse: parseResolution,
  said: (resolution) => [
    ['answer', ['answer'], resolution.kind],
    ['comment', ['comment'], resolution.comment],
    ['result', ['recordedHash'], recordedHash(resolution)],
  ],
  isJudged: () => false,
};

const PROVISION: AnswerKind<Provision> = {
  purpose: 'provideInput',
  parse: parseProvision,
  said: (provision) => [
    ['answer', ['answer'], provision.kind],
    ['comment', ['comment'], provision.comment],
    ['answers', ['responsesHash'], responsesHash(provision)],
  ],
  isJudged: () => false,
};

const AUTHORIZATION: AnswerKind<Authorization> = {
  purpose: 'authorize',
  parse: parseAuthorization,
  said: (given) => [
    ['answer', ['answer'], given.kind],
    ['comment', ['comment'], given.kind === 'decline' ? given.reason : given.comment],
    ['grant', ['grantHash'], given.kind === 'grant' ? hashOf(given.grant) : undefined],
  ],
  isJudged: () => false,
};

/** Facts that record what a person answered to a request. */
export type AnswerFactKind = Extract<LedgerFact, { decisionId: string; digest: string }>['kind'];

/** A new kind of answer does not compile without its row. */
const READERS: Readonly<Record<AnswerFactKind, (sent: SentMessage) => SignedAnswer | undefined>> = {
  'decision.accepted': (sent) => signedAs(sent, DECISION),
  'outcome.resolved': (sent) => signedAs(sent, RESOLUTION),
  'input.provided': (sent) => signedAs(sent, PROVISION),
  'authorization.given': (sent) => signedAs(sent, AUTHORIZATION),
};

export function isAnswerFact(kind: string): kind is AnswerFactKind {
  return Object.hasOwn(READERS, kind);
}

export interface SignedAnswer {
  readonly message: Answerable;
  readonly signature: string;
  readonly purpose: AnswerPurpose;
  readonly said: Said;
  readonly isJudged: boolean;
}

/** What was sent, as the answer that an entry of this kind is of; undefined where it is none. */
export function signedAnswer(kind: string, sent: SentMessage): SignedAnswer | undefined {
  return isAnswerFact(kind) ? READERS[kind](sent) : undefined;
}

/** As the run kept it: defaults written out. */
function signedAs<Message extends Answerable>(
  { message: input }: SentMessage,
  { purpose, parse, said, isJudged }: AnswerKind<Message>,
): SignedAnswer | undefined {
  const { message, signature } = openMessage(input);
  const shape = parse(message);
  if (shape.kind === 'bad' || signature === undefined) return undefined;
  return { message: shape.value, signature, purpose, said: said(shape.value), isJudged: isJudged(shape.value) };
}
