/** `countersign catalog show`: one catalog, or one tool with all that its server says of it. */
import type { Command } from 'commander';
import type { CatalogHandle } from '../../../client/index.ts';
import { type Answer, print } from '../../answer.ts';
import { addTenant, type CatalogOptions } from '../../catalog-options.ts';
import { entryNamed, readCatalog } from '../../catalog-reading.ts';
import { examples } from '../../examples.ts';
import { type Session, withSession } from '../../session.ts';
import { nothingOf, toldOrRead } from '../../stuck-run.ts';
import type { Terminal } from '../../terminal.ts';
import { toolAnswer } from '../../views/catalog-tool.ts';
import { catalogAnswer } from '../../views/catalog.ts';
import { stuckJson, stuckText } from '../../views/stuck.ts';

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
      const answer = await withSession(terminal, options, async (session) => {
        const { countersign, settings } = session;
        const handle = countersign.catalog(server, options.tenant);
        if (tool === undefined) return await wholeAnswer(session, handle);
        const reading = await readCatalog(handle, settings, { withDefinitions: true });
        return toolAnswer(reading, entryNamed(reading.snapshot, tool));
      });
      print(terminal, answer, options.json === true);
    });
}

/** Of one that is stuck, what its history says of it. */
async function wholeAnswer(session: Session, handle: CatalogHandle): Promise<Answer> {
  const { told, stuck } = await toldOrRead(session, handle.workflowId, () => handle.snapshot());
  if (stuck === undefined) return catalogAnswer(told, Date.now());
  const { snapshot } = stuck.answers;
  if (snapshot === undefined) throw nothingOf(stuck, 'the catalog');
  const { text } = catalogAnswer(snapshot, Date.now());
  return {
    json: { ...snapshot, stuck: stuckJson(stuck) },
    text: (paint) => `${stuckText(stuck, paint)}\n${text(paint)}`,
  };
}
