/** `countersign catalog diff`: what a server has changed since an operator looked at its tools. */
import type { Command } from 'commander';
import { hasDrifted } from '../../../domain/catalog.ts';
import { print } from '../../answer.ts';
import { addTenant, type CatalogOptions } from '../../catalog-options.ts';
import { entryNamed } from '../../catalog-reading.ts';
import { definitionDiff } from '../../../domain/definition-diff.ts';
import { examples } from '../../examples.ts';
import { withSession } from '../../session.ts';
import type { Terminal } from '../../terminal.ts';
import { diffAnswer } from '../../views/catalog-tool.ts';

export function addDiff(catalog: Command, terminal: Terminal): void {
  addTenant(catalog.command('diff'))
    .summary('what a server has changed since somebody looked')
    .description(
      'Definitions that have changed since an operator acknowledged them, field by field, and how to accept them',
    )
    .argument('<server>', 'name of the server')
    .argument('[tool]', 'as the server spells it')
    .addHelpText('after', examples('catalog diff files', 'catalog diff files read_file --json'))
    .action(async (server: string, tool: string | undefined, _own: unknown, command: Command) => {
      const options = command.optsWithGlobals<CatalogOptions>();
      const answer = await withSession(terminal, options, async ({ countersign }) => {
        const handle = countersign.catalog(server, options.tenant);
        const snapshot = await handle.snapshot();
        const entries = tool === undefined ? snapshot.entries.filter(hasDrifted) : [entryNamed(snapshot, tool)];
        const known = await handle.definitions({ ...snapshot, entries });
        const diffs = entries.flatMap((entry) => {
          const { current, acknowledged } = known.get(entry.name) ?? {};
          return current === undefined ? [] : [{ entry, differences: definitionDiff(acknowledged, current) }];
        });
        return diffAnswer(snapshot, diffs);
      });
      print(terminal, answer, options.json === true);
    });
}
