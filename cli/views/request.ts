/**
 * Shows an approval request to the person who decides it, and says what became of the decision.
 *
 * 1. Everything that the digest covers and a person can judge is shown. A cut text says that it is cut, and how to see
 *    the rest.
 * 2. What a server asks in the middle of a call is shown whole: nobody answers what they have not read. A page is shown
 *    with its whole host first; the command never opens it.
 * 3. Labels are only ours. A server's names stand quoted behind them, and no text of a server looks like one of our
 *    lines.
 */
import type {
  ApprovalRequest,
  AuthorizationPause,
  DecisionAck,
  DecisionInput,
  InputPause,
  PauseAck,
} from '../../contracts/schemas/request.ts';
import type { FormField, InputRequest } from '../../contracts/schemas/input.ts';
import { defined } from '../../contracts/defined.ts';
import { inWords, ruleAt } from '../../domain/policy/approvers.ts';
import { shownArguments } from '../../domain/policy/redaction.ts';
import { canonicalJson } from '../../domain/text/canonical.ts';
import { bounded, quoted, spaced, visible } from '../../domain/text/escape.ts';
import type { BatchAnswer } from '../../client/index.ts';
import { lastWord } from '../../domain/text/shell-word.ts';
import type { Paint } from '../session/terminal.ts';
import type { Answer } from '../session/verb.ts';
import {
  argumentsText,
  duration,
  type Field,
  fields,
  given,
  shortInstant,
  table,
  timeLeft,
  toolText,
} from './format.ts';

const SHOWN_DESCRIPTION = 300;

function wantedText(about: AuthorizationPause): string {
  const scopes = about.scopes?.map(visible).join(' ');
  const consent = scopes === undefined ? 'consent to another try' : `consent to ${scopes} for this call`;
  const what = about.wants === 'grant' ? 'a fresh grant' : consent;
  return `${what} [countersign authorize]; ${visible(about.reason)}: ${bounded(spaced(about.message), SHOWN_DESCRIPTION)}`;
}

