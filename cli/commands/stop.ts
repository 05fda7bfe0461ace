/** `countersign stop`: ends a run without failing it. */
import type { Command } from 'commander';
import { visible } from '../../domain/escape.ts';
import { print } from '../answer.ts';
import { examples } from '../examples.ts';
import { type GlobalOptions, repeated } from '../options.ts';
import { withSession } from '../session.ts';
import type { Terminal } from '../terminal.ts';

interface StopOptions extends GlobalOptions {
  readonly as: string;
  readonly reason: string;
  readonly group?: readonly string[];
  readonly cancelCalls?: true;
}

export function addStop(program: Command, terminal: Terminal): void {
  program
    .command('stop')
    .summary('end a run')
    .description('End a run: what waits is withdrawn, calls in flight finish unless they are cancelled')
    .argument('<run>', 'run id')
    .requiredOption('--as <id>', 'who stops it')
    .requiredOption('--reason <text>', 'kept in the ledger')
    .option(
      '--group <name>',
      'a group that a signing key claims; may be given several times (default: those of a personal key)',
      repeated,
    )
    .option('--cancel-calls', 'cancel calls in flight too')
    .addHelpText('after', examples('stop nightly-42 --as ann --reason "started by mistake"'))
    .action(async (runId: string, _own: unknown, command: Command) => {
      const options = command.optsWithGlobals<StopOptions>();
      const stop = {
        by: options.as,
        reason: options.reason,
        inFlight: options.cancelCalls === true ? 'cancel' : 'finish',
      } as const;
      const { status } = await withSession(terminal, { ...options, claims: options.group }, ({ countersign }) =>
        countersign.run(runId).stop(stop),
      );
      print(
        terminal,
        {
          json: { runId, stopping: true, status },
          text: (paint) =>
            `Run ${paint('bold', visible(runId))} is stopping. See: countersign result ${visible(runId)}`,
        },
        options.json === true,
      );
    });
}
