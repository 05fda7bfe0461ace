/** `countersign setup`: makes a namespace ready for runs. */
import type { Command } from 'commander';
import { CountersignError } from '../../contracts/errors.ts';
import type { SetupReport } from '../../workers/setup.ts';
import { setUpNamespace } from '../../workers/setup.ts';
import { print } from '../answer.ts';
import { examples } from '../examples.ts';
import type { GlobalOptions } from '../options.ts';
import { withSession } from '../session.ts';
import type { Terminal } from '../terminal.ts';

/** gRPC status (grpc/grpc statuscodes.md). */
const NOT_FOUND = 5;

export function addSetup(program: Command, terminal: Terminal): void {
  program
    .command('setup')
    .summary('register the search attributes that runs need')
    .description('Register the search attributes that runs need; a second time changes nothing')
    .addHelpText('after', examples('setup', 'setup --address temporal.example:7233 --namespace agents'))
    .action(async (_own: unknown, command: Command) => {
      const options = command.optsWithGlobals<GlobalOptions>();
      const report = await withSession(terminal, options, async ({ client }) => {
        const { namespace } = client.options;
        await client.connection.workflowService.describeNamespace({ namespace }).catch((error: unknown) => {
          if (typeof error !== 'object' || error === null || !('code' in error) || error.code !== NOT_FOUND)
            throw error;
          const message = `There is no namespace ${namespace}. Create it (temporal operator namespace create --namespace ${namespace}), or name another with --namespace.`;
          throw new CountersignError('SETUP_INCOMPLETE', message, {}, { cause: error });
        });
        return await setUpNamespace(client.connection, namespace);
      });
      print(terminal, { json: report, text: () => setupText(report) }, options.json === true);
    });
}

function setupText({ namespace, added, present }: SetupReport): string {
  if (added.length === 0) return `Namespace ${namespace} is ready; all ${present.length} search attributes were there.`;
  return `Namespace ${namespace} is ready; added ${added.join(', ')}.`;
}
