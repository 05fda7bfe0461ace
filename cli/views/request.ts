/**
 * Shows an approval request to the person who decides it.
 *
 * 1. Everything that the digest covers and a person can judge is shown. A cut text says that it is cut, and how to see
 *    the rest.
 */
import type { ApprovalRequest, AuthorizationPause } from '../../contracts/schemas/request.ts';
import { inWords, ruleAt } from '../../domain/policy/approvers.ts';
import { canonicalJson } from '../../domain/text/canonical.ts';
import { bounded, spaced, visible } from '../../domain/text/escape.ts';
import { shownArguments } from '../../domain/policy/redaction.ts';
import type { Paint } from '../session/terminal.ts';
import { argumentsText, duration, fields, given, shortInstant, timeLeft, toolText } from './format.ts';
import { inputRows } from './input.ts';

const SHOWN_DESCRIPTION = 300;

export interface RequestView {
  readonly full: boolean;
  /** Shows deciders what policy keeps out of lists. */
  readonly reveal?: boolean;
  /** Epoch ms. */
  readonly now: number;
}

/** Says which authorization a server wants. */
function wantedText(about: AuthorizationPause): string {
  const what =
    about.wants === 'grant'
      ? 'a fresh grant'
      : about.scopes === undefined
        ? 'consent to another try'
        : `consent to ${about.scopes.map(visible).join(' ')} for this call`;
  return `${what} [countersign authorize]; ${visible(about.reason)}: ${bounded(spaced(about.message), SHOWN_DESCRIPTION)}`;
}

export function requestText(
  request: ApprovalRequest,
  { full, reveal = false, now }: RequestView,
  paint: Paint,
): string {
  const { callId, server, serverUrl, tool, status, approvers, deadline, rules, annotations, description, votes } =
    request;
  const { edited } = shownTo(request, reveal);
  const head = `${paint('bold', visible(callId))}  ${paint('bold', toolText(server, tool))}  ${statusText(request, now, paint)}`;
  const rows = [
    ...aboutRows(request),
    ['arguments', argumentsText(shownTo(request, reveal).arguments, full)],
    ['changed', given(edited, (edit) => editText(edit, full))],
    [
      'kept back',
      reveal ? undefined : given(request.redact, (places) => `${places.map(visible).join(', ')} [--reveal shows them]`),
    ],
    ['server', visible(serverUrl)],
    ['called by', given(request.hosted, (model) => `the provider of model ${visible(model)}`)],
    ['digest', visible(request.digest)],
    ['may decide', visible(inWords(ruleAt(approvers, now - Date.parse(request.openedAt))))],
    ['others asked', given(request.escalatedAt, (since) => `since ${shortInstant(since)}`)],
    ['reminder', reminderText(request)],
    ['agreed', votes?.map(({ approver, at }) => `${visible(approver.id)} at ${shortInstant(at)}`).join(', ')],
    ['answered by', given(request.standing, (id) => `decision ${visible(id)}, which stands`)],
    ['deadline', status === 'open' ? `${shortInstant(deadline)}, ${timeLeft(deadline, now)}` : shortInstant(deadline)],
    ['grant ends', given(request.grantExpiresAt, grantEndText)],
    ['postponed', request.extensions?.map(extensionText).join(', ')],
    ['may wait', given(latestOf(request), (until) => `until ${until}, where somebody postpones the deadline`)],
    ['holds', holds(approvers)],
    ['asked by', rules.map(visible).join(', ')],
    [
      'same call as',
      given(request.duplicateOf, (id) => `${visible(id)}; each needs an approval of its own, or one that stands`),
    ],
    ['because', request.explain?.map(({ rule, text }) => `${spaced(text)} (${visible(rule)})`).join('; ')],
    ['asked again', given(request.reopenedBecause, spaced)],
    ['tool says', given(description, (text) => shown(text, full ? undefined : SHOWN_DESCRIPTION))],
    ['tool hints', given(annotations, (hints) => spaced(canonicalJson(hints)))],
  ] as const;
  return `${head}\n${fields(paint, rows)}`;
}

