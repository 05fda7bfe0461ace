/**
 * People read these texts of a run in Temporal UI: summaries, current details, memo, search attributes.
 *
 * 1. Every text of a model, tool or server is escaped (see `domain/text/escape.ts`).
 * 2. Search attributes and memo hold no arguments: everybody who may list runs can read both.
 */
import { defined } from '../../contracts/defined.ts';
import { WAITS_FOR } from '../../contracts/names.ts';
import type { HeldCall } from '../../contracts/schemas/call.ts';
import type { Extension } from '../../contracts/wire/carry.ts';
import type { InputPause, OutcomePause, Pause, PendingMemo } from '../../contracts/schemas/request.ts';
import type { RunStatus } from '../../contracts/schemas/run-state.ts';
import type { StretchedCall } from '../../contracts/wire/stretch.ts';
import { type Catalog, hasDrifted } from '../catalog/state.ts';
import { shownTask, tasksOf } from '../legacy-2025/tasks.ts';
import { inWords, personOf } from '../policy/approvers.ts';
import { withoutRedacted } from '../policy/redaction.ts';
import { shownOf } from '../request/deadline.ts';
import { digestOf } from '../request/digest.ts';
import { shownStanding } from '../request/standing.ts';
import { shownThrottled, throttledCalls } from '../request/throttling.ts';
import { isConcluded } from '../run/stretch.ts';
import {
  agreedOn,
  type Asking,
  askingCalls,
  callOf,
  type CallState,
  type InFlight,
  judgementOf,
  type Run,
  type RunIds,
  waitOf,
} from '../state/run.ts';
import { byteLength } from '../text/canonical.ts';
import { bounded, boundedBytes, codeSpan, markdown, named, visible } from '../text/escape.ts';
import { argumentsLine } from '../text/shown-json.ts';

const SHOWN_QUESTIONS = 5;
const MEMO_REQUESTS = 5;
const MEMO_BYTES = 1_536;
/** Temporal takes 400 bytes, counted with the encoding of the payload. */
const SUMMARY_BYTES = 200;
const LISTED_TOOLS = 10;
/** Temporal takes 2,048 bytes for the value of one attribute (`frontend.searchAttributesSizeOfValueLimit`). */
const ATTRIBUTE_BYTES = 2_000;

export function summaryOf(state: CallState, about: string): string {
  const target = judgementOf(state)?.target;
  const name = target === undefined ? state.call.name : `${target.server}/${named(target.tool)}`;
  const line = `${state.call.callId} ${bounded(visible(name), 100)} ${bounded(visible(about), 90)}`;
  return boundedBytes(line.trim(), SUMMARY_BYTES);
}

export function byWhoseWord({ consent, edit, retry }: InFlight): string {
  const again = retry === undefined ? '' : `, sent again by ${retry.resolution.approver.id}`;
  if (consent === undefined) return `allowed by policy${again}`;
  const { decision, further = [], standing } = consent.made;
  const people = [...further.map((vote) => vote.decision), decision].map(({ approver }) => approver.id);
  const changed = edit === undefined ? '' : `, arguments changed by ${edit.by}`;
  const stood = standing === undefined ? '' : ', by an approval that stands';
  return `countersigned by ${[...new Set(people)].join(' and ')}${changed}${stood}${again}`;
}

export const UNDER_WAY: ReadonlySet<RunStatus> = new Set(['preparing', 'thinking', 'acting', 'storing']);

export function currentDetails(
  status: RunStatus,
  run: Run,
  because?: string,
  stretched: readonly string[] = [],
): string {
  const asking = askingCalls(run);
  const why = because === undefined ? '' : ` (${markdown(bounded(because, 200))})`;
  const lines = [
    `**${status}**${why} · turn ${run.turn} · ${run.totalCalls} ${run.totalCalls === 1 ? 'call' : 'calls'}`,
  ];
  if (asking.length > 0) lines.push('', `### ${asking.length} waiting for a decision`, '');
  for (const state of asking.slice(0, 20)) lines.push(...requestLines(state));
  if (asking.length > 20) lines.push(`… and ${asking.length - 20} more: ask the \`requests\` query.`);
  lines.push(...waitingLines(run), ...standingLines(run));
  // A workflow does not learn of attempts and heartbeats.
  if (UNDER_WAY.has(status))
    lines.push('', 'What goes on now, and what is tried again, with attempt and reason: *Pending Activities*');
  lines.push(...section('calls made in stretches, newest turn first', stretched));
  // Broken glass goes right under the first line.
  lines.splice(1, 0, ...brokenGlass(run));
  return lines.join('\n');
}

