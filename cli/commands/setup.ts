/** `countersign setup`: makes a namespace ready for runs. */
import type { Command } from 'commander';
import type { SetupReport } from '../../workers/setup.ts';
import { setUpNamespace } from '../../workers/setup.ts';
import { print } from '../answer.ts';
import { examples } from '../examples.ts';
import type { GlobalOptions } from '../options.ts';
import { withSession } from '../session.ts';
import type { Terminal } from '../terminal.ts';

export function addSetup(program: Command, terminal: Terminal): void {
  program
    .command('setup')
    .summary('register the search attributes that runs need')
    .description('Register the search attributes that runs need; a second time changes nothing')
    .addHelpText('after', examples('setup', 'setup --address temporal.example:7233 --namespace agents'))
    .action(async (_own: unknown, command: Command) => {
      const options = command.optsWithGlobals<GlobalOptions>();
      const report = await withSession(terminal, options, ({ client, deadlineMs }) =>
        client.connection.withDeadline(Date.now() + deadlineMs, () =>
          setUpNamespace(client.connection, client.options.namespace),
        ),
      );
      print(terminal, { json: report, text: () => setupText(report) }, options.json === true);
    });
}

function setupText({ namespace, added, present }: SetupReport): string {
  if (added.length === 0) return `Namespace ${namespace} is ready; all ${present.length} search attributes were there.`;
  return `Namespace ${namespace} is ready; added ${added.join(', ')}.`;
}
