/** A run that was read from its history, for people. */
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
