/**
 * Implements `countersign keys`: it makes a zone's sealing key pair, and lists and changes the keys that
 * sign.
 */
import { createHash, generateKeyPairSync, randomBytes } from 'node:crypto';
import { resolve } from 'node:path';
import type { Payload, PayloadCodec } from '@temporalio/common';
import type { Command } from 'commander';
import { listExecutions } from '../../client/engine/executions.ts';
import { SEALING } from '../../contracts/crypto.ts';
import { CountersignError } from '../../contracts/errors.ts';
import { CATALOG_WORKFLOW, RUN_WORKFLOW } from '../../contracts/names.ts';
import { UNDECODABLE_ENCODING } from '../../contracts/payload-converter.ts';
import { Name } from '../../contracts/schemas/json.ts';
import { parseAs } from '../../contracts/schemas/parse.ts';
import { Assertion, type TrustedJwk } from '../../contracts/schemas/trust.ts';
import { KEY_FIELD } from '../../contracts/zone.ts';
import { visible } from '../../domain/text/escape.ts';
import type { History } from '../../workers/replay/recorded-history.ts';
import { print } from '../session/answered.ts';
import { keyIn, makeKey, readTrustFile, TRUST_FILE, writeOnce, writeTrustFile } from '../session/files.ts';
import { examples, type GlobalOptions, repeated } from '../session/options.ts';
import { withSession } from '../session/session.ts';
import type { Paint, Terminal } from '../session/terminal.ts';

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
      // Both forms print the same document, so that `> zone.jwk` gives what --sealing-key takes. Hints go to standard
      // error.
      print(terminal, { json: jwk, text: () => JSON.stringify(jwk, null, 2) }, options.json === true);
      if (options.json !== true) {
        terminal.err(
          `\nThe private key is in ${options.out}. In countersign.yaml of the workers:\n\n  grants:\n    keys:\n      - kid: ${kid}\n        privateKeyFile: ${options.out}\n\nClients seal with the public key above: countersign start … --sealing-key SERVER=FILE\n`,
        );
      }
    });
  for (const addVerb of [addNewKey, addListKeys, addRotateKey, addRevokeKey, addZoneKeys]) addVerb(keys, terminal);
}

// `keys list` shows whose signatures are trusted, and for what.

