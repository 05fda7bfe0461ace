/** A run and its end, as people read them. */
import type { LimitsState, RunResult, RunState, Spent, StandingDecision } from '../../contracts/schemas/run-state.ts';
import { canonicalJson } from '../../domain/canonical.ts';
import { bounded, visible } from '../../domain/escape.ts';
import { amountText } from '../../domain/spend.ts';
import type { Paint } from '../terminal.ts';
import { shortInstant, timeLeft } from './duration.ts';
import { fields } from './fields.ts';
import { heldText } from './held.ts';
import { taskText } from './task.ts';
import { toolText } from './words.ts';

const SHADES = { completed: 'green', waiting: 'yellow', failed: 'red', cancelled: 'red', limited: 'red' } as const;

export function statusOf(status: RunState['status'], paint: Paint): string {
  // Sound: only a key of SHADES is taken for one.
  return paint(status in SHADES ? SHADES[status as keyof typeof SHADES] : 'bold', status);
}

export function stateText(state: RunState, now: number, paint: Paint): string {
  const { workflowId, status, turn, calls, pending, reminded, nextDeadline, usage, ledgerLength, ledgerHead } = state;
  const reason = state.because === undefined ? '' : `: ${visible(state.because)}`;
  const why = state.endsAs === undefined ? reason : `, ends ${state.endsAs}${reason} once it is stored`;
  const { standing = [] } = state;
  return `${paint('bold', visible(workflowId))}  ${statusOf(status, paint)}${why}\n${fields(paint, [
    [
      'waiting',
      pending === 0
        ? 'nothing waits for a decision'
        : `${pending} ${pending === 1 ? 'call waits' : 'calls wait'} for a decision`,
    ],
    ['reminded', reminded === undefined ? undefined : `of ${reminded}`],
    [
      'next deadline',
      nextDeadline === undefined ? undefined : `${shortInstant(nextDeadline)}, ${timeLeft(nextDeadline, now)}`,
    ],
    ['turn', `${turn}, ${calls} ${calls === 1 ? 'call' : 'calls'} so far`],
    ['tokens', `${usage.inputTokens} in, ${usage.outputTokens} out`],
    ['spent', spentText(state.spent)],
    ['limits', limitsText(state.limits)],
    ['ledger', `${ledgerLength} entries, head ${visible(ledgerHead)}`],
    ['execution', visible(state.runId)],
    ['lists tools', state.listing === undefined ? undefined : `of ${state.listing.map(visible).join(', ')}`],
    ...(state.held ?? []).map((each) => ['held back', heldText(each)] as const),
    ...(state.grantEnds ?? []).map(
      ({ callId, server, at }) =>
        [
          'grant ends',
          `for ${visible(server)} at ${shortInstant(at)}, before the deadline of ${visible(callId)}`,
        ] as const,
    ),
    ...(state.tasks ?? []).map((each) => ['task', taskText(each)] as const),
    ...standing.map((each) => ['stands', standingText(each)] as const),
  ])}`;
}

function spentText(spent: Spent | undefined): string | undefined {
  return spent === undefined ? undefined : `${amountText(spent.millionths)} ${visible(spent.currency)}`;
}

function limitsText(limits: LimitsState | undefined): string | undefined {
  if (limits === undefined) return undefined;
  const { turns, calls, tokens, spend, endsBy } = limits;
  const counted = Object.entries({ turns, calls, tokens }).map(
    ([name, { used, most }]) => `${used} of ${most} ${name}`,
  );
  if (spend !== undefined) counted.push(`${amountText(spend.used)} of ${amountText(spend.most)} spent`);
  return `${counted.join(', ')}, ends by ${shortInstant(endsBy)}`;
}

/** An approval that answers later calls, and how to take it back. */
function standingText({ standing, server, tool, scope, arguments: args, until, by }: StandingDecision): string {
  const about = args === undefined ? '' : ` ${bounded(visible(canonicalJson(args)), 200)}`;
  const end = until === undefined ? '' : ` until ${shortInstant(until)}`;
  return `${toolText(server, tool)}: ${scope}${about} by ${by.map(visible).join(', ')}${end} (${visible(standing)})`;
}

export function resultText(runId: string, result: RunResult, paint: Paint): string {
  const { status, because, turns, calls, usage } = result;
  const head = `${paint('bold', visible(runId))}  ${statusOf(status, paint)}${because === undefined ? '' : `: ${visible(because)}`}`;
  const rows = [
    ['turns', `${turns}, ${calls} ${calls === 1 ? 'call' : 'calls'}`],
    ['tokens', `${usage.inputTokens} in, ${usage.outputTokens} out`],
    ['spent', spentText(result.spent)],
    ['ledger', `${result.ledgerLength} entries, head ${visible(result.ledgerHead)}`],
  ] as const;
  const output = outputText(result.output);
  return `${head}\n${fields(paint, rows)}${output === '' ? '' : `\n\n${output}`}`;
}

/** The answer keeps its line breaks; nothing else of it can move the cursor. */
export function outputText(output: RunResult['output']): string {
  const text = typeof output === 'string' ? output : canonicalJson(output);
  return text
    .split(/\r?\n/)
    .map((line) => line.split('\t').map(visible).join('    '))
    .join('\n')
    .trimEnd();
}
