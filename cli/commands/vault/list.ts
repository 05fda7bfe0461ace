/** `countersign vault list`: what is there, and for whom; never the secret. */
import type { Command } from 'commander';
import { print } from '../../answer.ts';
import { examples } from '../../examples.ts';
import type { GlobalOptions } from '../../options.ts';
import type { Terminal } from '../../terminal.ts';
import { openVaultSettings, type VaultSettings } from '../../vault-settings.ts';
import { table } from '../../views/fields.ts';

type Listed = Awaited<ReturnType<VaultSettings['vault']['list']>>[number];

export function addListVault(vault: Command, terminal: Terminal): void {
  vault
    .command('list')
    .summary('what the vault holds, and for whom')
    .description('The entries of the vault: kind, server, whose runs may use them, and whether they are still good')
    .addHelpText('after', examples('vault list', 'vault list --json'))
    .action(async (_own: unknown, command: Command) => {
      const options = command.optsWithGlobals<GlobalOptions>();
      const { vault: opened } = await openVaultSettings(terminal, options);
      const listed = await opened.list();
      const now = Date.now();
      const entries = listed.map((entry) => ({ ...entry, state: stateOf(entry, now) }));
      const head = ['REF', 'KIND', 'STATE', 'SERVER', 'TENANT', 'INITIATORS', 'KEY'];
      const rows = entries.map(({ ref, kind, state, bound, keyId }) => [
        ref,
        kind,
        state,
        bound.server,
        bound.tenant,
        bound.initiators.join(' '),
        keyId ?? '',
      ]);
      print(
        terminal,
        {
          json: { entries },
          text: (paint) => (entries.length === 0 ? 'The vault is empty.' : table(paint, [head, ...rows])),
        },
        options.json === true,
      );
    });
}

/** `lost`: used, and what it was exchanged for was not kept. */
function stateOf(
  { refusedAt, renewal, expiresAt }: Listed,
  now: number,
): 'good' | 'in use' | 'lost' | 'refused' | 'expired' {
  if (refusedAt !== undefined) return 'refused';
  if (renewal !== undefined) return Date.parse(renewal.until) <= now ? 'lost' : 'in use';
  return expiresAt !== undefined && Date.parse(expiresAt) <= now ? 'expired' : 'good';
}