/** Puts this turn before the lines on earlier turns of stretches. @param at epoch ms of the model's answer */
export function withStretched(
  lines: readonly string[],
  run: Run,
  calls: readonly StretchedCall[],
  at: number,
): readonly string[] {
  const deeds = calls.map((call) => deedOf(run, call));
  const told = [...new Set(deeds)].map((deed) => {
    const times = deeds.filter((other) => other === deed).length;
    return times === 1 ? deed : `${deed} ×${times}`;
  });
  const line = `- turn ${run.turn} at ${new Date(at).toISOString()}: ${bounded(told.join(', '), 500)}`;
  return [line, ...lines].slice(0, 10);
}

function deedOf(run: Run, { callId, result }: StretchedCall): string {
  const state = callOf(run, callId);
  const target = state && judgementOf(state)?.target;
  const tool = target === undefined ? callId : toolIn(target.server, target.tool);
  // The worker was lost after the call was on record: whether it left is not known.
  if (result === undefined) return `${tool} (**may have run**, left to the run)`;
  if (result.kind === 'ended' && result.outcome.kind === 'unknown') return `${tool} (**answer lost**, left to the run)`;
  if (!isConcluded(result)) return `${tool} (left to the run)`;
  const { outcome } = result;
  if (outcome.kind === 'succeeded') return tool;
  return `${tool} (${markdown(bounded('code' in outcome ? outcome.code : outcome.kind, 64))})`;
}

function brokenGlass({ calls }: Run): string[] {
  return calls
    .flatMap((state) => {
      const verdict = judgementOf(state)?.verdict;
      if (verdict?.kind !== 'allow' || verdict.breakGlass === undefined) return [];
      const { rule, reason, until } = verdict.breakGlass;
      return [
        `**BREAK GLASS** ${state.call.callId}: allowed without being asked until ${markdown(until)}: ${markdown(bounded(reason, 300))} (${markdown(rule)})`,
      ];
    })
    .slice(0, 5);
}

function waitingLines(run: Run): string[] {
  const line = (
    { callId, server, tool, since }: Pick<HeldCall, 'callId' | 'server' | 'tool' | 'since'>,
    until: string,
    why: string,
  ): string => `- **${callId}** ${toolIn(server, tool)} since ${since}, ${until}: ${markdown(bounded(why, 200))}`;
  const held = throttledCalls(run).slice(0, 20).map(shownThrottled);
  const tasks = tasksOf(run).slice(0, 20).map(shownTask);
  return [
    ...section(
      'held back by limits of a server',
      held.map((each) => line(each, `asks again at ${each.next}`, each.because)),
    ),
    ...section(
      'worked on by servers as tasks',
      tasks.map((each) => line(each, `until ${each.until} at most`, each.message ?? '')),
    ),
  ];
}

function standingLines({ standing = [] }: Run): string[] {
  const lines = standing.map((each) => {
    const { standing: id, server, tool, scope, arguments: args, until, by } = shownStanding(each);
    const about = args === undefined ? '' : `, ${codeSpan(argumentsLine(args))}`;
    return `- ${toolIn(server, tool)}: ${scope}${about} by ${markdown(by.join(', '))}${until === undefined ? '' : ` until ${until}`} (${markdown(id)})`;
  });
  return section('approvals that stand', lines);
}

function section(title: string, lines: readonly string[]): string[] {
  return lines.length === 0 ? [] : ['', `### ${title}`, '', ...lines];
}

