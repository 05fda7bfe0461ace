/** The recorded histories, and what lies beside each. */
import { readFile } from 'node:fs/promises';
import { join } from 'node:path';
import { fileURLToPath } from 'node:url';
import { DefaultLogger, Runtime } from '@temporalio/worker';
import type { RecordedInputs } from './recording/recording.ts';
import { CORPUS_ENCRYPTION, CORPUS_TRUST } from './recording/stage.ts';
import { type History, readHistory, type Recorded } from '../../workers/replay/recorded-history.ts';

// Replay workers say when they start and stop; only errors are wanted.
Runtime.install({
  logger: new DefaultLogger('ERROR'),
  telemetryOptions: { logging: { filter: { core: 'ERROR', other: 'ERROR' } } },
});

/** Another folder may be named to try a recording before it is kept. */
export const FOLDER = process.env['COUNTERSIGN_HISTORIES'] ?? fileURLToPath(new URL('./histories', import.meta.url));

/** What the histories were recorded with. */
export const CONFIG = { encryption: CORPUS_ENCRYPTION, trust: CORPUS_TRUST };

/** Every history that there must be. A name leaves this list only by an ADR that retires its version. */
export const HISTORIES = [
  'agent-run.v1.bad-spec',
  'agent-run.v1.cancelled',
  'agent-run.v1.completed',
  'agent-run.v1.continued-first',
  'agent-run.v1.continued-resent',
  'agent-run.v1.continued-second',
  'agent-run.v1.decided-not-dispatched',
  'agent-run.v1.encrypted',
  'agent-run.v1.expired',
  'agent-run.v1.limited',
  'agent-run.v1.mid-call',
  'agent-run.v1.one-decided',
  'agent-run.v1.out-of-time',
  'agent-run.v1.pending',
  'agent-run.v1.rejected',
  'agent-run.v1.reopened',
  'agent-run.v1.repaired',
  'agent-run.v1.reset-continued',
  'agent-run.v1.reset-continued-decided',
  'agent-run.v1.reset-decided',
  'agent-run.v1.reset-waiting',
  'agent-run.v1.say-queued',
  'agent-run.v1.say-read',
  'agent-run.v1.sent-again',
  'agent-run.v1.signalled',
  'agent-run.v1.signalled-stale',
  'agent-run.v1.stopped',
  'agent-run.v1.stopped-in-flight',
  'agent-run.v1.stopping',
  // Of the first release too, recorded once it was seen that nothing stood for it (docs/adr/0021).
  'agent-run.v1.two-lists',
  'agent-run.v1.two-pending',
  'agent-run.v1.unknown',
  // Recorded again with what docs/adr/0019 changed.
  'agent-run.v2.answered',
  'agent-run.v2.completed',
  'agent-run.v2.counted',
  'agent-run.v2.counted-sent',
  'agent-run.v2.continued-first',
  'agent-run.v2.continued-resent',
  'agent-run.v2.continued-second',
  'agent-run.v2.duplicate',
  'agent-run.v2.edit-judged',
  'agent-run.v2.edited-of-two',
  'agent-run.v2.edited-sent',
  'agent-run.v2.edited-waits',
  'agent-run.v2.escalated',
  'agent-run.v2.escalated-continued',
  'agent-run.v2.escalated-sent',
  'agent-run.v2.extended',
  'agent-run.v2.extended-sent',
  'agent-run.v2.forgotten',
  // A worker stopped, or lost, in the middle of a call whose answer may be had (docs/adr/0039).
  'agent-run.v2.handed-on',
  // Calls that wait for their server, of runs that have a priority (docs/adr/0037).
  'agent-run.v2.held',
  'agent-run.v2.held-first',
  'agent-run.v2.held-second',
  'agent-run.v2.held-sent',
  'agent-run.v2.lapsed',
  'agent-run.v2.interrupt-read',
  'agent-run.v2.interrupted',
  'agent-run.v2.linked-continued',
  'agent-run.v2.linked-continued-first',
  'agent-run.v2.linked-read',
  // As an earlier build goes on with it: what this one denies it sends, and the dispatch refuses it.
  'agent-run.v2.linked-undenied',
  'agent-run.v2.lost',
  'agent-run.v2.lost-answered',
  'agent-run.v2.lost-continued',
  'agent-run.v2.lost-continued-first',
  'agent-run.v2.lost-ended',
  'agent-run.v2.lost-sent-again',
  // By an earlier build, while workers were replaced: it ends what this one asks about.
  'agent-run.v2.lost-unasked',
  'agent-run.v2.mid-call',
  'agent-run.v2.one-of-two',
  'agent-run.v2.one-of-two-lists',
  // Questions of a server that waits on an open connection (docs/adr/0040).
  'agent-run.v2.open-question',
  'agent-run.v2.open-question-answered',
  'agent-run.v2.open-question-ended',
  'agent-run.v2.open-question-expired',
  'agent-run.v2.open-question-lost',
  'agent-run.v2.open-question-second',
  'agent-run.v2.open-question-third',
  'agent-run.v2.open-question-too-late',
  'agent-run.v2.redefined',
  'agent-run.v2.repeated',
  'agent-run.v2.reminded',
  'agent-run.v2.resumed-in-vain',
  'agent-run.v2.resuming',
  'agent-run.v2.resuming-stopped',
  'agent-run.v2.say-queued',
  'agent-run.v2.say-read',
  'agent-run.v2.server-asks',
  'agent-run.v2.server-asks-again',
  'agent-run.v2.server-asks-continued',
  'agent-run.v2.server-asks-continued-first',
  'agent-run.v2.server-asks-ended',
  'agent-run.v2.shared',
  'agent-run.v2.shared-sent',
  // Of mode `signed`, recorded anew with proofs of what workers write (docs/adr/0047).
  'agent-run.v2.signed',
  'agent-run.v2.signed-sent',
  'agent-run.v2.spent',
  'agent-run.v2.standing',
  'agent-run.v2.stopped-in-flight',
  'agent-run.v2.taken-back',
  'agent-run.v2.task',
  'agent-run.v2.task-continued',
  'agent-run.v2.task-continued-first',
  'agent-run.v2.task-ended',
  'agent-run.v2.task-finishing',
  // As an earlier build goes on with it: it ends what this one waits for.
  'agent-run.v2.task-not-waited',
  'agent-run.v2.task-stopped',
  'agent-run.v2.task-stopped-rolling',
  'agent-run.v2.two-of-two',
  'agent-run.v2.unlisted',
  'agent-run.v2.unlisted-ended',
  'agent-run.v2.unauthorized',
  'agent-run.v2.unauthorized-ended',
  'agent-run.v2.unauthorized-granted',
  'agent-run.v2.unconsented',
  'agent-run.v2.unconsented-counted',
  'agent-run.v2.unconsented-ended',
  // What could not be read stays unread, though replays have the key that its worker had not (docs/adr/0046).
  'agent-run.v2.unread',
  // A tool server that is away when the run starts (docs/adr/0050).
  'agent-run.v3.away',
  'agent-run.v3.away-continued',
  'agent-run.v3.away-ended',
  'agent-run.v3.away-first',
  'agent-run.v3.away-stopped',
  'agent-run.v3.continued-first',
  'agent-run.v3.continued-resent',
  'agent-run.v3.continued-second',
  // Answered by somebody without a key of the zone (docs/adr/0047): listed again, and a call whose outcome nobody knows.
  'agent-run.v3.unproven-listed',
  'agent-run.v3.unproven-sent',
  // Handed to Temporal, and stopped before a worker took it.
  'agent-run.v3.withdrawn',
  // Stopped, cancelled and interrupted while an activity is under way, or in the task that schedules it (docs/adr/0044).
  'agent-run.v3.all-at-once-ended',
  'agent-run.v3.all-at-once-first',
  'agent-run.v3.cancelled-at-start',
  'agent-run.v3.edit-stopped-at-once',
  'agent-run.v3.judging-cancelled',
  'agent-run.v3.judging-cancelled-ended',
  'agent-run.v3.judging-interrupted',
  'agent-run.v3.judging-interrupted-ended',
  'agent-run.v3.judging-stopped',
  'agent-run.v3.judging-stopped-ended',
  'agent-run.v3.reset-stopped',
  'agent-run.v3.rolling-cancelled',
  'agent-run.v3.rolling-cancelled-ended',
  'agent-run.v3.rolling-interrupted',
  'agent-run.v3.rolling-interrupted-ended',
  'agent-run.v3.rolling-interrupted-first',
  'agent-run.v3.rolling-stopped',
  'agent-run.v3.rolling-stopped-ended',
  'agent-run.v3.thinking-cancelled',
  'agent-run.v3.thinking-cancelled-ended',
  'agent-run.v3.thinking-interrupted',
  'agent-run.v3.thinking-interrupted-ended',
  'agent-run.v3.thinking-stopped',
  'agent-run.v3.thinking-stopped-ended',
  // Stopped, cancelled and interrupted before the first activity is over, in which a run may go on (docs/adr/0062).
  'agent-run.v4.preparing-cancelled',
  'agent-run.v4.preparing-interrupted',
  'agent-run.v4.preparing-interrupted-ended',
  'agent-run.v4.preparing-stopped',
  'agent-run.v4.preparing-stopped-ended',
  // Runs that go on in stretches (docs/adr/0058), and in their first activity (docs/adr/0062).
  'agent-run.v4.begun',
  'agent-run.v4.begun-interrupted',
  'agent-run.v4.begun-interrupted-held',
  'agent-run.v4.begun-lost',
  'agent-run.v4.begun-lost-early',
  'agent-run.v4.begun-lost-sent-again',
  'agent-run.v4.begun-stopped',
  'agent-run.v4.begun-stopped-held',
  'agent-run.v4.stretch-cancelled',
  'agent-run.v4.stretch-interrupted',
  'agent-run.v4.stretch-interrupted-held',
  'agent-run.v4.stretch-lost',
  'agent-run.v4.stretch-lost-early',
  'agent-run.v4.stretch-lost-sent-again',
  'agent-run.v4.stretch-stopped',
  'agent-run.v4.stretch-stopped-held',
  'agent-run.v4.stretch-stopped-in-flight',
  'agent-run.v4.stretch-unbegun',
  'agent-run.v4.stretch-unbegun-interrupted',
  'agent-run.v4.stretched',
  'agent-run.v4.stretched-asking',
  'agent-run.v4.stretched-continued',
  'agent-run.v4.stretched-continued-first',
  // Runs that tell people of their requests (docs/adr/0070).
  'agent-run.v5.told',
  'agent-run.v5.told-closed',
  'agent-run.v5.told-continued-first',
  'agent-run.v5.told-continued-second',
  'agent-run.v5.told-continued-sent',
  'agent-run.v5.told-escalated',
  'agent-run.v5.told-expired',
  'agent-run.v5.told-expiring',
  'agent-run.v5.told-gathered',
  'agent-run.v5.told-gathered-sent',
  'agent-run.v5.told-refused',
  'agent-run.v5.told-refused-ended',
  'agent-run.v5.told-reminded',
  // Calls that the model's provider makes (docs/adr/0080).
  'agent-run.v5.hosted-lost',
  'agent-run.v5.hosted-pending',
  // Approved calls that wait for their client, and tickets of calls that MCP clients make (docs/adr/0078).
  'agent-run.v5.client-away',
  'agent-run.v5.client-away-first',
  'agent-run.v5.client-back',
  'call-ticket.v1.delivered',
  'call-ticket.v1.held',
  'tool-catalog.v2.asked',
  'tool-catalog.v2.connected',
  'tool-catalog.v2.continued-first',
  'tool-catalog.v2.continued-second',
  'tool-catalog.v2.disconnected',
  'tool-catalog.v2.drifted',
  'tool-catalog.v2.failed',
  'tool-catalog.v2.new',
  'tool-catalog.v2.signed',
  'tool-catalog.v2.signed-continued',
  'tool-catalog.v2.signed-continued-first',
] as const;

/** One is encrypted and no `.json`, so that `countersign replay` without its key does not stumble over it. */
export function fileOf(name: string): string {
  return `${name}.${name.endsWith('.encrypted') ? 'sealed' : 'json'}`;
}

export async function* recorded(names: readonly string[] = HISTORIES): AsyncGenerator<Recorded> {
  for (const name of names) yield { ...(await readHistory(join(FOLDER, fileOf(name)))), name };
}

export async function historyOf(name: string): Promise<History> {
  const read = await readHistory(join(FOLDER, fileOf(name)));
  if (read.kind === 'unreadable') throw read.error;
  return read.history;
}

export async function inputsOf(name: string): Promise<RecordedInputs> {
  // Sound: the recorder wrote it in this shape.
  return JSON.parse(await readFile(join(FOLDER, `${name}.inputs.json`), 'utf8')) as RecordedInputs;
}
