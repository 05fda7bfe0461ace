/** Implements `countersign replay`, which checks that the current workflow code replays recorded or live histories. */
import { resolve } from 'node:path';
import { listExecutions, sentenceOf } from '../../client/engine/executions.ts';
import { defined } from '../../contracts/defined.ts';
import { CountersignError } from '../../contracts/errors.ts';
import { CATALOG_WORKFLOW, DIGEST_WORKFLOW, RUN_WORKFLOW, TICKET_WORKFLOW } from '../../contracts/names.ts';
import { visible } from '../../domain/text/escape.ts';
import type { Diagnosis } from '../../workers/replay/diagnosis.ts';
import type { History, Recorded } from '../../workers/replay/recorded-history.ts';
import type { ReplayOptions as Replaying, ReplayOutcome } from '../../workers/replay/replay.ts';
import { causesOf, type Diagnosed, diagnosedOf, MOST_DIAGNOSED, replayFailureText } from '../session/broken-ledger.ts';
import * as option from '../session/options.ts';
import { type ClientSettings, loadClientSettings, locate, withSession } from '../session/session.ts';
import { readingOptions } from '../session/stuck-run.ts';
import type { Paint, Terminal } from '../session/terminal.ts';
import { type Answer, print, verb } from '../session/verb.ts';

const RECORDED = 'test/replay/histories';

const OPTIONS = {
  live: option.flag('replay the histories of a live namespace instead of files'),
  query: option.text(
    '<filter>',
    'with --live: only executions that match this visibility query (default: all running)',
  ),
  diagnoseAll: option.flag(`diagnose every history that fails (default: the first ${MOST_DIAGNOSED})`),
} satisfies option.OptionRows;

type ReplayOptions = option.Values<typeof OPTIONS> & option.GlobalOptions;

export const REPLAY = verb({
  name: 'replay',
  summary: 'check that recorded histories replay with this code',
  description:
    'Replay recorded histories, or those of a live namespace, with the current workflow code, and ask the runs that wait what every build must refuse; exit code 7 if one diverges',
  args: { paths: option.any(`files, or folders of *.json (default: ${RECORDED} of a clone)`) },
  options: OPTIONS,
  examples: [
    'replay',
    'replay run.json',
    'replay --live',
    `replay --live --query "ExecutionStatus = 'Completed' AND CountersignTenant = 'acme'"`,
  ],
  note: 'Histories are files of `temporal workflow show -o json`. Digests cover the namespace: name it with --namespace where it was not `default`.',
  run: async ({ args: { paths }, options, terminal }) => {
    const read = options.live === true ? replayLive : replayFiles;
    const outcomes = await read(paths, options, terminal);
    const answer = reportOf(outcomes);
    print(terminal, answer, options.json === true);
    if (options.json !== true && outcomes.length > 0)
      terminal.err(
        'What workers of trust mode signed wrote was taken as it is marked: no key of the zone is here to check it.\n',
      );
    if (answer.fault !== undefined) throw answer.fault;
    return undefined;
  },
});

async function replayFiles(paths: readonly string[], options: ReplayOptions, terminal: Terminal): Promise<Diagnosed[]> {
  if (options.query !== undefined) throw option.usage('--query goes with --live.');
  const { historyFiles, recordedHistories } = await import('../../workers/replay/recorded-history.ts');
  const chosen = paths.length > 0 ? paths : [RECORDED];
  const files = await historyFiles(chosen.map((path) => resolve(terminal.directory, path)));
  const settings = await loadClientSettings(options.config, terminal);
  return await replay(recordedHistories(files), locate(options).namespace, settings, options, terminal);
}

async function replayLive(paths: readonly string[], options: ReplayOptions, terminal: Terminal): Promise<Diagnosed[]> {
  if (paths.length > 0) throw option.usage('--live takes histories from the namespace; leave the paths out.');
  const { liveHistories } = await import('../../workers/replay/replay.ts');
  const filter = options.query ?? `ExecutionStatus = 'Running'`;
  return await withSession(terminal, options, async ({ client, settings, deadlineMs }) =>
    replay(
      liveHistories(client, listExecutions(client, liveQuery(filter)), deadlineMs),
      client.options.namespace,
      settings,
      options,
      terminal,
    ),
  );
}

