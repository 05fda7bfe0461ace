/** `countersign show`: where a run is; of one that is stuck, what its history says of it. */
import type { Command } from 'commander';
import { print } from '../answer.ts';
import { examples } from '../examples.ts';
import type { GlobalOptions } from '../options.ts';
import { withSession } from '../session.ts';
import { toldOrRead } from '../stuck-run.ts';
import type { Paint, Terminal } from '../terminal.ts';
import { stateText } from '../views/run.ts';
import { openText, stuckJson, stuckText } from '../views/stuck.ts';

export function addShow(program: Command, terminal: Terminal): void {
  program
    .command('show')
    .summary('where a run is')
    .description('Where a run is: status, what waits, what stands, tokens, spend, limits, ledger head')
    .argument('<run>', 'run id')
    .addHelpText('after', examples('show nightly-42', 'show nightly-42 --json'))
    .action(async (runId: string, _own: unknown, command: Command) => {
      const options = command.optsWithGlobals<GlobalOptions>();
      const { told, stuck } = await withSession(terminal, options, async (session) =>
        toldOrRead(session, runId, async () => await session.countersign.run(runId).state()),
      );
      if (stuck === undefined)
        return print(
          terminal,
          { json: told, text: (paint) => stateText(told, Date.now(), paint) },
          options.json === true,
        );
      const { state } = stuck.answers;
      const text = (paint: Paint): string =>
        [
          stuckText(stuck, paint),
          ...(state === undefined ? [] : [stateText(state, Date.now(), paint)]),
          openText(stuck, paint),
        ]
          .filter((part) => part !== '')
          .join('\n');
      print(terminal, { json: { ...state, stuck: stuckJson(stuck) }, text }, options.json === true);
    });
}
