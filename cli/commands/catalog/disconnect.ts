/** `countersign catalog disconnect`: no run may use the server any more. */
import type { Command } from 'commander';
import { visible } from '../../../domain/escape.ts';
import { print } from '../../answer.ts';
import { type ActingOptions, addActor, addTenant, sendAs } from '../../catalog-options.ts';
import { examples } from '../../examples.ts';
import { withSession } from '../../session.ts';
import type { Terminal } from '../../terminal.ts';

export function addDisconnect(catalog: Command, terminal: Terminal): void {
  addActor(addTenant(catalog.command('disconnect')))
    .summary('no run may use the server any more')
    .description('Offer no tool of the server any more; what is set of its tools is kept, and comes back with connect')
    .argument('<server>', 'name of the server')
    .addHelpText('after', examples('catalog disconnect files --as ann'))
    .action(async (server: string, _own: unknown, command: Command) => {
      const options = command.optsWithGlobals<ActingOptions>();
      const { tenant } = options;
      const ack = await withSession(terminal, options, async ({ countersign }) => {
        const handle = countersign.catalog(server, tenant);
        const expectedVersion = options.expectedVersion ?? (await handle.snapshot()).policyVersion;
        return await sendAs(options, expectedVersion, (ids) => handle.disconnect({ ...ids, expectedVersion }));
      });
      print(
        terminal,
        {
          json: { tenant, server, ...ack },
          text: (paint) =>
            `${paint('red', 'disconnected')}  ${paint('bold', visible(server))}, version ${ack.policyVersion}`,
        },
        options.json === true,
      );
    });
}
