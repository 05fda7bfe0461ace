/** `countersign keys new`: a key that signs, and what it may assert. */
import type { Command } from 'commander';
import { CountersignError } from '../../../contracts/errors.ts';
import { Name } from '../../../contracts/schemas/json.ts';
import { parseAs } from '../../../contracts/schemas/parse.ts';
import { Assertion } from '../../../contracts/schemas/trust.ts';
import { print } from '../../answer.ts';
import { examples } from '../../examples.ts';
import { type GlobalOptions, repeated } from '../../options.ts';
import type { Terminal } from '../../terminal.ts';
import { makeKey, readTrustFile, TRUST_FILE, writeTrustFile } from '../../trust-file.ts';

interface NewKeyOptions extends GlobalOptions {
  readonly trust: string;
  readonly private?: string;
  readonly person?: string;
  readonly service?: string;
  readonly group?: readonly string[];
  readonly tenant?: readonly string[];
  readonly speaksForMany?: true;
}

export function addNewKey(keys: Command, terminal: Terminal): void {
  keys
    .command('new')
    .summary('make a key that signs')
    .description(
      'Make an Ed25519 key: the private half into a file of its own, the public half and what it may assert into the trusted keys',
    )
    .argument('<kid>', 'key id')
    .option('--trust <file>', 'the trusted keys of the workers (trust.jwks)', TRUST_FILE)
    .option('--private <file>', 'the private key; never overwritten (default: KID.jwk)')
    .option('--person <issuer|subject>', 'the one approver for whom it speaks')
    .option('--service <issuer>', 'it speaks for everybody of this issuer')
    .option('--group <name>', 'a group that it may claim; may be given several times', repeated)
    .option('--tenant <name>', 'where it counts; may be given several times (default: default)', repeated)
    .option('--speaks-for-many', 'of a service: several people may agree to one request through it')
    .addHelpText(
      'after',
      examples(
        "keys new ann-2026 --person 'acme|ann' --group ops",
        'keys new backend-2026 --service acme --group ops --speaks-for-many',
      ),
    )
    .action(async (kid: string, _own: unknown, command: Command) => {
      const options = command.optsWithGlobals<NewKeyOptions>();
      const id = parseAs(Name, kid, 'USAGE', 'key id');
      const trusted = await readTrustFile(terminal, options.trust, 'new');
      if (trusted.some((key) => key.kid === id))
        throw new CountersignError(
          'USAGE',
          `Key ${id} is in ${options.trust} already. Choose another id, or: countersign keys rotate ${id}`,
        );
      const countersign = assertionOf(options);
      const file = options.private ?? `${id}.jwk`;
      const jwk = await makeKey(terminal, { kid: id, file, countersign });
      await writeTrustFile(terminal, options.trust, [...trusted, jwk]);
      print(
        terminal,
        {
          json: { key: jwk, private: file, trust: options.trust },
          text: (paint) =>
            `${paint('green', 'made')}  ${paint('bold', id)}: private key in ${file}, public key in ${options.trust}\n${paint('dim', `  countersign approve RUN CALL --as 'ISSUER|SUBJECT' --key ${file}`)}`,
        },
        options.json === true,
      );
    });
}

function assertionOf({ person, service, group = [], tenant = ['default'], speaksForMany }: NewKeyOptions): Assertion {
  if ((person === undefined) === (service === undefined))
    throw new CountersignError('USAGE', 'A key is one of --person or of --service, and not of both.');
  const [iss = '', ...rest] = (person ?? service ?? '').split('|');
  const own =
    person === undefined
      ? { kind: 'service', iss: service, ...(speaksForMany === true ? { speaksForMany } : {}) }
      : { kind: 'person', iss, sub: rest.join('|'), ...(speaksForMany === true ? { speaksForMany } : {}) };
  return parseAs(Assertion, { ...own, groups: group, tenants: tenant }, 'USAGE', 'key');
}
