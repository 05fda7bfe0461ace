/** `countersign catalog deny`, `enable` and `disable`: one switch each. */
import type { Command } from 'commander';
import { print } from '../../answer.ts';
import { changeTools } from '../../catalog-change.ts';
import { type ActingOptions, addActor, addTenant } from '../../catalog-options.ts';
import { examples } from '../../examples.ts';
import { withSession } from '../../session.ts';
import type { Terminal } from '../../terminal.ts';

interface SwitchOptions extends ActingOptions {
  readonly all?: true;
}

const SWITCHES = [
  {
    verb: 'deny',
    summary: 'refuse every call',
    description: 'Refuse every call of these tools; agents still see them, and are told',
    change: { denied: true },
    takesAll: true,
  },
  {
    verb: 'enable',
    summary: 'let agents see a tool again',
    description: 'Let agents see these tools again; what is set of their calls stays',
    change: { enabled: true },
    takesAll: false,
  },
  {
    verb: 'disable',
    summary: 'take a tool away from agents',
    description: 'Take these tools away: agents do not see them, and no call of them is made',
    change: { enabled: false },
    takesAll: true,
  },
] as const;

export function addSwitches(catalog: Command, terminal: Terminal): void {
  for (const { verb, summary, description, change, takesAll } of SWITCHES) {
    const command = addActor(addTenant(catalog.command(verb)))
      .summary(summary)
      .description(description)
      .argument('<server>', 'name of the server')
      // All at once is only what takes away.
      .argument(takesAll ? '[tools...]' : '<tools...>', 'as the server spells them')
      .addHelpText(
        'after',
        examples(
          `catalog ${verb} files write_file --as ann`,
          ...(takesAll ? [`catalog ${verb} files --all --as ann`] : []),
        ),
      )
      .action(async (server: string, tools: readonly string[], _own: unknown, itself: Command) => {
        const options = itself.optsWithGlobals<SwitchOptions>();
        const wanted = { server, tools, all: options.all === true, change };
        const answer = await withSession(terminal, options, (session) => changeTools(session, options, wanted));
        print(terminal, answer, options.json === true);
      });
    if (takesAll) command.option('--all', 'all tools of the catalog');
  }
}
