/** Describes a stuck run, and what `recover` would do or has done. */
import { catalogOf } from '../../client/catalog/list.ts';
import type { FailingTask } from '../../client/engine/executions.ts';
import { ZONE_KEY_GONE } from '../../client/engine/trouble.ts';
import type { DiscardedAnswer, DiscardedCall, Recovery } from '../../client/run/recovery.ts';
import { defined } from '../../contracts/defined.ts';
import { CountersignError } from '../../contracts/errors.ts';
import type { RunState } from '../../contracts/schemas/run-state.ts';
import { named, visible } from '../../domain/text/escape.ts';
import { lastWord, shellWord } from '../../domain/text/shell-word.ts';
import type { Diagnosis } from '../../workers/replay/diagnosis.ts';
import type { StuckRun } from '../session/stuck-run.ts';
import type { Paint } from '../session/terminal.ts';
import type { Answer } from '../session/verb.ts';
import { count, fields, names, said, toolText } from './format.ts';
import { stateText } from './run.ts';

interface Shown extends Recovery {
  readonly diagnosis: Diagnosis;
  readonly failing?: FailingTask;
  readonly state?: RunState;
}

export type Recovering =
  | { readonly kind: 'sound'; readonly runId: string; readonly failing?: FailingTask }
  | (Shown & { readonly kind: 'shown' })
  | (Shown & { readonly kind: 'refused'; readonly why: string })
  | (Shown & { readonly kind: 'done'; readonly became: string });

export function recoveryText(recovering: Recovering, now: number, paint: Paint): string {
  const catalog = catalogOf(recovering.runId);
  const run = `${catalog === undefined ? 'Run ' : ''}${paint('bold', visible(recovering.runId))}`;
  const why = recovering.failing === undefined ? [] : [`its task fails: ${said(recovering.failing.message)}`];
  if (recovering.kind === 'sound')
    return [
      `${run}: this build replays the whole history. There is nothing to recover.`,
      ...why.map((each) => `  ${each}`),
      '  Where its workflow tasks fail all the same, its workers run another build, or lack a key: see RUN_STUCK.',
    ].join('\n');
  const { task, discarded, diagnosis, state } = recovering;
  return [
    `${run} can be replayed up to event ${task - 1}; ${count(discarded.events, 'event')} from ${task} on are undone.`,
    fields(paint, [
      ...why.map((each) => ['stuck', each] as const),
      ['because', visible(diagnosis.text)],
      ...discarded.answers.map((answer) => ['undone', answerText(answer)] as const),
      ...discarded.calls.map((call) => ['call', callText(call)] as const),
      ...(catalog === undefined ? RUN_ROWS : CATALOG_ROWS),
    ]),
    ...(state === undefined ? [] : ['', 'It begins again there:', stateText(state, now, paint)]),
    '',
    endOf(recovering),
  ].join('\n');
}

const RUN_ROWS = [
  ['decisions', 'those of before do not count; what waits is asked again, with new digests'],
  ['messages', 'say, stop and other messages of the undone part are sent to the run again'],
] as const;

/** The undone messages arrive all at once; one that was made on the version of another is refused. */
const CATALOG_ROWS = [
  [
    'messages',
    'what is undone is sent to the catalog again; what is signed, or was made on another change, is refused',
  ],
  ['check', 'each change that is listed here, and make again what the catalog lacks, denials first'],
] as const;

function endOf(recovering: Exclude<Recovering, { kind: 'sound' }>): string {
  const id = shellWord(recovering.runId);
  switch (recovering.kind) {
    case 'shown':
      return `Nothing was done. To do it: countersign recover ${id} --yes`;
    case 'refused':
      return `Nothing was done. ${recovering.why}`;
    case 'done':
      return `Done: it goes on as Temporal run ${visible(recovering.became)}. See: ${seeing(recovering.runId)}`;
  }
}

function seeing(id: string): string {
  const catalog = catalogOf(id);
  if (catalog === undefined) return `countersign requests ${lastWord(id)}`;
  return `countersign catalog list ${visible(catalog.server)} --tenant ${shellWord(catalog.tenant)}`;
}