/** Every type that a build takes on: tickets of calls wait for weeks, too, and are of no build (docs/adr/0083). */
export function liveQuery(filter: string): string {
  const types = [RUN_WORKFLOW, CATALOG_WORKFLOW, DIGEST_WORKFLOW, TICKET_WORKFLOW].map((type) => `'${type}'`);
  return `WorkflowType IN (${types.join(', ')}) AND (${filter})`;
}

async function replay(
  histories: AsyncIterable<Recorded>,
  namespace: string,
  settings: ClientSettings,
  options: ReplayOptions,
  terminal: Terminal,
): Promise<Diagnosed[]> {
  const { compareHistories } = await import('../../workers/replay/semantics.ts');
  const { withRefusals } = await import('../../workers/replay/refusals.ts');
  const replaying = await readingOptions(settings, namespace);
  const outcomes: Diagnosed[] = [];
  for await (const { history: _, ...outcome } of diagnosedOf(
    withRefusals(compareHistories(histories, replaying), replaying),
    async (failed) => await diagnosed(failed, replaying),
    options.diagnoseAll === true ? Number.POSITIVE_INFINITY : MOST_DIAGNOSED,
  )) {
    outcomes.push(outcome);
    if (options.json !== true) terminal.out(`${outcomeText(outcome, terminal.paint)}\n`);
  }
  return outcomes;
}

/** Returns why a history does not replay, if more can be told than its error. */
async function diagnosed(
  { workflowId, error, history }: ReplayOutcome,
  replaying: Replaying,
): Promise<Diagnosis | undefined> {
  if (history === undefined) return undefined;
  if (error instanceof CountersignError && error.facts['asked'] !== undefined) return answersOtherwise(history);
  const { soundnessOf } = await import('../../workers/replay/replayed-run.ts');
  const { diagnosisOf } = await import('../../workers/replay/diagnosis.ts');
  try {
    const soundness = await soundnessOf(workflowId, history, replaying);
    return soundness.kind === 'whole' ? undefined : await diagnosisOf(workflowId, history, soundness, replaying);
  } catch {
    return undefined;
  }
}

/** No query and nobody else can be the cause: the messages were made here. */
function answersOtherwise({ events }: History): Diagnosis {
  const done = events?.findLast(({ workflowTaskCompletedEventAttributes: completed }) => completed);
  const text =
    'This build is at fault: it replays the run, and answers a message otherwise than every build must. Do not deploy it over the run.';
  return { cause: 'build', certainty: 'shown', text, task: Number(done?.eventId ?? 0) };
}

function outcomeText({ name, error, diagnosis, notLookedAt }: Diagnosed, paint: Paint): string {
  if (error === undefined) return `${paint('green', 'ok    ')}  ${visible(name)}`;
  // Only --json prints everything that the native part of the replayer says.
  const why = [
    sentenceOf(error.message),
    ...(diagnosis === undefined ? [] : [diagnosis.text]),
    ...(notLookedAt === true ? ['Why was not looked at, since others failed before; --diagnose-all does.'] : []),
  ];
  return [`${paint('red', 'FAILED')}  ${visible(name)}`, ...why.map((each) => `        ${visible(each)}`)].join('\n');
}

function reportOf(outcomes: readonly Diagnosed[]): Answer {
  const failed = outcomes.filter(({ error }) => error !== undefined).length;
  const replayed = outcomes.length;
  const results = outcomes.map(({ name, workflowId, error, diagnosis, isUnread, notLookedAt }) => ({
    name,
    workflowId,
    ok: error === undefined,
    ...defined({ error: error?.message, diagnosis, isUnread, notLookedAt }),
  }));
  const causes = causesOf(outcomes);
  return {
    json: { replayed, failed, zoneChecked: false, ...defined({ causes: failed > 0 ? causes : undefined }), results },
    text: () =>
      replayed === 0 ? 'There was no history to replay.' : `${replayed - failed} of ${replayed} histories replay.`,
    fault:
      failed === 0
        ? undefined
        : new CountersignError('REPLAY_FAILED', replayFailureText(failed, replayed, causes), { failed, ...causes }),
  };
}