function addListKeys(keys: Command, terminal: Terminal): void {
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

// `keys new` makes a signing key and says what the key may assert.

interface NewKeyOptions extends GlobalOptions {
  readonly trust: string;
  readonly private?: string;
  readonly person?: string;
  readonly service?: string;
  readonly group?: readonly string[];
  readonly tenant?: readonly string[];
  readonly speaksForMany?: true;
}

function addNewKey(keys: Command, terminal: Terminal): void {
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

// `keys revoke` takes all trust from a key, including trust in what it has already signed.

function addRevokeKey(keys: Command, terminal: Terminal): void {
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

// `keys rotate` replaces an old key, which nobody has lost, by a new one.

interface RotateOptions extends GlobalOptions {
  readonly trust: string;
  readonly private?: string;
}

function addRotateKey(keys: Command, terminal: Terminal): void {
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
      // One holder has one vote, with however many keys.
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

// Implements `countersign keys zone`. It makes the key with which workers prove what they write, and finds
// out whether runs still need one (docs/adr/0047).

const MOST_NAMED = 20;

function addZoneKeys(keys: Command, terminal: Terminal): void {
  const zone = keys
    .command('zone')
    .summary('keys with which workers prove what they write (trust mode signed)')
    .description('Make a key for trust.zone.keys, or see which running workflows still need one')
    .addHelpText('after', examples('keys zone new zone-2026', 'keys zone used zone-2025'));
  zone
    .command('new <id>')
    .summary('make a key')
    .description('Make a symmetric key, and print it: for the environment of workers, and of nobody else')
    .addHelpText('after', examples('keys zone new zone-2026'))
    .action((given: string, _own: unknown, command: Command) => {
      const { json } = command.optsWithGlobals<GlobalOptions>();
      const id = parseAs(Name, given, 'USAGE', 'key id');
      const key = randomBytes(32).toString('base64');
      print(terminal, { json: { id, key }, text: () => key }, json === true);
      if (json !== true)
        terminal.err(
          `\nIn countersign.yaml of all workers. Put it last until all of them have it, then first:\n\n  trust:\n    zone:\n      keys:\n        - id: ${id}\n          key: \${ZONE_KEY}\n`,
        );
    });
  zone
    .command('used <id>')
    .summary('which running workflows need a key; exit code 2 if any does')
    .description('Look through the histories of all running runs and catalogs for what was proven by a key')
    .addHelpText('after', examples('keys zone used zone-2025', 'keys zone used zone-2025 --json'))
    .action(async (given: string, _own: unknown, command: Command) => {
      const options = command.optsWithGlobals<GlobalOptions>();
      const id = parseAs(Name, given, 'USAGE', 'key id');
      const { looked, users } = await usersOf(id, options, terminal);
      const named = users
        .slice(0, MOST_NAMED)
        .map((user) => `\n  ${visible(user)}`)
        .join('');
      const more = users.length > MOST_NAMED ? `\n  and ${users.length - MOST_NAMED} more` : '';
      const text = (): string =>
        users.length === 0
          ? `None of ${looked} running workflows needs key ${id}.`
          : `${users.length} of ${looked} running workflows need key ${id}:${named}${more}`;
      print(terminal, { json: { id, looked, users }, text }, options.json === true);
      if (users.length === 0) return;
      throw new CountersignError(
        'CONFIG_INVALID',
        `Key ${id} is in use: leave it in trust.zone.keys until these have ended.`,
        {
          path: 'trust.zone.keys',
        },
      );
    });
}

async function usersOf(
  id: string,
  options: GlobalOptions,
  terminal: Terminal,
): Promise<{ readonly looked: number; readonly users: readonly string[] }> {
  const { liveHistories } = await import('../../workers/replay/replay.ts');
  return await withSession(terminal, options, async ({ client }) => {
    const users: string[] = [];
    let looked = 0;
    const query = `WorkflowType IN ('${RUN_WORKFLOW}', '${CATALOG_WORKFLOW}') AND ExecutionStatus = 'Running'`;
    for await (const recorded of liveHistories(client, listExecutions(client, query))) {
      if (recorded.kind === 'unreadable') throw recorded.error;
      looked += 1;
      const names = await keysIn(recorded.history, client.options.loadedDataConverter.payloadCodecs);
      if (names.has(id)) users.push(recorded.workflowId);
    }
    return { looked, users };
  });
}

/** Returns the key ids in an execution's input and in the results of its activities. */
async function keysIn({ events }: History, codecs: readonly PayloadCodec[]): Promise<ReadonlySet<string>> {
  const names = new Set<string>();
  for (const event of events ?? []) {
    const failure = event.activityTaskFailedEventAttributes?.failure;
    const sealed: readonly Payload[] = [
      ...(event.workflowExecutionStartedEventAttributes?.input?.payloads ?? []),
      ...(event.activityTaskCompletedEventAttributes?.result?.payloads ?? []),
      ...(failure?.applicationFailureInfo?.details?.payloads ?? []),
    ];
    for (const payload of await decoded(sealed, codecs)) {
      const encoding = Buffer.from(payload.metadata?.['encoding'] ?? []).toString('utf8');
      if (encoding === UNDECODABLE_ENCODING)
        throw new CountersignError(
          'CONFIG_INVALID',
          'A history is encrypted, and encryption.keys does not hold its key; nothing is known of it.',
          {
            path: 'encryption.keys',
          },
        );
      const name = payload.metadata?.[KEY_FIELD];
      if (name) names.add(Buffer.from(name).toString('utf8'));
    }
  }
  return names;
}

async function decoded(payloads: readonly Payload[], codecs: readonly PayloadCodec[]): Promise<readonly Payload[]> {
  let read = [...payloads];
  for (const codec of codecs.toReversed()) read = await codec.decode(read);
  return read;
}