function editText({ by, at, proposed }: NonNullable<ApprovalRequest['edited']>, full: boolean): string {
  return `by ${visible(by)} at ${shortInstant(at)}; proposed were ${argumentsText(proposed, full)}`;
}

function grantEndText(at: string): string {
  return `${shortInstant(at)}, before the deadline: what is approved later may need another one`;
}

function extensionText({ approver, at, until }: NonNullable<ApprovalRequest['extensions']>[number]): string {
  return `to ${shortInstant(until)} by ${visible(approver.id)} at ${shortInstant(at)}`;
}

/** Shows what a request asks if it is not about consent, and what is known. */
function aboutRows({ about }: ApprovalRequest): (readonly [string, string | undefined])[] {
  if (about === undefined) return [];
  if (about.kind === 'input') return inputRows(about);
  if (about.kind === 'authorization') return [['asks', wantedText(about)]];
  const { message, sentAt, handedAt = '', attempt, bytes, lastProgress, token } = about;
  const isSent = sentAt !== undefined;
  return [
    [
      'asks',
      `what became of it: it ${isSent ? 'was sent, and may or may not have run' : 'may have been sent, and may have run'}`,
    ],
    ['known', spaced(message)],
    isSent
      ? ['sent at', `${shortInstant(sentAt)}, attempt ${visible(String(attempt))}`]
      : [
          'handed over',
          `${shortInstant(handedAt)} to a worker, and none has said that it left; attempt ${visible(String(attempt))}`,
        ],
    ['answer', given(bytes, (count) => `${visible(String(count))} bytes of it came`)],
    ['progress', given(lastProgress, (progress) => visible(String(progress)))],
    ['token', given(token?.jti, (id) => `id ${visible(id)}`)],
  ];
}

/** Returns the request with all arguments, or only with those that policy allows in lists. */
export function shownTo(request: ApprovalRequest, reveal: boolean): ApprovalRequest {
  if (reveal || request.redact === undefined) return request;
  const { edited, redact } = request;
  return {
    ...request,
    arguments: shownArguments(request),
    ...(edited === undefined
      ? {}
      : { edited: { ...edited, proposed: shownArguments({ arguments: edited.proposed, redact }) } }),
  };
}

/** Says how long an approval may be used; undefined if approvals do not lapse. */
export function holds({ validForSeconds }: ApprovalRequest['approvers']): string | undefined {
  return given(validForSeconds, (seconds) => `for ${duration(seconds * 1_000)} after the last approval`);
}

function reminderText({ approvers, openedAt, remindedAt }: ApprovalRequest): string | undefined {
  const { remindAfterSeconds } = approvers;
  if (remindedAt !== undefined) return `was due at ${shortInstant(remindedAt)}`;
  return given(remindAfterSeconds, (seconds) => `at ${secondsAfter(openedAt, seconds)}`);
}

function secondsAfter(instant: string, seconds: number): string {
  return shortInstant(new Date(Date.parse(instant) + seconds * 1_000).toISOString());
}

function latestOf({ approvers, openedAt }: ApprovalRequest): string | undefined {
  return given(approvers.extendableToSeconds, (seconds) => secondsAfter(openedAt, seconds));
}

export function statusText(
  { status, openedAt, decidedBy, decidedAt }: ApprovalRequest,
  now: number,
  paint: Paint,
): string {
  if (status === 'open') return paint('yellow', `waits for ${duration(now - Date.parse(openedAt))}`);
  const who = decidedBy === undefined ? '' : ` by ${visible(decidedBy.id)}`;
  const when = decidedAt === undefined ? '' : ` at ${shortInstant(decidedAt)}`;
  return paint(
    status === 'approved' || status === 'answered' || status === 'resolved' ? 'green' : 'red',
    `${visible(status)}${who}${when}`,
  );
}

function shown(text: string, most: number | undefined): string {
  const whole = spaced(text);
  if (most === undefined) return whole;
  const cut = bounded(whole, most);
  return cut === whole ? whole : `${cut} [cut: --full shows all]`;
}
