/** `countersign keys`: a key pair for sealing tokens to the workers of one zone; below it, the keys that sign. */
import { createHash, generateKeyPairSync } from 'node:crypto';
import { resolve } from 'node:path';
import type { Command } from 'commander';
import { Name } from '../../contracts/schemas/json.ts';
import { parseAs } from '../../contracts/schemas/parse.ts';
import { SEALING } from '../../contracts/sealing.ts';
import { print } from '../answer.ts';
import { addListKeys } from './keys/list.ts';
import { addNewKey } from './keys/new.ts';
import { addRevokeKey } from './keys/revoke.ts';
import { addRotateKey } from './keys/rotate.ts';
import { addZoneKeys } from './keys/zone.ts';
import { examples } from '../examples.ts';
import type { GlobalOptions } from '../options.ts';
import { writeOnce } from '../private-file.ts';
import type { Terminal } from '../terminal.ts';

interface KeysOptions extends GlobalOptions {
  readonly out: string;
  readonly kid?: string;
}

export function addKeys(program: Command, terminal: Terminal): void {
  const keys = program
    .command('keys')
    .summary('make a key pair for sealing tokens; make, list, rotate and revoke keys that sign')
    .description(
      'Make a P-256 key pair: the private key into a file for the workers, the public key on standard output for clients. Keys that sign (trust mode signed) have the commands below',
    )
    .option('--out <file>', 'the private key; never overwritten', 'countersign.pem')
    .option('--kid <name>', 'key id (default: from the public key)')
    .addHelpText('after', examples('keys --out zone-a.pem --kid zone-a-2026 --json', 'keys > zone.jwk'))
    .action(async (_own: unknown, command: Command) => {
      const options = command.optsWithGlobals<KeysOptions>();
      const { privateKey, publicKey } = generateKeyPairSync('ec', { namedCurve: SEALING.curve });
      const { kty, crv, x, y } = publicKey.export({ format: 'jwk' });
      const kid = parseAs(
        Name,
        options.kid ?? `key-${createHash('sha256').update(`${x}.${y}`).digest('hex').slice(0, 12)}`,
        'USAGE',
        'key id',
      );
      const jwk = { kty, crv, x, y, kid, use: 'enc', alg: SEALING.alg };
      await writeOnce(
        resolve(terminal.directory, options.out),
        options.out,
        privateKey.export({ format: 'pem', type: 'pkcs8' }).toString(),
      );
      // The same document in both forms, so that `> zone.jwk` is what --sealing-key takes; hints go to standard error.
      print(terminal, { json: jwk, text: () => JSON.stringify(jwk, null, 2) }, options.json === true);
      if (options.json !== true) {
        terminal.err(
          `\nThe private key is in ${options.out}. In countersign.yaml of the workers:\n\n  grants:\n    keys:\n      - kid: ${kid}\n        privateKeyFile: ${options.out}\n\nClients seal with the public key above: countersign start … --sealing-key SERVER=FILE\n`,
        );
      }
    });
  for (const addVerb of [addNewKey, addListKeys, addRotateKey, addRevokeKey, addZoneKeys]) addVerb(keys, terminal);
}
