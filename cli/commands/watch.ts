/**
 * `countersign watch`: the ledger as it grows.
 *
 * 1. A pause of the workers does not end it; whoever watches is told once that it waits, and why.
 * 2. A run that is stuck from the start is told as far as its history can be read, and then that it is stuck.
 */
import type { Command } from 'commander';
import type { CallProgress, LedgerEntry } from '../../client/index.ts';
import type { RunningTask } from '../../contracts/schemas/server-task.ts';
import { print } from '../answer.ts';
import { examples } from '../examples.ts';
import { type GlobalOptions, wholeNumber } from '../options.ts';
import { withSession } from '../session.ts';
import { ledgerOfStuck, toldOrRead } from '../stuck-run.ts';
import type { Terminal } from '../terminal.ts';
import { entryText } from '../views/ledger.ts';
import { stuckError } from '../views/stuck.ts';
import { pauseTeller, retryTeller } from '../wait.ts';
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
        onRetry: retryTeller(terminal, options),
      };
      // Of no entry: JSON has one in each line.
      const onTasks = (news: readonly RunningTask[]): void =>
        news.forEach((task) => terminal.err(`working: ${taskText(task)}\n`));
      const onProgress = (news: readonly CallProgress[]): void =>
        news.forEach((call) => terminal.err(`working: ${progressText(call)}\n`));
      const heard = options.json === true ? watchOptions : { ...watchOptions, onTasks, onProgress };
      let next = watchOptions.cursor;
      const tell = (entry: LedgerEntry): void => {
        print(terminal, { json: entry, text: (paint) => entryText(entry, paint) }, options.json === true);
        next = entry.seq + 1;
      };
      await withSession(terminal, options, async (session) => {
        const { stuck } = await toldOrRead(session, runId, async () => {
          for await (const entry of session.countersign.run(runId).watch(heard)) tell(entry);
        });
        if (stuck === undefined) return;
        for (const entry of await ledgerOfStuck(session, stuck)) if (entry.seq >= next) tell(entry);
        throw stuckError(stuck, next);
      });
    });
}