/** @param now epoch ms */
export function requestText(
  request: ApprovalRequest,
  { full, reveal = false, now }: { readonly full: boolean; readonly reveal?: boolean; readonly now: number },
  paint: Paint,
): string {
  const { callId, server, serverUrl, tool, status, approvers, deadline, rules, annotations, description, votes } =
    request;
  const shown = shownTo(request, reveal);
  const head = `${paint('bold', visible(callId))}  ${paint('bold', toolText(server, tool))}  ${statusText(request, now, paint)}`;
  const rows = [
    ...aboutRows(request),
    ['arguments', argumentsText(shown.arguments, full)],
    ['changed', given(shown.edited, (edit) => editText(edit, full))],
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
    // Only for consent is it a rule that asks.
    [request.about === undefined ? 'asked by' : 'judged by', rules.map(visible).join(', ')],
    [
      'same call as',
      given(request.duplicateOf, (id) => `${visible(id)}; each needs an approval of its own, or one that stands`),
    ],
    ['because', request.explain?.map(({ rule, text }) => `${spaced(text)} (${visible(rule)})`).join('; ')],
    ['asked again', given(request.reopenedBecause, spaced)],
    ['tool says', given(description, (text) => cutTo(text, full ? undefined : SHOWN_DESCRIPTION))],
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
function aboutRows({ about }: ApprovalRequest): Field[] {
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
  const shown = { ...request, arguments: shownArguments(request) };
  if (edited === undefined) return shown;
  return { ...shown, edited: { ...edited, proposed: shownArguments({ arguments: edited.proposed, redact }) } };
}

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

function statusText({ status, openedAt, decidedBy, decidedAt }: ApprovalRequest, now: number, paint: Paint): string {
  if (status === 'open') return paint('yellow', `waits for ${duration(now - Date.parse(openedAt))}`);
  const who = decidedBy === undefined ? '' : ` by ${visible(decidedBy.id)}`;
  const when = decidedAt === undefined ? '' : ` at ${shortInstant(decidedAt)}`;
  return paint(
    status === 'approved' || status === 'answered' || status === 'resolved' ? 'green' : 'red',
    `${visible(status)}${who}${when}`,
  );
}

function cutTo(text: string, most: number | undefined): string {
  const whole = spaced(text);
  if (most === undefined) return whole;
  const cut = bounded(whole, most);
  return cut === whole ? whole : `${cut} [cut: --full shows all]`;
}

export function planAnswer(
  runId: string,
  { kind, requests, digest: together, others }: BatchPlan,
  reveal: boolean,
): Answer {
  const shown = requests.map((request) => shownTo(request, reveal));
  return {
    json: { runId, would: kind, digest: together, requests: shown, others },
    text: (paint) => {
      const calls = requests.map((request) => requestText(request, { full: true, reveal, now: Date.now() }, paint));
      const left = othersText(others);
      if (calls.length === 0) return `Nothing of run ${visible(runId)} waits that you may decide.${left}`;
      return `Would ${kind}:\n${calls.join('\n')}\ndigest of these together: ${together}${left}`;
    },
  };
}

export function batchAnswer(runId: string, { requests, others }: BatchPlan, answers: readonly BatchAnswer[]): Answer {
  return {
    json: {
      runId,
      others,
      results: answers.map((answer) => {
        const { callId, decisionId } = answer;
        const { server, tool } = requests.find((request) => request.callId === callId) ?? {};
        if (answer.kind === 'accepted') return { ...answer.ack, server, tool };
        const { code, message, facts } = answer.error;
        return { callId, decisionId, server, tool, error: { code, message, facts } };
      }),
    },
    text: (paint) => {
      const rows = answers.map((answer) =>
        answer.kind === 'accepted'
          ? [visible(answer.callId), visible(answer.ack.status), visible(answer.decisionId), '']
          : [visible(answer.callId), answer.error.code, visible(answer.decisionId), visible(answer.error.message)],
      );
      return `${table(paint, [['CALL', 'ANSWER', 'DECISION', ''], ...rows])}${othersText(others)}`;
    },
  };
}

function othersText(others: readonly string[]): string {
  return others.length === 0 ? '' : `\nwait for others: ${others.map(visible).join(', ')}`;
}

const COLOURS = {
  approved: 'green',
  answered: 'green',
  rejected: 'red',
  counted: 'yellow',
  edited: 'yellow',
  withdrawn: 'yellow',
  extended: 'yellow',
} as const;

export const SETTLED: readonly DecisionAck['status'][] = ['approved', 'answered', 'rejected'];

const OTHERS_MUST: Readonly<Partial<Record<DecisionAck['status'], string>>> = {
  counted: 'somebody else must agree too',
  edited: 'somebody else must agree to these arguments too',
};

export function decisionAnswer(runId: string, decided: Decided): Answer {
  const { status: word } = decided.ack;
  // A settled call that is open was asked about anew: the first answer does not say so.
  const isAskedAgain = decided.waits === true && SETTLED.includes(word);
  const what = isAskedAgain ? 'the call has been asked again since' : OTHERS_MUST[word];
  const next = what && `${what}; see: countersign requests`;
  return receipt(runId, decided, { word, colour: COLOURS[word] ?? 'yellow', ...defined({ next }) });
}

export function pauseAnswer(runId: string, answered: Answered, { next, ...words }: Words): Answer {
  return receipt(runId, answered, { ...words, ...(next !== undefined && { next: `${next}; see: countersign watch` }) });
}

interface Words {
  readonly word: string;
  readonly colour: Parameters<Paint>[0];
  /** Says what happens next, and names the command that shows it. */
  readonly next?: string;
}

/** Says which answer was taken. Its content, which may be personal data, is not repeated. */
function receipt(runId: string, { ack, request }: Decided | Answered, { word, colour, next }: Words): Answer {
  const { callId, decisionId, decidedBy, decidedAt } = ack;
  const about = request === undefined ? {} : { server: request.server, tool: request.tool, digest: request.digest };
  const tool = request === undefined ? '' : `  ${toolText(request.server, request.tool)}`;
  return {
    json: { runId, ...ack, ...about },
    text: (paint) =>
      `${paint(colour, visible(word))}  ${paint('bold', visible(callId))}${tool}\n${fields(paint, [
        ['by', `${visible(decidedBy)} at ${shortInstant(decidedAt)}`],
        ['deadline', 'until' in ack ? given(ack.until, shortInstant) : undefined],
        ['digest', request?.digest],
        ['decision', visible(decisionId)],
        ['next', given(next, (command) => `${command} ${lastWord(runId)}`)],
      ])}`,
  };
}

interface Receipt<Ack> {
  readonly ack: Ack;
  /** Absent if the answer was found only in the ledger. */
  readonly request?: ApprovalRequest;
}
export interface Decided extends Receipt<DecisionAck> {
  /** For a decision that was recorded before: true if the call waits now. */
  readonly waits?: boolean;
}
export type Answered = Receipt<PauseAck>;

export interface BatchPlan {
  readonly kind: DecisionInput['kind'];
  readonly requests: readonly ApprovalRequest[];
  readonly decisions: readonly DecisionInput[];
  /** Hash of the digests of all requests, in their order. */
  readonly digest: string;
  /** Calls that wait for other people; `--all` leaves them out. */
  readonly others: readonly string[];
}

export function inputRows({ requests, round, held }: InputPause): Field[] {
  return [
    ['asks', `the server asks before it goes on (round ${round}); what is answered goes to it, and to nobody else`],
    ['connection', held && 'open: the server waits, and is told no answer where nobody has answered by the deadline'],
    ...Object.entries(requests).flatMap(([key, request]) => requestRows(key, request)),
  ];
}

function requestRows(key: string, request: InputRequest): Field[] {
  const question: Field = ['question', `${quoted(key)}: ${spaced(request.message)}`];
  if (request.kind === 'url')
    return [
      question,
      ['host', visible(request.host)],
      ['page', `${visible(request.url)} [open it yourself where you trust its host, then answer with --accept]`],
    ];
  return [
    question,
    ...Object.entries(request.fields).map(([field, shape]): Field => [
      'field',
      `${quoted(field)}: ${fieldText(shape, request.required.includes(field))}`,
    ]),
  ];
}

function fieldText(field: FormField, isRequired: boolean): string {
  const parts = [
    isRequired ? 'required' : 'optional',
    kindText(field),
    field.title === undefined ? undefined : quoted(field.title),
    field.description === undefined ? undefined : quoted(field.description),
    field.default === undefined ? undefined : `proposed: ${proposedText(field.default)}`,
  ];
  return parts.filter((part) => part !== undefined).join(', ');
}

function proposedText(value: NonNullable<FormField['default']>): string {
  if (typeof value === 'object') return value.map(quoted).join(', ');
  return typeof value === 'string' ? quoted(value) : String(value);
}

function kindText(field: FormField): string {
  switch (field.type) {
    case 'text':
      return `${field.format ?? 'text'}${rangeText(field.minLength, field.maxLength, ' characters')}`;
    case 'number':
    case 'integer':
      return `${field.type}${rangeText(field.minimum, field.maximum, '')}`;
    case 'boolean':
      return 'true or false';
    case 'choice':
      return `one of ${optionsText(field.options)}`;
    case 'choices':
      return `some of ${optionsText(field.options)}${rangeText(field.minItems, field.maxItems, ' of them')}`;
  }
}

function rangeText(least: number | undefined, most: number | undefined, unit: string): string {
  if (least === undefined && most === undefined) return '';
  if (least === undefined) return `, at most ${most}${unit}`;
  return most === undefined ? `, at least ${least}${unit}` : `, ${least} to ${most}${unit}`;
}

function optionsText(options: readonly { readonly value: string; readonly title?: string | undefined }[]): string {
  return options
    .map(({ value, title }) => (title === undefined ? quoted(value) : `${quoted(value)} (${quoted(title)})`))
    .join(' | ');
}
