/** `countersign keys list`: who is believed, and of what. */
import type { Command } from 'commander';
import type { TrustedJwk } from '../../../contracts/schemas/trust.ts';
import { print } from '../../answer.ts';
import { examples } from '../../examples.ts';
import type { GlobalOptions } from '../../options.ts';
import type { Paint, Terminal } from '../../terminal.ts';
import { readTrustFile, TRUST_FILE } from '../../trust-file.ts';

export function addListKeys(keys: Command, terminal: Terminal): void {
  keys
    .command('list')
    .summary('the keys that are trusted')
    .description('List the trusted keys, and what each of them may assert')
    .option('--trust <file>', 'the trusted keys of the workers (trust.jwks)', TRUST_FILE)
    .addHelpText('after', examples('keys list', 'keys list --trust /etc/countersign/trust.jwks --json'))
    .action(async (_own: unknown, command: Command) => {
      const { trust, json } = command.optsWithGlobals<GlobalOptions & { readonly trust: string }>();
      const trusted = await readTrustFile(terminal, trust);
      const text = (paint: Paint): string =>
        trusted.length === 0 ? `No key is trusted (${trust}).` : trusted.map((key) => lineOf(key, paint)).join('\n');
      print(terminal, { json: { keys: trusted }, text }, json === true);
    });
}

function lineOf({ kid, countersign }: TrustedJwk, paint: Paint): string {
  const { iss, groups, tenants, holder, retired } = countersign;
  const who = countersign.kind === 'person' ? `${iss}|${countersign.sub}` : `anybody of ${iss}`;
  const many = countersign.kind === 'service' && countersign.speaksForMany === true ? ', speaks for many' : '';
  return [
    `${paint('bold', kid)}  ${who}${many}`,
    `groups ${groups.join(' ') || 'none'}`,
    `tenants ${tenants.join(' ')}`,
    ...(holder === undefined ? [] : [`of ${holder}`]),
    ...(retired === undefined ? [] : [paint('yellow', `replaced ${retired}`)]),
  ].join('  ');
}
