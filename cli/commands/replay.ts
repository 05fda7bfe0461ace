/** `countersign replay`: does the current workflow code still take the histories it must? */
import { resolve } from 'node:path';
import type { Client } from '@temporalio/client';
import type { Command } from 'commander';
import { listExecutions } from '../../client/executions.ts';
import { CountersignError } from '../../contracts/errors.ts';
import { CATALOG_WORKFLOW, RUN_WORKFLOW } from '../../contracts/names.ts';
import { visible } from '../../domain/escape.ts';
import type { Recorded } from '../../workers/recorded-history.ts';
import type { ReplayOutcome } from '../../workers/replay.ts';
import { print } from '../answer.ts';
import { examples } from '../examples.ts';
import type { GlobalOptions } from '../options.ts';
import { locate, withSession } from '../session.ts';
import { type ClientSettings, loadClientSettings } from '../settings.ts';
import type { Paint, Terminal } from '../terminal.ts';

interface ReplayOptions extends GlobalOptions {
  readonly live?: true;
  readonly query?: string;
}

const RECORDED = 'test/replay/histories';

export function addReplay(program: Command, terminal: Terminal): void {
  program
    .command('replay')
    .summary('do recorded histories replay with this code?')
    .description(
      'Replay recorded histories, or those of a live namespace, with the current workflow code; exit code 7 if one diverges',
    )
    .argument('[paths...]', `files, or folders of *.json (default: ${RECORDED})`)
    .option('--live', 'the histories of a live namespace instead')
    .option('--query <filter>', 'which of them, as a visibility query (default: all running)')
    .addHelpText(
      'after',
      `${examples('replay', 'replay run.json', 'replay --live', `replay --live --query "ExecutionStatus = 'Completed' AND CountersignTenant = 'acme'"`)}\n
Histories are files of \`temporal workflow show -o json\`. Digests cover the namespace: name it with --namespace where it was not \`default\`.`,
    )
    .action(async (paths: string[], _own: unknown, command: Command) => {
      const options = command.optsWithGlobals<ReplayOptions>();
      const outcomes =
        options.live === true
          ? await replayLive(paths, options, terminal)
          : await replayFiles(paths, options, terminal);
      report(outcomes, options, terminal);
    });
}

async function replayFiles(
  paths: readonly string[],
  options: ReplayOptions,
  terminal: Terminal,
): Promise<ReplayOutcome[]> {
  if (options.query !== undefined) throw new CountersignError('USAGE', '--query goes with --live.');
  const { historyFiles, recordedHistories } = await import('../../workers/recorded-history.ts');
  const chosen = paths.length > 0 ? paths : [RECORDED];
  const files = await historyFiles(chosen.map((path) => resolve(terminal.directory, path)));
  const settings = await loadClientSettings(options.config, terminal);
  return await replay(recordedHistories(files), locate(options).namespace, settings, options, terminal);
}

async function replayLive(
  paths: readonly string[],
  options: ReplayOptions,
  terminal: Terminal,
): Promise<ReplayOutcome[]> {
  if (paths.length > 0)
    throw new CountersignError('USAGE', '--live takes histories from the namespace; leave the paths out.');
  const { liveHistories } = await import('../../workers/replay.ts');
  const filter = options.query ?? `ExecutionStatus = 'Running'`;
  return await withSession(terminal, options, async ({ client, settings, deadlineMs }) =>
    replay(
      inTime(
        liveHistories(
          client,
          listExecutions(client, `WorkflowType IN ('${RUN_WORKFLOW}', '${CATALOG_WORKFLOW}') AND (${filter})`),
        ),
        client,
        deadlineMs,
      ),
      client.options.namespace,
      settings,
      options,
      terminal,
    ),
  );
}

/** Each history in its time: a namespace may hold thousands. */
async function* inTime(
  histories: AsyncGenerator<Recorded>,
  { connection }: Client,
  deadlineMs: number,
): AsyncGenerator<Recorded> {
  for (;;) {
    const next = await connection.withDeadline(Date.now() + deadlineMs, () => histories.next());
    if (next.done === true) return;
    yield next.value;
  }
}

async function replay(
  histories: AsyncIterable<Recorded>,
  namespace: string,
  settings: ClientSettings,
  options: ReplayOptions,
  terminal: Terminal,
): Promise<ReplayOutcome[]> {
  const [{ bundleForReplay, compareHistories }, { installSilentLog }] = await Promise.all([
    import('../../workers/replay-semantics.ts'),
    import('../runtime.ts'),
  ]);
  installSilentLog();
  const outcomes: ReplayOutcome[] = [];
  for await (const outcome of compareHistories(histories, {
    bundle: await bundleForReplay(),
    config: settings,
    namespace,
  })) {
    outcomes.push(outcome);
    if (options.json !== true) terminal.out(`${outcomeText(outcome, terminal.paint)}\n`);
  }
  return outcomes;
}

function outcomeText({ name, error }: ReplayOutcome, paint: Paint): string {
  if (error === undefined) return `${paint('green', 'ok    ')}  ${visible(name)}`;
  // The replayer wraps Temporal's sentence in what its native part prints of itself; --json has all of it.
  const [sentence] = /\[TMPRL\d+\][^"]*/.exec(error.message) ?? [error.message];
  return `${paint('red', 'FAILED')}  ${visible(name)}\n        ${visible(sentence)}`;
}

function report(outcomes: readonly ReplayOutcome[], options: ReplayOptions, terminal: Terminal): void {
  const failed = outcomes.filter(({ error }) => error !== undefined).length;
  const results = outcomes.map(({ name, workflowId, error }) => ({
    name,
    workflowId,
    ok: error === undefined,
    ...(error === undefined ? {} : { error: error.message }),
  }));
  print(
    terminal,
    {
      json: { replayed: outcomes.length, failed, zoneChecked: false, results },
      text: () =>
        outcomes.length === 0
          ? 'There was no history to replay.'
          : `${outcomes.length - failed} of ${outcomes.length} histories replay.`,
    },
    options.json === true,
  );
  if (options.json !== true && outcomes.length > 0)
    terminal.err(
      'What workers of trust mode signed wrote was taken as it is marked: no key of the zone is here to check it.\n',
    );
  if (failed > 0)
    throw new CountersignError(
      'REPLAY_FAILED',
      `${failed} of ${outcomes.length} histories do not replay with this code; it must not be deployed over them.`,
      { failed },
    );
}
