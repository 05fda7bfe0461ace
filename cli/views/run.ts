/** Shows a run, its calls, its retries and its result to people, and which trust mode is in force. */
import type { CallProgress, Retry } from '../../client/index.ts';
import type { RunningTask } from '../../contracts/schemas/legacy-2025.ts';
import type {
  LimitsState,
  MessagesState,
  RunResult,
  RunState,
  Spent,
  StandingDecision,
} from '../../contracts/schemas/run-state.ts';
import type { TrustConfig } from '../../contracts/schemas/trust.ts';
import type { HeldBy, HeldCall } from '../../contracts/schemas/call.ts';
import { amountText } from '../../domain/run/limits.ts';
import { canonicalJson } from '../../domain/text/canonical.ts';
import { jsonLine } from '../../domain/text/shown-json.ts';
import { bounded, spaced, unhidden, visible } from '../../domain/text/escape.ts';
import type { Paint } from '../session/terminal.ts';
import { count, fields, given, shortInstant, SHOWN_STRING, timeLeft, toolText } from './format.ts';

const SHADES = { completed: 'green', waiting: 'yellow', failed: 'red', cancelled: 'red', limited: 'red' } as const;

export function statusOf(status: RunState['status'], paint: Paint): string {
  // Sound: only a key of `SHADES` is used as one.
  return paint(status in SHADES ? SHADES[status as keyof typeof SHADES] : 'bold', status);
}

export function stateText(state: RunState, now: number, paint: Paint, retries: readonly Retry[] = []): string {
  const { workflowId, status, turn, calls, pending, reminded, nextDeadline, usage, ledgerLength, ledgerHead } = state;
  const reason = state.because === undefined ? '' : `: ${visible(state.because)}`;
  const why = state.endsAs === undefined ? reason : `, ends ${state.endsAs}${reason} once it is stored`;
  const { standing = [] } = state;
  return `${paint('bold', visible(workflowId))}  ${statusOf(status, paint)}${why}\n${fields(paint, [
    [
      'waiting',
      pending === 0
        ? 'nothing waits for a decision'
        : `${count(pending, 'call')} ${pending === 1 ? 'waits' : 'wait'} for a decision`,
    ],
    ['reminded', given(reminded, (many) => `of ${many}`)],
    ['next deadline', given(nextDeadline, (at) => `${shortInstant(at)}, ${timeLeft(at, now)}`)],
    ['turn', `${turn}, ${count(calls, 'call')} so far`],
    ['tokens', `${usage.inputTokens} in, ${usage.outputTokens} out`],
    ['spent', given(state.spent, spentText)],
    ['limits', given(state.limits, limitsText)],
    ['ledger', `${ledgerLength} entries, head ${visible(ledgerHead)}`],
    ['execution', visible(state.runId)],
    ['lists tools', given(state.listing, (servers) => `of ${servers.map(visible).join(', ')}`)],
    ...retries.map((each) => ['tried again', retryText(each)] as const),
    ...(state.held ?? []).map((each) => ['held back', heldText(each)] as const),
    ...(state.grantEnds ?? []).map((each) => ['grant ends', grantEndText(each)] as const),
    ...(state.tasks ?? []).map((each) => ['task', taskText(each)] as const),
    ['messages', given(state.messages, (messages) => messagesText(messages))],
    ...(state.messages?.underWay ?? []).map((each) => ['not told yet', underWayText(each)] as const),
    ...(state.messages?.failures ?? []).map((each) => ['not told', failureText(each)] as const),
    ...standing.map((each) => ['stands', standingText(each)] as const),
  ])}`;
}

function grantEndText({ callId, server, at }: NonNullable<RunState['grantEnds']>[number]): string {
  return `for ${visible(server)} at ${shortInstant(at)}, before the deadline of ${visible(callId)}`;
}

function messagesText({ sent, underWay, failed }: MessagesState): string {
  return `${sent} sent, ${underWay.length} under way, ${failed} given up`;
}

function underWayText({ channel, event, calls, since }: MessagesState['underWay'][number]): string {
  return `${event} of ${calls.map(visible).join(', ')} through ${visible(channel)}, since ${shortInstant(since)}`;
}

