/** `countersign catalog allow`: the catalog asks for nothing more of a tool, as it was read. */
import type { Command } from 'commander';
import { print } from '../../answer.ts';
import { changeTools } from '../../catalog-change.ts';
import { type ActingOptions, addActor, addTenant, hashPrefix } from '../../catalog-options.ts';
import { examples } from '../../examples.ts';
import { withSession } from '../../session.ts';
import type { Terminal } from '../../terminal.ts';

interface AllowOptions extends ActingOptions {
  readonly hash?: readonly string[];
}

export function addAllow(catalog: Command, terminal: Terminal): void {
  addActor(addTenant(catalog.command('allow')))
    .summary('ask for no countersignature, and deny nothing')
    .description(
      "Ask for no countersignature here and take notice of the definition; the organisation's policy and the run's still count",
    )
    .argument('<server>', 'name of the server')
    .argument('<tools...>', 'as the server spells them')
    .option(
      '--hash <sha256>',
      'of a definition that has changed: the hash, or 8 characters of it, that `diff` shows; may be given several times',
      hashPrefix,
    )
    .addHelpText(
      'after',
      examples(
        'catalog allow files read_file list_directory --as ann',
        'catalog allow files read_file --as ann --hash 5c1d09aa',
      ),
    )
    .action(async (server: string, tools: readonly string[], _own: unknown, command: Command) => {
      const options = command.optsWithGlobals<AllowOptions>();
      const wanted = {
        server,
        tools,
        hashes: options.hash ?? [],
        change: { requiresApproval: false, denied: false },
        acknowledge: 'always',
      } as const;
      const answer = await withSession(terminal, options, (session) => changeTools(session, options, wanted));
      print(terminal, answer, options.json === true);
    });
}
