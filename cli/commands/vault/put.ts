/** `countersign vault put`: a secret from a file or standard input, never from the command line. */
import { readFile } from 'node:fs/promises';
import { resolve } from 'node:path';
import { type Command, Option } from 'commander';
import { CountersignError } from '../../../contracts/errors.ts';
import { Identifier } from '../../../contracts/schemas/json.ts';
import { parseAs } from '../../../contracts/schemas/parse.ts';
import { VaultEntry } from '../../../contracts/schemas/vault.ts';
import { canonicalServerUrl } from '../../../domain/server-url.ts';
import { print } from '../../answer.ts';
import { examples } from '../../examples.ts';
import { type GlobalOptions, repeated, time } from '../../options.ts';
import type { Terminal } from '../../terminal.ts';
import { openVaultSettings } from '../../vault-settings.ts';

interface PutOptions extends GlobalOptions {
  readonly kind: 'refresh-token' | 'token';
  readonly server: string;
  readonly initiator: readonly string[];
  readonly tenant: string;
  readonly issuer?: string;
  readonly from: string;
  readonly expires?: string;
  readonly replace?: true;
}

export function addPut(vault: Command, terminal: Terminal): void {
  vault
    .command('put')
    .summary('put a secret into the vault')
    .description('Put a refresh token, or a token that lives long, under a reference that grants of runs name')
    .argument('<ref>', 'the reference')
    .addOption(
      new Option('--kind <kind>', 'what the secret is').choices(['refresh-token', 'token']).makeOptionMandatory(),
    )
    .requiredOption('--server <name|url>', 'the one server for which it may be used')
    .requiredOption('--initiator <id>', 'whose runs may use it; may be given several times', repeated)
    .option('--tenant <name>', 'of those runs', 'default')
    .option('--issuer <url>', 'of a refresh token: the authorization server that gave it')
    .option('--from <file>', 'a file that holds the secret, or - for standard input', '-')
    .addOption(new Option('--expires <time>', 'when the grant ends, where it is known').argParser(time))
    .option('--replace', 'in the place of the one that stands there')
    .addHelpText(
      'after',
      examples(
        'vault put ann-tickets --kind refresh-token --issuer https://login.example.com --server tickets --initiator ann --from token.txt',
        'vault put bot-files --kind token --server files --initiator nightly < token.txt',
      ),
    )
    .action(async (name: string, _own: unknown, command: Command) => {
      const options = command.optsWithGlobals<PutOptions>();
      const ref = parseAs(Identifier, name, 'USAGE', 'reference');
      const { vault: opened, serverUrls } = await openVaultSettings(terminal, options);
      const entry = entryOf(options, await secretFrom(options.from, terminal), serverUrls);
      const before = await opened.read(ref);
      if (before !== undefined && options.replace !== true)
        throw new CountersignError(
          'VAULT_CONFLICT',
          `Something stands under ${ref} already. Look at it with countersign vault list; to put this in its place, add --replace.`,
        );
      if ((await opened.write(ref, entry, before?.version)) === undefined)
        throw new CountersignError(
          'VAULT_CONFLICT',
          `The entry ${ref} was changed in this moment. Look at it (countersign vault list), and put it again.`,
        );
      const { secret, ...shown } = entry;
      print(
        terminal,
        {
          json: { ref, kind: secret.kind, ...shown },
          text: (paint) =>
            `${paint('green', 'put')}  ${paint('bold', ref)}: ${secret.kind} for ${entry.bound.server}, for runs of ${entry.bound.initiators.join(', ')} (tenant ${entry.bound.tenant})\n${paint('dim', `  in run specs: grants: [{ server: …, ref: ${ref} }]`)}`,
        },
        options.json === true,
      );
    });
}

function entryOf(options: PutOptions, token: string, serverUrls: Readonly<Record<string, string>>): VaultEntry {
  const { kind, issuer, tenant, initiator, expires } = options;
  if ((kind === 'refresh-token') !== (issuer !== undefined))
    throw new CountersignError(
      'USAGE',
      'A refresh token goes to its issuer alone: --issuer belongs to --kind refresh-token, and to nothing else.',
    );
  const url = Object.hasOwn(serverUrls, options.server) ? serverUrls[options.server] : options.server;
  if (url === undefined || !URL.canParse(url))
    throw new CountersignError(
      'SERVER_UNKNOWN',
      `--server ${options.server}: the configuration has no server of this name, and it is no URL.`,
    );
  return parseAs(
    VaultEntry,
    {
      secret: { kind, token, ...(issuer === undefined ? {} : { issuer }) },
      bound: { tenant, initiators: initiator, server: canonicalServerUrl(url) },
      storedAt: new Date().toISOString(),
      ...(expires === undefined ? {} : { expiresAt: expires }),
    },
    'USAGE',
    'vault entry',
  );
}

/** A line break at its end is the editor's. */
async function secretFrom(source: string, terminal: Terminal): Promise<string> {
  const text = source === '-' ? await terminal.input() : await readText(source, terminal);
  const secret = text.trim();
  if (secret === '') throw new CountersignError('USAGE', 'There is no secret: it is empty.');
  return secret;
}

async function readText(source: string, terminal: Terminal): Promise<string> {
  return await readFile(resolve(terminal.directory, source), 'utf8').catch((error: NodeJS.ErrnoException) => {
    throw new CountersignError('USAGE', `The file ${source} cannot be read (${error.code ?? 'error'}).`);
  });
}
