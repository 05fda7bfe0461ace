/** `countersign keys revoke`: a key that counts for nothing any more, also for what it has signed. */
import type { Command } from 'commander';
import { print } from '../../answer.ts';
import { examples } from '../../examples.ts';
import type { GlobalOptions } from '../../options.ts';
import type { Terminal } from '../../terminal.ts';
import { keyIn, readTrustFile, TRUST_FILE, writeTrustFile } from '../../trust-file.ts';

export function addRevokeKey(keys: Command, terminal: Terminal): void {
  keys
    .command('revoke')
    .summary('trust a key no longer')
    .description(
      'Take a key out of the trusted ones: nothing that it has signed counts any more. Approvals that wait are asked again; runs that it started call nothing',
    )
    .argument('<kid>', 'key id')
    .option('--trust <file>', 'the trusted keys of the workers (trust.jwks)', TRUST_FILE)
    .addHelpText('after', examples('keys revoke ann-2026'))
    .action(async (kid: string, _own: unknown, command: Command) => {
      const { trust, json } = command.optsWithGlobals<GlobalOptions & { readonly trust: string }>();
      const trusted = await readTrustFile(terminal, trust);
      const gone = keyIn(trusted, kid, trust);
      await writeTrustFile(
        terminal,
        trust,
        trusted.filter((key) => key !== gone),
      );
      print(
        terminal,
        {
          json: { revoked: kid, trust },
          text: (paint) => `${paint('red', 'revoked')}  ${paint('bold', kid)}: it counts for nothing any more`,
        },
        json === true,
      );
    });
}