function answerText({ update, by, callId, tools = [] }: DiscardedAnswer): string {
  const about = callId === undefined ? names(tools) : named(callId);
  return `${named(update)}${about === '' ? '' : ` on ${about}`}${by === undefined ? '' : ` by ${named(by)}`}`;
}

const ENDED: Readonly<Record<DiscardedCall['ending'], string>> = {
  unsent: 'was not sent',
  begun: 'was sent, and its server had begun on it',
  succeeded: 'was sent, and succeeded',
  failed: 'was sent, and its tool failed',
  unknown: 'may have been sent',
};

function sentText({ callId, server, tool, at, ending }: DiscardedCall): string {
  return `${named(callId)} ${toolText(server, tool)} ${ENDED[ending]} (${visible(at)})`;
}

function callText(call: DiscardedCall): string {
  if (call.ending === 'unsent') return `${sentText(call)}; it may be sent`;
  const next = call.repeatable
    ? 'repeatable, so it may be sent again by itself'
    : 'not sent again by itself: a person is asked what became of it';
  return `${sentText(call)}; ${next}`;
}

export function stuckJson({ failing, upTo, of, task, calls }: StuckRun): object {
  return { failing, readTo: upTo, of, ...defined({ task }), calls };
}

export function stuckAnswer(
  stuck: StuckRun,
  json: object | undefined,
  parts: (paint: Paint) => readonly string[],
): Answer {
  return {
    json: { ...json, stuck: stuckJson(stuck) },
    text: (paint) => [stuckText(stuck, paint), ...parts(paint)].filter((part) => part !== '').join('\n\n'),
  };
}

export function stuckText(stuck: StuckRun, paint: Paint): string {
  const { runId, failing, upTo, of, task } = stuck;
  const rest = task === undefined ? 'what came after is not done yet' : 'what came after could not be read';
  const rows = fields(paint, [
    ['because', said(failing.message)],
    ['read', `from history up to event ${upTo} of ${of}; ${rest}`],
    ['way out', wayOut(stuck)],
  ]);
  const since =
    failing.at === undefined
      ? 'a worker answered that it cannot replay it'
      : `its workflow task fails since ${visible(failing.at)}`;
  return `${paint('red', 'stuck')}  ${visible(runId)}: ${since}\n${rows}`;
}

function wayOut(stuck: StuckRun): string {
  const isKeyGone = stuck.failing.message.includes(ZONE_KEY_GONE);
  const first = isKeyGone ? 'if a key was removed from trust.zone.keys, put it back, and the run goes on; else ' : '';
  return `${first}${otherWayOut(stuck)}`;
}

function otherWayOut({ runId, task, failing: { at, build } }: StuckRun): string {
  // Another worker may go on with a run of which no task has failed yet.
  const isSure = at !== undefined;
  if (task !== undefined)
    return `${isSure ? '' : 'where no build can go on with it: '}countersign recover ${lastWord(runId)}`;
  if (build === undefined) return 'this build replays all of it: run it as a worker, and the run goes on';
  return `this build replays all of it, and the run stays with build ${visible(build)}. Where that is another one, make this one current and move the run: countersign deploy drain ${shellWord(build)} --move. Else run it as a worker`;
}

/** Makes the error that ends the watching of a stuck run. @param cursor number of the first entry that was not shown */
export function stuckError(stuck: StuckRun, cursor: number): CountersignError {
  const { runId, failing, upTo, of } = stuck;
  const since = failing.at === undefined ? '' : ` since ${failing.at}`;
  const message = `Run ${runId} is stuck${since}: ${failing.message.replace(/\.+$/, '')}. What stands above was read from its history up to event ${upTo} of ${of}. The way out: ${wayOut(stuck)}. Then watch it again from entry ${cursor} on.`;
  return new CountersignError('RUN_STUCK', message, { runId, cursor, readTo: upTo, of });
}

export function openText({ answers, calls }: StuckRun, paint: Paint): string {
  const open = (answers.requests ?? []).filter(({ status }) => status === 'open');
  const asked = open.map(({ callId, server, tool, about }) => {
    return `${named(callId)} ${toolText(server, tool)}${about === undefined ? '' : ` (${about.kind})`}`;
  });
  return fields(paint, [
    ...asked.map((each) => ['asked', each] as const),
    ...calls.map((call) => ['handed out', sentText(call)] as const),
  ]);
}
