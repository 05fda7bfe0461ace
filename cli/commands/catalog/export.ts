/** `countersign catalog export`: what is set of a server's tools, as a file for review. */
import type { Command } from 'commander';
import { print } from '../../answer.ts';
import { catalogFile, catalogYaml } from '../../catalog-file.ts';
import { addTenant, type CatalogOptions } from '../../catalog-options.ts';
import { examples } from '../../examples.ts';
import { withSession } from '../../session.ts';
import type { Terminal } from '../../terminal.ts';

export function addExport(catalog: Command, terminal: Terminal): void {
  addTenant(catalog.command('export'))
    .summary("what is set of a server's tools, as a file for review")
    .description(
      'Write what is set of each tool as YAML, the same catalog always in the same words; `import` reads it back',
    )
    .argument('<server>', 'name of the server')
    .addHelpText('after', examples('catalog export files > files.catalog.yaml', 'catalog export files --json'))
    .action(async (server: string, _own: unknown, command: Command) => {
      const options = command.optsWithGlobals<CatalogOptions>();
      const snapshot = await withSession(terminal, options, ({ countersign }) =>
        countersign.catalog(server, options.tenant).snapshot(),
      );
      const file = catalogFile(snapshot);
      print(terminal, { json: file, text: () => catalogYaml(file) }, options.json === true);
    });
}
