/** `countersign vault rekey`: encrypts with the first key what another one still protects, so that the other can go. */
import type { Command } from 'commander';
import { CountersignError } from '../../../contracts/errors.ts';
import { print } from '../../answer.ts';
import { examples } from '../../examples.ts';
import type { GlobalOptions } from '../../options.ts';
import type { Terminal } from '../../terminal.ts';
import { openVaultSettings, type VaultSettings } from '../../vault-settings.ts';

/** Each time somebody has written in between. */
const MOST_TRIES = 20;

export function addRekey(vault: Command, terminal: Terminal): void {
  vault
    .command('rekey')
    .summary('encrypt all entries with the first key')
    .description(
      'Encrypt every entry with the first of vault.keys that another key still protects; after that the others can be removed',
    )
    .addHelpText('after', examples('vault rekey'))
    .action(async (_own: unknown, command: Command) => {
      const options = command.optsWithGlobals<GlobalOptions>();
      const { vault: opened, keyId } = await openVaultSettings(terminal, options);
      if (keyId === undefined)
        throw new CountersignError('VAULT_READ_ONLY', 'The vault of the configuration encrypts nothing itself.');
      const rekeyed: string[] = [];
      for (const entry of await opened.list()) {
        if (entry.keyId === keyId) continue;
        await rewrite(opened, entry.ref);
        rekeyed.push(entry.ref);
      }
      print(
        terminal,
        {
          json: { keyId, rekeyed },
          text: (paint) => `${paint('green', 'rekeyed')}  ${rekeyed.length} entries are now encrypted with ${keyId}`,
        },
        options.json === true,
      );
    });
}

/** Whoever wrote in between has encrypted with a key of theirs: looked at again. */
async function rewrite(vault: VaultSettings['vault'], ref: string): Promise<void> {
  for (let tries = 0; tries < MOST_TRIES; tries += 1) {
    const held = await vault.read(ref);
    if (held === undefined || (await vault.write(ref, held.entry, held.version)) !== undefined) return;
  }
  throw new CountersignError(
    'VAULT_CONFLICT',
    `The entry ${ref} is changed all the time. Run countersign vault rekey again when it rests.`,
  );
}
