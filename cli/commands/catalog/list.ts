/** `countersign catalog list`: the catalogs of a tenant, or the tools of one. */
import type { Command } from 'commander';
import { print } from '../../answer.ts';
import { addTenant, type CatalogOptions } from '../../catalog-options.ts';
import { readCatalog, snapshotIfAny } from '../../catalog-reading.ts';
import { examples } from '../../examples.ts';
import { withSession } from '../../session.ts';
import type { Terminal } from '../../terminal.ts';
import { catalogsAnswer, toolsAnswer } from '../../views/catalog.ts';

export function addList(catalog: Command, terminal: Terminal): void {
  addTenant(catalog.command('list'))
    .summary('the catalogs of a tenant, or the tools of one')
    .description('The catalogs of a tenant; with a server its tools, what is set of each, and what happens to a call')
    .argument('[server]', 'name of the server')
    .addHelpText('after', examples('catalog list', 'catalog list files', 'catalog list files --tenant acme --json'))
    .action(async (server: string | undefined, _own: unknown, command: Command) => {
      const options = command.optsWithGlobals<CatalogOptions>();
      const answer = await withSession(terminal, options, async ({ countersign, settings }) => {
        if (server !== undefined)
          return toolsAnswer(await readCatalog(countersign.catalog(server, options.tenant), settings));
        const listed = await countersign.catalogs({ tenant: options.tenant });
        const snapshots = await Promise.all(
          listed.map((each) => snapshotIfAny(countersign.catalog(each.server, each.tenant))),
        );
        return catalogsAnswer(
          options.tenant,
          snapshots.filter((snapshot) => snapshot !== undefined),
        );
      });
      print(terminal, answer, options.json === true);
    });
}
