/** Implements `countersign vault`, which keeps the secrets that outlive a call and says who may use them where. */
import { defined } from '../../contracts/defined.ts';
import { CountersignError } from '../../contracts/errors.ts';
import { Identifier } from '../../contracts/schemas/json.ts';
import { parseAs } from '../../contracts/schemas/parse.ts';
import { VaultEntry } from '../../contracts/schemas/stores.ts';
import { canonicalServerUrl } from '../../domain/text/urls.ts';
import { textOf } from '../session/files.ts';
import * as option from '../session/options.ts';
import { openVaultSettings } from '../session/session.ts';
import type { Terminal } from '../session/terminal.ts';
import { verb } from '../session/verb.ts';
import { table } from '../views/format.ts';

type Vault = Awaited<ReturnType<typeof openVaultSettings>>['vault'];
type Listed = Awaited<ReturnType<Vault['list']>>[number];

const LIST = verb({
  name: 'list',
  summary: 'list the entries of the vault, and who may use them',
  description: 'List the entries of the vault: kind, server, whose runs may use them, and whether they are still good',
  examples: ['vault list', 'vault list --json'],
  run: async ({ options, terminal }) => {
    const { vault } = await openVaultSettings(terminal, options);
    const unread: CountersignError[] = [];
    const listed = await vault.list((fault) => unread.push(fault));
    const now = Date.now();
    const entries = listed.map((entry) => ({ ...entry, state: stateOf(entry, now) }));
    const head = ['REF', 'KIND', 'STATE', 'SERVER', 'TENANT', 'INITIATORS', 'KEY'];
    const rows = entries.map(({ ref, kind, state, bound: { server, tenant, initiators }, keyId = '' }) =>
      [ref, kind, state, server, tenant].concat(initiators.join(' '), keyId),
    );
    const none = unread.length === 0 ? 'The vault is empty.' : 'No entry of the vault can be read.';
    return {
      json: { entries, ...unreadJson(unread) },
      text: (paint) => (entries.length === 0 ? none : table(paint, [head, ...rows])),
      fault: unreadFault(unread),
    };
  },
});

const MOST_NAMED = 20;

function unreadJson(unread: readonly CountersignError[]): { unread?: readonly { code: string; message: string }[] } {
  return unread.length === 0 ? {} : { unread: unread.map(({ code, message }) => ({ code, message })) };
}

