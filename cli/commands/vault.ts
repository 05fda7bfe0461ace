/** `countersign vault`: the secrets that outlive a call, and who may use them where. */
import type { Command } from 'commander';
import { examples } from '../examples.ts';
import type { Terminal } from '../terminal.ts';
import { addListVault } from './vault/list.ts';
import { addPut } from './vault/put.ts';
import { addRekey } from './vault/rekey.ts';
import { addRemove } from './vault/remove.ts';

export function addVault(program: Command, terminal: Terminal): void {
  const vault = program
    .command('vault')
    .summary('refresh tokens and other secrets that outlive a call')
    .description(
      'What the vault of the configuration holds for runs whose grants name it (grants: [{server, ref}]): never shown, bound to a tenant, to initiators and to one server',
    )
    .addHelpText('after', examples('vault list', 'vault remove ann-tickets'));
  for (const addVerb of [addPut, addListVault, addRemove, addRekey]) addVerb(vault, terminal);
}
