/** A run that was read from its history, for people. */
import { CountersignError } from '../../contracts/errors.ts';
import type { ApprovalRequest } from '../../contracts/schemas/request.ts';
import { named, visible } from '../../domain/escape.ts';
import type { StuckRun } from '../stuck-run.ts';
import type { Paint } from '../terminal.ts';
import { fields } from './fields.ts';
import { sentText } from './recovery.ts';
import { said, toolText } from './words.ts';

/** For programs. */
export function stuckJson({ failing, upTo, of, task, calls }: StuckRun): object {
  return { failing, readTo: upTo, of, ...(task === undefined ? {} : { task }), calls };
}

/** Why, and up to where it was read. */
export function stuckText(stuck: StuckRun, paint: Paint): string {
  const { runId, failing, upTo, of, task } = stuck;
  const rest = task === undefined ? 'what came after is not done yet' : 'what came after could not be read';
  return `${paint('red', 'stuck')}  ${visible(runId)}: its workflow task fails since ${visible(failing.at)}\n${fields(
    paint,
    [
      ['because', said(failing.message)],
      ['read', `from history up to event ${upTo} of ${of}; ${rest}`],
      ['way out', wayOut(stuck)],
    ],
  )}`;
}

function wayOut({ runId, task }: StuckRun): string {
  return task === undefined
    ? 'this build replays all of it: run it as a worker, and the run goes on'
    : `countersign recover ${visible(runId)}`;
}

/** The end of whoever follows a run that is stuck. @param cursor number of the first entry that was not told */
export function stuckError(stuck: StuckRun, cursor: number): CountersignError {
  const { runId, failing, upTo, of } = stuck;
  const message = `Run ${runId} is stuck since ${failing.at}: ${failing.message.replace(/\.+$/, '')}. What stands above was read from its history up to event ${upTo} of ${of}. The way out: ${wayOut(stuck)}. Then watch it again from entry ${cursor} on.`;
  return new CountersignError('RUN_STUCK', message, { runId, cursor, readTo: upTo, of });
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
