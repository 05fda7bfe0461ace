/** `countersign vault remove`: runs that name the entry have no grant any more. */
import type { Command } from 'commander';
import { CountersignError } from '../../../contracts/errors.ts';
import { print } from '../../answer.ts';
import { examples } from '../../examples.ts';
import type { GlobalOptions } from '../../options.ts';
import type { Terminal } from '../../terminal.ts';
import { openVaultSettings } from '../../vault-settings.ts';

export function addRemove(vault: Command, terminal: Terminal): void {
  vault
    .command('remove')
    .summary('take a secret out of the vault')
    .description('Take an entry out of the vault. It is not revoked at its issuer')
    .argument('<ref>', 'the reference')
    .addHelpText('after', examples('vault remove ann-tickets'))
    .action(async (ref: string, _own: unknown, command: Command) => {
      const options = command.optsWithGlobals<GlobalOptions>();
      const { vault: opened } = await openVaultSettings(terminal, options);
      const held = await opened.read(ref);
      if (held === undefined)
        throw new CountersignError(
          'VAULT_ENTRY_UNKNOWN',
          `Nothing stands in the vault under ${ref}. See: countersign vault list`,
        );
      if (!(await opened.remove(ref, held.version)))
        throw new CountersignError(
          'VAULT_CONFLICT',
          `The entry ${ref} was changed in this moment. Look at it (countersign vault list), and remove it again.`,
        );
      print(
        terminal,
        { json: { removed: ref }, text: (paint) => `${paint('red', 'removed')}  ${paint('bold', ref)}` },
        options.json === true,
      );
    });
}
