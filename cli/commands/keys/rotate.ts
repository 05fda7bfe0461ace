/** `countersign keys rotate`: a new key in the place of an old one, which nobody has lost. */
import type { Command } from 'commander';
import { CountersignError } from '../../../contracts/errors.ts';
import { Name } from '../../../contracts/schemas/json.ts';
import { parseAs } from '../../../contracts/schemas/parse.ts';
import { print } from '../../answer.ts';
import { examples } from '../../examples.ts';
import type { GlobalOptions } from '../../options.ts';
import type { Terminal } from '../../terminal.ts';
import { keyIn, makeKey, readTrustFile, TRUST_FILE, writeTrustFile } from '../../trust-file.ts';

interface RotateOptions extends GlobalOptions {
  readonly trust: string;
  readonly private?: string;
}

export function addRotateKey(keys: Command, terminal: Terminal): void {
  keys
    .command('rotate')
    .summary('replace a key that signs')
    .description(
      'Make a key that may assert the same. From now on the old one signs nothing; what it has signed before still counts, so that runs that wait go on',
    )
    .argument('<kid>', 'the key to replace')
    .argument('<new>', 'id of the new one')
    .option('--trust <file>', 'the trusted keys of the workers (trust.jwks)', TRUST_FILE)
    .option('--private <file>', 'the new private key; never overwritten (default: NEW.jwk)')
    .addHelpText('after', examples('keys rotate backend-2026 backend-2027'))
    .action(async (kid: string, next: string, _own: unknown, command: Command) => {
      const options = command.optsWithGlobals<RotateOptions>();
      const id = parseAs(Name, next, 'USAGE', 'key id');
      const trusted = await readTrustFile(terminal, options.trust);
      const old = keyIn(trusted, kid, options.trust);
      if (trusted.some((key) => key.kid === id))
        throw new CountersignError('USAGE', `Key ${id} is in ${options.trust} already. Choose another id.`);
      if (old.countersign.retired !== undefined)
        throw new CountersignError(
          'USAGE',
          `Key ${kid} was replaced at ${old.countersign.retired}. Rotate the one that replaced it.`,
        );
      // One voice, with however many keys.
      const countersign = { ...old.countersign, holder: old.countersign.holder ?? kid };
      const file = options.private ?? `${id}.jwk`;
      const jwk = await makeKey(terminal, { kid: id, file, countersign });
      const retired = new Date().toISOString();
      const replaced = trusted.map((key) =>
        key.kid === kid ? { ...key, countersign: { ...countersign, retired } } : key,
      );
      await writeTrustFile(terminal, options.trust, [...replaced, jwk]);
      print(
        terminal,
        {
          json: { key: jwk, replaced: kid, retired, private: file, trust: options.trust },
          text: (paint) =>
            `${paint('green', 'replaced')}  ${kid} by ${paint('bold', id)}: private key in ${file}\n${paint('dim', `  when nothing waits any more that ${kid} has signed: countersign keys revoke ${kid}`)}`,
        },
        options.json === true,
      );
    });
}
