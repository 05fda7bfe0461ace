/** What `recover` would do, or has done, for people. */
import type { DiscardedCall, Recovery } from '../../client/run/recovery.ts';
import type { FailingTask } from '../../client/engine/stuck.ts';
import type { ApprovalRequest } from '../../contracts/schemas/request.ts';
import type { RunState } from '../../contracts/schemas/run-state.ts';
import { named, visible } from '../../domain/text/escape.ts';
import type { Diagnosis } from '../../workers/replay/diagnosis.ts';
import type { StuckRun } from '../session/stuck-run.ts';
import type { Paint } from '../session/terminal.ts';
import { count, fields, said, toolText } from './format.ts';
import { stateText } from './run.ts';

interface Shown extends Recovery {
  readonly diagnosis: Diagnosis;
  readonly failing?: FailingTask;
  /** Where the run would stand. */
  readonly state?: RunState;
}

export type Recovering =
  | { readonly kind: 'sound'; readonly runId: string; readonly failing?: FailingTask }
  | (Shown & { readonly kind: 'shown' })
  | (Shown & { readonly kind: 'refused'; readonly why: string })
  | (Shown & { readonly kind: 'done'; readonly became: string });

export function recoveryText(recovering: Recovering, now: number, paint: Paint): string {
  const run = paint('bold', visible(recovering.runId));
  const why = recovering.failing === undefined ? [] : [`its task fails: ${said(recovering.failing.message)}`];
  if (recovering.kind === 'sound')
    return [
      `Run ${run}: this build replays the whole history. There is nothing to recover.`,
      ...why.map((each) => `  ${each}`),
      '  Where its workflow tasks fail all the same, its workers run another build, or lack a key: see RUN_STUCK.',
    ].join('\n');
  const { task, discarded, diagnosis, state } = recovering;
  return [
    `Run ${run} can be replayed up to event ${task - 1}; ${count(discarded.events, 'event')} from ${task} on are undone.`,
    fields(paint, [
      ...why.map((each) => ['stuck', each] as const),
      ['because', visible(diagnosis.text)],
      ...discarded.answers.map(({ update, by, callId }) => ['undone', answerText(update, by, callId)] as const),
      ...discarded.calls.map((call) => ['call', callText(call)] as const),
      ['decisions', 'those of before do not count; what waits is asked again, with new digests'],
      ['messages', 'say, stop and other messages of the undone part are sent to the run again'],
    ]),
    ...(state === undefined ? [] : ['', 'It begins again there:', stateText(state, now, paint)]),
    '',
    endOf(recovering),
  ].join('\n');
}

function endOf(recovering: Exclude<Recovering, { kind: 'sound' }>): string {
  const id = visible(recovering.runId);
  switch (recovering.kind) {
    case 'shown':
      return `Nothing was done. To do it: countersign recover ${id} --yes`;
    case 'refused':
      return `Nothing was done. ${recovering.why}`;
    case 'done':
      return `Done: it goes on as Temporal run ${visible(recovering.became)}. See: countersign requests ${id}`;
  }
}

function answerText(update: string, by: string | undefined, callId: string | undefined): string {
  return `${named(update)}${callId === undefined ? '' : ` on ${named(callId)}`}${by === undefined ? '' : ` by ${named(by)}`}`;
}

const ENDED: Readonly<Record<DiscardedCall['ending'], string>> = {
  unsent: 'was not sent',
  begun: 'was sent, and its server had begun on it',
  succeeded: 'was sent, and succeeded',
  failed: 'was sent, and its tool failed',
  unknown: 'may have been sent',
};

/** That it was handed to a worker, and how it ended. */
function sentText({ callId, server, tool, at, ending }: DiscardedCall): string {
  return `${named(callId)} ${toolText(server, tool)} ${ENDED[ending]} (${visible(at)})`;
}

function callText(call: DiscardedCall): string {
  const { ending, repeatable } = call;
  const next =
    ending === 'unsent'
      ? 'it may be sent'
      : repeatable
        ? 'repeatable, so it may be sent again by itself'
        : 'not sent again by itself: a person is asked what became of it';
  return `${sentText(call)}; ${next}`;
}

// A run that was read from its history, for people.

/** For programs. */
export function stuckJson({ failing, upTo, of, task, calls }: StuckRun): object {
  return { failing, readTo: upTo, of, ...(task === undefined ? {} : { task }), calls };
}

/** Why, and up to where it was read. */
export function stuckText({ runId, failing, upTo, of, task }: StuckRun, paint: Paint): string {
  const rest = task === undefined ? 'what came after is not done yet' : 'what came after could not be read';
  const next =
    task === undefined
      ? 'this build replays all of it: run it as a worker, and the run goes on'
      : `countersign recover ${visible(runId)}`;
  return `${paint('red', 'stuck')}  ${visible(runId)}: its workflow task fails since ${visible(failing.at)}\n${fields(
    paint,
    [
      ['because', said(failing.message)],
      ['read', `from history up to event ${upTo} of ${of}; ${rest}`],
      ['way out', next],
    ],
  )}`;
}

/** What waits, and what was sent last. */
export function openText({ answers, calls }: StuckRun, paint: Paint): string {
  const open = (answers.requests ?? []).filter(({ status }) => status === 'open');
  return fields(paint, [
    ...open.map((request) => ['asked', requestText(request)] as const),
    ...calls.map((call) => ['handed out', sentText(call)] as const),
  ]);
}

function requestText({ callId, server, tool, about }: ApprovalRequest): string {
  return `${named(callId)} ${toolText(server, tool)}${about === undefined ? '' : ` (${about.kind})`}`;
}