function requestLines(state: Asking): string[] {
  const { call, judgement, request, duplicateOf, edit, unsure } = state;
  const { server, tool } = judgement.target;
  const { approvers, remindedAt, escalatedAt } = shownOf(request);
  const voices = agreedOn(state);
  return [
    `- **${call.callId}** ${toolIn(server, tool)} until ${new Date(request.deadline).toISOString()}`,
    `  - who: ${markdown(inWords(approvers))}`,
    ...aboutLines(request.about),
    ...(unsure === undefined || request.about?.kind === 'outcome'
      ? []
      : [`  - **it was sent before and may have run**: ${markdown(bounded(unsure.message, 300))}`]),
    ...(remindedAt === undefined ? [] : [`  - reminded at ${new Date(remindedAt).toISOString()}`]),
    ...(escalatedAt === undefined ? [] : [`  - others are asked since ${new Date(escalatedAt).toISOString()}`]),
    ...(request.extended === undefined ? [] : [`  - postponed by ${markdown(postponers(request.extended.by))}`]),
    ...(voices.length === 0 ? [] : [`  - agreed so far: ${markdown(voices.join(', '))}`]),
    `  - arguments: ${codeSpan(argumentsLine(withoutRedacted(call.arguments, judgement.redact)))}`,
    ...(duplicateOf === undefined
      ? []
      : [`  - the same call as ${duplicateOf}: it needs an approval of its own, or one that stands`]),
    ...(judgement.verdict.kind === 'ask' ? (judgement.verdict.explain ?? []) : [])
      .slice(0, 2)
      .map(({ rule, text }) => `  - because: ${markdown(bounded(text, 300))} (${markdown(rule)})`),
    ...(edit === undefined
      ? []
      : [
          `  - arguments changed by ${markdown(edit.by)}; proposed were ${codeSpan(argumentsLine(withoutRedacted(edit.proposed, judgement.redact)))}`,
        ]),
    ...(request.because === undefined ? [] : [`  - asked again: ${markdown(bounded(request.because, 200))}`]),
  ];
}

function postponers(extensions: readonly Extension[]): string {
  return [...new Set(extensions.map(({ decision }) => decision.approver.id))].join(', ');
}

function aboutLines(about: Pause | undefined): string[] {
  if (about === undefined) return [];
  if (about.kind === 'input') return inputLines(about);
  if (about.kind === 'authorization')
    return [
      `  - **${markdown(about.server)} wants another authorization**: ${markdown(bounded(about.message, 300))}`,
      about.wants === 'grant'
        ? '  - give a fresh grant: `countersign authorize`'
        : `  - consent to ${about.scopes === undefined ? 'another try' : `the scopes ${about.scopes.map((scope) => codeSpan(bounded(scope, 64))).join(' ')} for this call`}: \`countersign authorize\``,
    ];
  return [
    `  - **it may have run**: ${markdown(bounded(about.message, 300))}`,
    `  - ${leftText(about)}, attempt ${about.attempt}${about.bytes === undefined ? '' : `, ${about.bytes} bytes of an answer came`}${about.lastProgress === undefined ? '' : `, progress ${about.lastProgress}`}`,
    '  - say what became of it: `countersign resolve`',
  ];
}

/** One of the two times is always set. */
function leftText({ sentAt, handedAt }: OutcomePause): string {
  return sentAt === undefined
    ? `handed to a worker at ${markdown(String(handedAt))}, and none has said that it left`
    : `sent at ${markdown(sentAt)}`;
}

function toolIn(server: string, tool: string): string {
  return `${markdown(named(server))}/${markdown(named(tool))}`;
}

/** Lists the server's questions, and no answers. Our words come first, so that no foreign text passes for them. */
function inputLines({ requests, round, held }: InputPause): string[] {
  const entries = Object.entries(requests);
  const more = entries.length - SHOWN_QUESTIONS;
  return [
    `  - **the server asks** (round ${round})${held === undefined ? '' : ', and waits on an open connection until then'}`,
    ...entries.slice(0, SHOWN_QUESTIONS).map(([key, request]) => {
      const what =
        request.kind === 'url'
          ? `open a page of ${codeSpan(request.host)}`
          : `fill in ${codeSpan(bounded(Object.keys(request.fields).map(named).join(', '), 200))}`;
      return `    - ${what}; question ${codeSpan(bounded(key, 64))}: ${markdown(bounded(request.message, 300))}`;
    }),
    ...(more > 0 ? [`    - and ${more} more`] : []),
    '  - answer: `countersign answer`',
  ];
}

