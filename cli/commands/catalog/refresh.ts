/** `countersign catalog refresh`: lists the tools of a server anew, and says what has changed. */
import type { Command } from 'commander';
import { print } from '../../answer.ts';
import { type ActingOptions, addActor, addTenant, sendAs } from '../../catalog-options.ts';
import { awaitRefresh } from '../../catalog-refresh.ts';
import { examples } from '../../examples.ts';
import { withSession } from '../../session.ts';
import type { Terminal } from '../../terminal.ts';
import { refreshAnswer } from '../../views/catalog-refresh.ts';

export function addRefresh(catalog: Command, terminal: Terminal): void {
  addActor(addTenant(catalog.command('refresh')), { versioned: false })
    .summary('list the tools of a server anew')
    .description(
      'List the tools of a server anew, wait for it, and say what has changed; one that fails changes nothing',
    )
    .argument('<server>', 'name of the server')
    .addHelpText('after', examples('catalog refresh files --as ann', 'catalog refresh files --as ann --deadline 300'))
    .action(async (server: string, _own: unknown, command: Command) => {
      const options = command.optsWithGlobals<ActingOptions>();
      const refreshed = await withSession(terminal, options, async ({ countersign }) => {
        const handle = countersign.catalog(server, options.tenant);
        const before = await handle.snapshot();
        const ack = await sendAs(options, undefined, (ids) => handle.refresh(ids));
        return await awaitRefresh(handle, ack.refresh ?? 0, before, options.deadline);
      });
      print(terminal, refreshAnswer(refreshed), options.json === true);
    });
}
