/** A call that its server works on, in words: as a task, or while a worker waits for the answer. */
import type { CallProgress } from '../../client/index.ts';
import type { RunningTask } from '../../contracts/schemas/server-task.ts';
import { bounded, visible } from '../../domain/escape.ts';
import { shortInstant } from './duration.ts';
import { toolText } from './words.ts';

export function taskText({ callId, server, tool, since, next, until, message }: RunningTask): string {
  const said = message === undefined ? '' : `: ${bounded(visible(message), 300)}`;
  return `${visible(callId)} ${toolText(server, tool)} since ${shortInstant(since)}, asked again at ${shortInstant(next)}, given up at ${shortInstant(until)}${said}`;
}

export function progressText({ callId, sentAt, progress, total }: CallProgress): string {
  const most = total === undefined ? '' : ` of ${visible(String(total))}`;
  return `${visible(callId)} since ${shortInstant(sentAt)}, at ${visible(String(progress))}${most}`;
}