/** At most 1.5 KiB: count, next deadline, and the first five requests without arguments, fewer if names are long. */
export function pendingMemo(run: Run, ids: RunIds): PendingMemo {
  const asking = askingCalls(run);
  const { nextDeadline } = waitOf(run);
  const requests = asking.slice(0, MEMO_REQUESTS).map((state) => ({
    callId: state.call.callId,
    server: state.judgement.target.server,
    tool: bounded(visible(state.judgement.target.tool), 64),
    deadline: new Date(state.request.deadline).toISOString(),
    digest: digestOf(state, ids),
    ...(shownOf(state.request).remindedAt === undefined ? {} : { reminded: true as const }),
    ...defined({ duplicateOf: state.duplicateOf }),
    ...(state.request.about === undefined ? {} : { about: state.request.about.kind }),
  }));
  const memoOf = (shown: PendingMemo['requests']): PendingMemo => ({
    count: asking.length,
    ...(nextDeadline === undefined ? {} : { nextDeadline: new Date(nextDeadline).toISOString() }),
    requests: shown,
    truncated: asking.length > shown.length,
  });
  while (byteLength(JSON.stringify(memoOf(requests))) > MEMO_BYTES) requests.pop();
  return memoOf(requests);
}

export function pendingAttributes(run: Run) {
  const asking = askingCalls(run);
  const { nextDeadline, waitingSince } = waitOf(run);
  const approvers = asking.flatMap(({ request }) => {
    const rule = shownOf(request).approvers;
    return rule.allOf.flatMap(({ ids, groups }) => [
      ...ids.map((id) => WAITS_FOR.id(personOf(rule, id))),
      ...groups.map(WAITS_FOR.group),
    ]);
  });
  const tools = asking.map(({ judgement }) => visible(`${judgement.target.server}/${judgement.target.tool}`));
  return {
    pending: asking.length,
    nextDeadline: nextDeadline === undefined ? undefined : new Date(nextDeadline),
    waitingSince: waitingSince === undefined ? undefined : new Date(waitingSince),
    approvers: listedWithin(approvers, WAITS_FOR.more),
    tools: listedWithin(tools).slice(0, LISTED_TOOLS),
  };
}

/** Keeps each value once, as many as one attribute holds: more would stop the run. @param more stands for the others */
export function listedWithin(values: readonly string[], more?: string): readonly string[] {
  const all = [...new Set(values)];
  const kept = [...all];
  const told = (): string[] => (more === undefined || kept.length === all.length ? kept : [...kept, more]);
  while (byteLength(JSON.stringify(told())) > ATTRIBUTE_BYTES) kept.pop();
  return told();
}

// Temporal UI shows this text of a catalog: Markdown, with foreign names made visible and inert.

const MOST_NAMED = 20;

export function catalogDetails(catalog: Catalog): string {
  const { status, connection, entries, pending, policyVersion, lastRefresh } = catalog;
  const available = entries.filter((entry) => entry.status === 'available').length;
  const namedLine = (title: string, names: readonly string[]): string[] => {
    const shown = names.slice(0, MOST_NAMED).map((name) => codeSpan(bounded(name, 64)));
    if (shown.length === 0) return [];
    return [`- ${title} (${names.length}): ${shown.join(', ')}${names.length > MOST_NAMED ? ' …' : ''}`];
  };
  const entriesLine = (title: string, wanted: (entry: Catalog['entries'][number]) => boolean): string[] =>
    namedLine(
      title,
      entries.filter((entry) => wanted(entry)).map(({ name }) => name),
    );
  return [
    `**${status}**${connection === undefined ? '' : ` to ${codeSpan(bounded(connection.url, 200))}`}, version ${policyVersion}`,
    `- ${available} ${available === 1 ? 'tool' : 'tools'} available`,
    ...entriesLine('Changed since an operator looked', hasDrifted),
    ...entriesLine('Missing', (entry) => entry.status === 'missing'),
    ...entriesLine('Disabled', ({ setting }) => !setting.enabled),
    ...namedLine(
      'Waiting for a second administrator',
      pending.map(({ changeId }) => changeId),
    ),
    ...(lastRefresh?.ok === false
      ? [`- The last refresh failed: ${markdown(`${lastRefresh.code}: ${bounded(`${lastRefresh.message}`, 300)}`)}`]
      : []),
  ].join('\n');
}
