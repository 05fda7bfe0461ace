/** `countersign catalog show`: one catalog, or one tool with all that its server says of it. */
import type { Command } from 'commander';
import { print } from '../../answer.ts';
import { addTenant, type CatalogOptions } from '../../catalog-options.ts';
import { entryNamed, readCatalog } from '../../catalog-reading.ts';
import { examples } from '../../examples.ts';
import { withSession } from '../../session.ts';
import type { Terminal } from '../../terminal.ts';
import { toolAnswer } from '../../views/catalog-tool.ts';
import { catalogAnswer } from '../../views/catalog.ts';

export function addShow(catalog: Command, terminal: Terminal): void {
  addTenant(catalog.command('show'))
    .summary('one catalog, or one tool in full')
    .description(
      'How a server is connected and what waits for a second administrator; with a tool, its whole definition',
    )
    .argument('<server>', 'name of the server')
    .argument('[tool]', 'as the server spells it')
    .addHelpText('after', examples('catalog show files', 'catalog show files write_file'))
    .action(async (server: string, tool: string | undefined, _own: unknown, command: Command) => {
      const options = command.optsWithGlobals<CatalogOptions>();
      const answer = await withSession(terminal, options, async ({ countersign, settings }) => {
        const handle = countersign.catalog(server, options.tenant);
        if (tool === undefined) return catalogAnswer(await handle.snapshot(), Date.now());
        const reading = await readCatalog(handle, settings, { withDefinitions: true });
        return toolAnswer(reading, entryNamed(reading.snapshot, tool));
      });
      print(terminal, answer, options.json === true);
    });
}
