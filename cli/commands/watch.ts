/**
 * `countersign watch`: the ledger as it grows.
 *
 * 1. A pause of the workers does not end it; people are told once that it waits, and why.
 */
import type { Command } from 'commander';
import type { CallProgress, Retry } from '../../client/index.ts';
import type { RunningTask } from '../../contracts/schemas/server-task.ts';
import { print } from '../answer.ts';
import { examples } from '../examples.ts';
import { type GlobalOptions, wholeNumber } from '../options.ts';
import { withSession } from '../session.ts';
import type { Terminal } from '../terminal.ts';
import { entryText } from '../views/ledger.ts';
import { pauseTeller } from '../wait.ts';
import { retryText } from '../views/retry.ts';
import { progressText, taskText } from '../views/task.ts';

interface WatchOptions extends GlobalOptions {
  readonly from?: number;
}

export function addWatch(program: Command, terminal: Terminal): void {
  program
    .command('watch')
    .summary('the events of a run as they happen')
    .description(
      'The events of a run as they happen, until it ends; with --deadline no longer than that, with --json one entry per line',
    )
    .argument('<run>', 'run id')
    .option('--from <number>', 'number of the first entry wanted (default: 0)', wholeNumber)
    .addHelpText(
      'after',
      examples('watch nightly-42', 'watch nightly-42 --from 17 --json', 'watch nightly-42 --deadline 60'),
    )
    .action(async (runId: string, _own: unknown, command: Command) => {
      const options = command.optsWithGlobals<WatchOptions>();
      const watchOptions = {
        cursor: options.from ?? 0,
        signal: terminal.interrupted(),
        ...(options.deadline === undefined ? {} : { deadlineMs: options.deadline * 1_000 }),
        onPause: pauseTeller(terminal, options),
      };
      // Of no entry: JSON has one in each line.
      const onTasks = (news: readonly RunningTask[]): void =>
        news.forEach((task) => terminal.err(`working: ${taskText(task)}\n`));
      const onProgress = (news: readonly CallProgress[]): void =>
        news.forEach((call) => terminal.err(`working: ${progressText(call)}\n`));
      const onRetry = (news: readonly Retry[]): void =>
        news.forEach((retry) => terminal.err(`waiting: ${retryText(retry)}\n`));
      const told = options.json === true ? watchOptions : { ...watchOptions, onTasks, onProgress, onRetry };
      await withSession(terminal, options, async ({ countersign }) => {
        for await (const entry of countersign.run(runId).watch(told)) {
          print(terminal, { json: entry, text: (paint) => entryText(entry, paint) }, options.json === true);
        }
      });
    });
}