function failureText({ channel, event, calls, code, message, at }: MessagesState['failures'][number]): string {
  return `${event} of ${calls.map(visible).join(', ')} through ${visible(channel)} at ${shortInstant(at)}: ${visible(code)}: ${bounded(visible(message), 300)}`;
}

function spentText({ millionths, currency }: Spent): string {
  return `${amountText(millionths)} ${visible(currency)}`;
}

function limitsText({ turns, calls, tokens, spend, endsBy }: LimitsState): string {
  const counted = Object.entries({ turns, calls, tokens }).map(([name, of]) => `${of.used} of ${of.most} ${name}`);
  if (spend !== undefined) counted.push(`${amountText(spend.used)} of ${amountText(spend.most)} spent`);
  return `${counted.join(', ')}, ends by ${shortInstant(endsBy)}`;
}

function standingText({ standing, server, tool, scope, arguments: args, until, by }: StandingDecision): string {
  const about = args === undefined ? '' : ` ${jsonLine(args, SHOWN_STRING).text}`;
  const end = until === undefined ? '' : ` until ${shortInstant(until)}`;
  return `${toolText(server, tool)}: ${scope}${about} by ${by.map(visible).join(', ')}${end} (${visible(standing)})`;
}

export function resultText(runId: string, result: RunResult, paint: Paint): string {
  const { status, because, turns, calls, usage } = result;
  const head = `${paint('bold', visible(runId))}  ${statusOf(status, paint)}${because === undefined ? '' : `: ${visible(because)}`}`;
  const rows = [
    ['turns', `${turns}, ${count(calls, 'call')}`],
    ['tokens', `${usage.inputTokens} in, ${usage.outputTokens} out`],
    ['spent', given(result.spent, spentText)],
    ['ledger', `${result.ledgerLength} entries, head ${visible(result.ledgerHead)}`],
  ] as const;
  const output = outputText(result.output);
  return `${head}\n${fields(paint, rows)}${output === '' ? '' : `\n\n${output}`}`;
}

/** Keeps line breaks and letters of any script: the answer stands alone in its lines. Nothing else moves the cursor. */
export function outputText(output: RunResult['output']): string {
  const text = typeof output === 'string' ? output : visible(canonicalJson(output));
  return text
    .split(/\r?\n/)
    .map((line) => line.split('\t').map(unhidden).join('    '))
    .join('\n')
    .trimEnd();
}

export const HELD_BY: Readonly<Record<HeldBy, string>> = {
  concurrency: 'as many calls as its server takes at once',
  rate: 'as many calls as its server takes in that time',
  'retry-after': 'its server, which asked for time',
  breaker: 'an open breaker: its server failed again and again',
};

export function heldText({ callId, server, tool, because, since, next }: HeldCall): string {
  return `${visible(callId)} ${toolText(server, tool)} since ${shortInstant(since)}, asks again at ${shortInstant(next)}: ${bounded(visible(because), 300)}`;
}

export function retryText({ step, code, message, attempt, since, next }: Retry): string {
  const when = since === undefined ? '' : ` since ${shortInstant(since)}`;
  const then = next === undefined ? 'being tried now' : `tried again at ${shortInstant(next)}`;
  return `${visible(step)}: ${visible(code)}, attempt ${attempt}${when}, ${then}: ${spaced(message)}`;
}

export function taskText({ callId, server, tool, since, next, until, message }: RunningTask): string {
  const said = message === undefined ? '' : `: ${bounded(visible(message), 300)}`;
  return `${visible(callId)} ${toolText(server, tool)} since ${shortInstant(since)}, asked again at ${shortInstant(next)}, given up at ${shortInstant(until)}${said}`;
}

export function progressText({ callId, sentAt, progress, total }: CallProgress): string {
  const most = total === undefined ? '' : ` of ${visible(String(total))}`;
  return `${visible(callId)} since ${shortInstant(sentAt)}, at ${visible(String(progress))}${most}`;
}

/** Every start prints the trust mode, since everything else rests on it. */
export function trustText(trust: TrustConfig, namespace: string): string {
  return trust.mode === 'temporal'
    ? `temporal. Whoever may write to namespace ${namespace} may start runs and decide, in anybody's name.`
    : `signed. Starts and decisions count where a key of ${trust.jwks} has signed them.`;
}
