/**
 * Implements `countersign vault`, which keeps the secrets that outlive a call and says who may use them
 * where.
 */
import { readFile } from 'node:fs/promises';
import { resolve } from 'node:path';
import { type Command, Option } from 'commander';
import { defined } from '../../contracts/defined.ts';
import { CountersignError } from '../../contracts/errors.ts';
import { Identifier } from '../../contracts/schemas/json.ts';
import { parseAs } from '../../contracts/schemas/parse.ts';
import { VaultEntry } from '../../contracts/schemas/stores.ts';
import { canonicalServerUrl } from '../../domain/text/urls.ts';
import { print } from '../session/answered.ts';
import { examples, type GlobalOptions, repeated, time } from '../session/options.ts';
import { openVaultSettings, type VaultSettings } from '../session/session.ts';
import type { Terminal } from '../session/terminal.ts';
import { table } from '../views/format.ts';

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

// `vault list` shows the entries and their owners, never a secret.

type Listed = Awaited<ReturnType<VaultSettings['vault']['list']>>[number];

function addListVault(vault: Command, terminal: Terminal): void {
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

/** State of an entry; `lost` means that it was used and that the token it was exchanged for was not stored. */
function stateOf(
  { refusedAt, renewal, expiresAt }: Listed,
  now: number,
): 'good' | 'in use' | 'lost' | 'refused' | 'expired' {
  if (refusedAt !== undefined) return 'refused';
  if (renewal !== undefined) return Date.parse(renewal.until) <= now ? 'lost' : 'in use';
  return expiresAt !== undefined && Date.parse(expiresAt) <= now ? 'expired' : 'good';
}

// `vault put` reads a secret from a file or standard input, never from the command line.

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

function addPut(vault: Command, terminal: Terminal): void {
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
      secret: { kind, token, ...defined({ issuer }) },
      bound: { tenant, initiators: initiator, server: canonicalServerUrl(url) },
      storedAt: new Date().toISOString(),
      ...defined({ expiresAt: expires }),
    },
    'USAGE',
    'vault entry',
  );
}

/** A line break at the end comes from the editor and is removed. */
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

// `vault rekey` encrypts with the first key all entries that another key still protects, so that the other keys can be
// removed.

/** Attempts for one entry; each failed one means that somebody else has written in between. */
const MOST_TRIES = 20;

function addRekey(vault: Command, terminal: Terminal): void {
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

/**
 * Encrypts one entry again. A concurrent writer may have used another key, so the entry is read again after a conflict.
 */
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

// `vault remove` removes an entry; runs that name it have no grant any more.

function addRemove(vault: Command, terminal: Terminal): void {
  vault
    .command('remove')
    .summary('take a secret out of the vault')
    .description('Take an entry out of the vault. It is not revoked at its issuer')
    .argument('<ref>', 'the reference')
    .addHelpText('after', examples('vault remove ann-tickets'))
    .action(async (ref: string, _own: unknown, command: Command) => {
      const options = command.optsWithGlobals<GlobalOptions>();
      const { vault: opened } = await openVaultSettings(terminal, options);
      const held = await opened.read(ref);
      if (held === undefined)
        throw new CountersignError(
          'VAULT_ENTRY_UNKNOWN',
          `Nothing stands in the vault under ${ref}. See: countersign vault list`,
        );
      if (!(await opened.remove(ref, held.version)))
        throw new CountersignError(
          'VAULT_CONFLICT',
          `The entry ${ref} was changed in this moment. Look at it (countersign vault list), and remove it again.`,
        );
      print(
        terminal,
        { json: { removed: ref }, text: (paint) => `${paint('red', 'removed')}  ${paint('bold', ref)}` },
        options.json === true,
      );
    });
}