/** Ends a command that has done what it could with the other entries. */
function unreadFault(unread: readonly CountersignError[]): CountersignError | undefined {
  const [first] = unread;
  if (first === undefined || unread.length === 1) return first;
  // Many entries may miss one key.
  const messages = [...new Set(unread.map(({ message }) => message))];
  const more = messages.length > MOST_NAMED ? [`and ${messages.length - MOST_NAMED} more`] : [];
  const all = [`${unread.length} entries of the vault cannot be read.`, ...messages.slice(0, MOST_NAMED), ...more];
  return new CountersignError(first.code, all.join('\n'), first.facts);
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

const PUTTING = {
  kind: option.needed(option.choice(['refresh-token', 'token'], '<kind>', 'what the secret is')),
  server: option.needed(option.text('<name|url>', 'the one server for which it may be used')),
  initiator: option.needed(option.several('<id>', 'whose runs may use it')),
  tenant: option.preset('default', option.text('<name>', 'tenant of those runs')),
  issuer: option.text('<url>', 'with --kind refresh-token: the authorization server that issued it'),
  from: option.preset('-', option.text('<file>', 'a file that holds the secret, or - for standard input')),
  expires: option.time('when the grant ends, if that is known'),
  replace: option.flag('replace the entry that has this reference'),
} satisfies option.OptionRows;

const REF = option.one('the reference');

/** Reads a secret from a file or standard input, never from the command line. */
const PUT = verb({
  name: 'put',
  summary: 'put a secret into the vault',
  description: 'Put a refresh token, or a token that lives long, under a reference that grants of runs name',
  args: { ref: REF },
  options: PUTTING,
  examples: [
    'vault put ann-tickets --kind refresh-token --issuer https://login.example.com --server tickets --initiator ann --from token.txt',
    'vault put bot-files --kind token --server files --initiator nightly < token.txt',
  ],
  run: async ({ args, options, terminal }) => {
    const ref = parseAs(Identifier, args.ref, 'USAGE', 'reference');
    const { vault, serverUrls } = await openVaultSettings(terminal, options);
    const entry = entryOf(options, await secretFrom(options.from, terminal), serverUrls);
    const before = await vault.read(ref);
    if (before !== undefined && options.replace !== true) {
      const message = `Something stands under ${ref} already. Look at it with countersign vault list; to put this in its place, add --replace.`;
      throw new CountersignError('VAULT_CONFLICT', message);
    }
    if ((await vault.write(ref, entry, before?.version)) === undefined) throw changedMeanwhile(ref, 'put');
    const { secret, ...shown } = entry;
    const { server, initiators, tenant } = entry.bound;
    return {
      json: { ref, kind: secret.kind, ...shown },
      text: (paint) =>
        `${paint('green', 'put')}  ${paint('bold', ref)}: ${secret.kind} for ${server}, for runs of ${initiators.join(', ')} (tenant ${tenant})\n${paint('dim', `  in run specs: grants: [{ server: …, ref: ${ref} }]`)}`,
    };
  },
});

function changedMeanwhile(ref: string, verbName: 'put' | 'rekey' | 'remove'): CountersignError {
  const message = `The entry ${ref} was changed in this moment. Look at it (countersign vault list), and ${verbName} it again.`;
  return new CountersignError('VAULT_CONFLICT', message);
}

function entryOf(
  options: option.Values<typeof PUTTING>,
  token: string,
  serverUrls: Readonly<Record<string, string>>,
): VaultEntry {
  const { kind, issuer, tenant, initiator, expires } = options;
  if ((kind === 'refresh-token') !== (issuer !== undefined)) {
    const message =
      'A refresh token goes to its issuer alone: --issuer belongs to --kind refresh-token, and to nothing else.';
    throw option.usage(message);
  }
  const url = Object.hasOwn(serverUrls, options.server) ? serverUrls[options.server] : options.server;
  if (url === undefined || !URL.canParse(url)) {
    const message = `--server ${options.server}: the configuration has no server of this name, and it is no URL.`;
    throw new CountersignError('SERVER_UNKNOWN', message);
  }
  const { username, password } = new URL(url);
  if (username !== '' || password !== '') {
    const message = '--server must not hold a user name or password: no server is named so, and it is shown in lists.';
    throw option.usage(message);
  }
  return parseAs(
    VaultEntry,
    {
      secret: { kind, token, ...defined({ issuer }) },
      bound: { tenant, initiators: [...initiator], server: canonicalServerUrl(url) },
      storedAt: new Date().toISOString(),
      ...defined({ expiresAt: expires }),
    },
    'USAGE',
    'vault entry',
  );
}

/** A line break at the end comes from the editor and is removed. */
async function secretFrom(source: string, terminal: Terminal): Promise<string> {
  const given = source === '-' ? await terminal.input() : await textOf(source, `file ${source}`, terminal);
  const secret = given.trim();
  if (secret === '') throw option.usage('There is no secret: it is empty.');
  return secret;
}

const REKEY = verb({
  name: 'rekey',
  summary: 'encrypt all entries with the first key',
  description:
    'Encrypt every entry with the first of vault.keys that another key still protects; after that the others can be removed',
  examples: ['vault rekey'],
  run: async ({ options, terminal }) => {
    const { vault, keyId } = await openVaultSettings(terminal, options);
    if (keyId === undefined)
      throw new CountersignError('VAULT_READ_ONLY', 'The vault of the configuration encrypts nothing itself.');
    const unread: CountersignError[] = [];
    const listed = await vault.list((fault) => unread.push(fault));
    const rekeyed: string[] = [];
    const changed: string[] = [];
    for (const { ref } of listed.filter((entry) => entry.keyId !== keyId)) {
      const held = await vault.read(ref);
      if (held === undefined) continue;
      const isDone = (await vault.write(ref, held.entry, held.version)) !== undefined;
      (isDone ? rekeyed : changed).push(ref);
    }
    const [first] = changed;
    return {
      json: { keyId, rekeyed, ...(first === undefined ? {} : { changed }), ...unreadJson(unread) },
      text: (paint) =>
        `${paint('green', 'rekeyed')}  encrypted with ${keyId} now: ${rekeyed.length}${first === undefined ? '' : `; changed in this moment, and not: ${changed.length}`}`,
      fault: unreadFault(unread) ?? (first === undefined ? undefined : changedMeanwhile(first, 'rekey')),
    };
  },
});

const REMOVE = verb({
  name: 'remove',
  summary: 'take a secret out of the vault',
  description: 'Take an entry out of the vault. It is not revoked at its issuer',
  args: { ref: REF },
  examples: ['vault remove ann-tickets'],
  run: async ({ args: { ref }, options, terminal }) => {
    const { vault } = await openVaultSettings(terminal, options);
    const held = await vault.read(ref);
    if (held === undefined) {
      const message = `Nothing stands in the vault under ${ref}. See: countersign vault list`;
      throw new CountersignError('VAULT_ENTRY_UNKNOWN', message);
    }
    if (!(await vault.remove(ref, held.version))) throw changedMeanwhile(ref, 'remove');
    return { json: { removed: ref }, text: (paint) => `${paint('red', 'removed')}  ${paint('bold', ref)}` };
  },
});

export const VAULT = verb({
  name: 'vault',
  summary: 'refresh tokens and other secrets that outlive a call',
  description:
    'What the vault of the configuration holds for runs whose grants name it (grants: [{server, ref}]): never shown, bound to a tenant, to initiators and to one server',
  examples: ['vault list', 'vault remove ann-tickets'],
  verbs: [PUT, LIST, REMOVE, REKEY],
});
