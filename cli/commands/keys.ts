/** `countersign keys`: a key pair for sealing tokens to the workers of one zone. */
import { createHash, generateKeyPairSync } from 'node:crypto';
import { open } from 'node:fs/promises';
import { resolve } from 'node:path';
import type { Command } from 'commander';
import { CountersignError } from '../../contracts/errors.ts';
import { Name } from '../../contracts/schemas/json.ts';
import { parseAs } from '../../contracts/schemas/parse.ts';
import { SEALING } from '../../contracts/sealing.ts';
import { print } from '../answer.ts';
import { examples } from '../examples.ts';
import type { GlobalOptions } from '../options.ts';
import type { Terminal } from '../terminal.ts';

interface KeysOptions extends GlobalOptions {
  readonly out: string;
  readonly kid?: string;
}

/** Its owner alone may read it. */
const PRIVATE = 0o600;

export function addKeys(program: Command, terminal: Terminal): void {
  program
    .command('keys')
    .summary('make a key pair for sealing tokens')
    .description(
      'Make a P-256 key pair: the private key into a file for the workers, the public key on standard output for clients',
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
}

async function writeOnce(path: string, shown: string, text: string): Promise<void> {
  try {
    const file = await open(path, 'wx', PRIVATE);
    try {
      await file.writeFile(text);
      await file.sync();
    } finally {
      await file.close();
    }
  } catch (error) {
    // Not by instanceof: errors of Node's core may come from another realm.
    const code = typeof error === 'object' && error !== null && 'code' in error ? String(error.code) : 'error';
    const reason =
      code === 'EEXIST'
        ? 'is there already, and a private key is never overwritten; name another with --out'
        : `cannot be written (${code})`;
    throw new CountersignError('USAGE', `The file ${shown} ${reason}.`, {}, { cause: error });
  }
}
