/**
 * Implements `countersign recover`, the way out for a run that no worker can replay.
 *
 * 1. The command shows what it would do, and does it only with --yes.
 * 2. It resets to the last workflow task up to which this build replays the history. If this build replays all of the
 *    history, there is nothing to recover.
 * 3. The run is left alone if the fault seems to be this build's, since another build is likely to go on with it.
 *    --anyway overrides that.
 */
import { catalogOf } from '../../client/catalog/list.ts';
import { livingHistory } from '../../client/run/recovery.ts';
import { failingTask } from '../../client/engine/executions.ts';
import { defined } from '../../contracts/defined.ts';
import { CountersignError } from '../../contracts/errors.ts';
import { lastWord, shellWord } from '../../domain/text/shell-word.ts';
import * as option from '../session/options.ts';
import { inTime, type Session } from '../session/session.ts';
import { readingOptions } from '../session/stuck-run.ts';
import { verb } from '../session/verb.ts';
import { type Recovering, recoveryText } from '../views/recovery.ts';

const OPTIONS = {
  yes: option.flag('reset the run; without it, the command only shows what would be undone'),
  anyway: option.flag('reset even if another build may be able to go on with the run'),
  reason: option.text('<text>', 'kept by Temporal (default: countersign recover)'),
} satisfies option.OptionRows;

export const RECOVER = verb({
  name: 'recover',
  summary: 'reset a run that no worker can replay',
  description:
    'Reset a stuck run to the last workflow task that can be replayed. Without --yes, only show what would be undone and asked again. A call that may run only once is not sent again by itself',
  args: { run: option.one('run id, or catalog/<tenant>/<server>') },
  options: OPTIONS,
  examples: ['recover nightly-42', 'recover nightly-42 --yes'],
  run: async ({ args: { run: runId }, options, session }) => {
    const json = await session((opened) => recovered(opened, runId, options));
    const isRefused = options.yes === true && json.kind === 'refused';
    return {
      json,
      text: (paint) => recoveryText(json, Date.now(), paint),
      ...(isRefused && { fault: new CountersignError('REPLAY_FAILED', `${json.why} Nothing was done.`, { runId }) }),
    };
  },
});

function ended(runId: string): CountersignError {
  const catalog = catalogOf(runId);
  if (catalog === undefined)
    return new CountersignError('RUN_CLOSED', `Run ${runId} has ended; there is nothing to recover.`, { runId });
  const { tenant, server } = catalog;
  const at = `${server} --tenant ${shellWord(tenant)}`;
  const message = `The catalog of ${server} has ended; there is nothing to recover. What can be read of it: countersign catalog show ${at}, and countersign ledger ${lastWord(runId)}. Connect the server anew (countersign catalog connect ${at} --as ID --anew), and make again what was set, denials first.`;
  return new CountersignError('RUN_CLOSED', message, { runId });
}

async function recovered(
  session: Session,
  runId: string,
  { yes, anyway, reason }: option.Values<typeof OPTIONS>,
): Promise<Recovering> {
  const { client, countersign, settings } = session;
  const living = await inTime(session, async () => await livingHistory(client, runId, catalogOf(runId)));
  const { history, runId: execution, isOpen } = living;
  if (!isOpen) throw ended(runId);
  const replaying = await readingOptions(settings, client.options.namespace);
  const { answersOf, soundnessOf } = await import('../../workers/replay/replayed-run.ts');
  const { diagnosisOf } = await import('../../workers/replay/diagnosis.ts');
  const soundness = await soundnessOf(runId, history, replaying);
  const failing = failingTask(history);
  if (soundness.kind === 'whole') return { kind: 'sound', runId, ...(failing && { failing }) };
  const { task } = soundness;
  const diagnosis = await diagnosisOf(runId, history, soundness, replaying);
  const { answers } = await answersOf(runId, { history, runId: execution, task }, replaying);
  const to = { task, execution, ...defined({ reason }) };
  const plan = await countersign.run(runId).recover({ ...to, dry: true });
  const shown = {
    ...plan,
    diagnosis,
    ...(failing && { failing }),
    ...(answers.state && { state: answers.state }),
  };
  if (diagnosis.cause === 'build' && anyway !== true)
    return {
      kind: 'refused',
      ...shown,
      why: `Another build than this one (${diagnosis.writtenBy ?? 'unnamed'}) can go on with the run, as far as can be told: run that one. Where it fails as well, --anyway resets all the same.`,
    };
  if (yes !== true) return { kind: 'shown', ...shown };
  const { became = '' } = await countersign.run(runId).recover(to);
  return { kind: 'done', ...shown, became };
}
