/**
 * Implements `countersign keys`: it makes a zone's sealing key pair, lists and changes the keys that sign, and makes
 * the key with which workers prove what they write (docs/adr/0047).
 */
import { createHash, generateKeyPairSync, randomBytes } from 'node:crypto';
import { resolve } from 'node:path';
import type { Payload, PayloadCodec } from '@temporalio/common';
import { decode } from '@temporalio/common/lib/internal-non-workflow/index.js';
import { isNotFound, listExecutions } from '../../client/engine/executions.ts';
import { SEALING } from '../../contracts/crypto.ts';
import { defined } from '../../contracts/defined.ts';
import { CountersignError } from '../../contracts/errors.ts';
import { CATALOG_WORKFLOW, DIGEST_WORKFLOW, RUN_WORKFLOW } from '../../contracts/names.ts';
import { UNDECODABLE_ENCODING } from '../../contracts/payload-converter.ts';
import { Name } from '../../contracts/schemas/json.ts';
import { parseAs } from '../../contracts/schemas/parse.ts';
import { Assertion, type TrustedJwk } from '../../contracts/schemas/trust.ts';
import { KEY_FIELD } from '../../contracts/zone.ts';
import { visible } from '../../domain/text/escape.ts';
import type { History } from '../../workers/replay/recorded-history.ts';
import { changeTrustFile, keyIn, makeKey, readTrustFile, TRUST_FILE, writeOnce } from '../session/files.ts';
import * as option from '../session/options.ts';
import type { Session } from '../session/session.ts';
import type { Paint } from '../session/terminal.ts';
import { verb } from '../session/verb.ts';

const TRUST = option.preset(TRUST_FILE, option.text('<file>', 'the trusted keys of the workers (trust.jwks)'));
const KID = option.one('key id');

const LIST = verb({
  name: 'list',
  summary: 'list the keys that are trusted',
  description: 'List the trusted keys, and what each of them may assert',
  options: { trust: TRUST },
  examples: ['keys list', 'keys list --trust /etc/countersign/trust.jwks --json'],
  run: async ({ options: { trust }, terminal }) => {
    const keys = await readTrustFile(terminal, trust);
    return {
      json: { keys },
      text: (paint) =>
        keys.length === 0 ? `No key is trusted (${trust}).` : keys.map((key) => lineOf(key, paint)).join('\n'),
    };
  },
});

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

const NEW_KEY = {
  trust: TRUST,
  private: option.text('<file>', 'the private key; never overwritten (default: KID.jwk)'),
  person: option.text('<issuer|subject>', 'the one approver for whom it speaks'),
  service: option.text('<issuer>', 'it speaks for everybody of this issuer'),
  group: option.several('<name>', 'a group that it may claim'),
  tenant: option.repeated('<name>', 'where it counts; may be given several times (default: default)'),
  speaksForMany: option.flag('with --service: several people may agree to one request through this key'),
} satisfies option.OptionRows;

const NEW = verb({
  name: 'new',
  summary: 'make a key that signs',
  description:
    'Make an Ed25519 key: the private half into a file of its own, the public half and what it may assert into the trusted keys',
  args: { kid: KID },
  options: NEW_KEY,
  examples: [
    "keys new ann-2026 --person 'acme|ann' --group ops",
    'keys new backend-2026 --service acme --group ops --speaks-for-many',
  ],
  run: async ({ args, options, terminal }) => {
    const { trust } = options;
    const kid = parseAs(Name, args.kid, 'USAGE', 'key id');
    const { private: file = `${kid}.jwk` } = options;
    const jwk = await changeTrustFile(terminal, trust, 'new', async (trusted) => {
      assertUnused(trusted, kid, trust, `, or: countersign keys rotate ${kid}`);
      const told = await makeKey(terminal, { kid, file, countersign: assertionOf(options) });
      return { keys: [...trusted, told], told };
    });
    const next = `  countersign approve RUN CALL --as 'ISSUER|SUBJECT' --key ${file}`;
    return {
      json: { key: jwk, private: file, trust },
      text: (paint) =>
        `${paint('green', 'made')}  ${paint('bold', kid)}: private key in ${file}, public key in ${trust}\n${paint('dim', next)}`,
    };
  },
});

function assertUnused(keys: readonly TrustedJwk[], kid: string, trust: string, or: string): void {
  if (keys.every((key) => key.kid !== kid)) return;
  throw option.usage(`Key ${kid} is in ${trust} already. Choose another id${or}`);
}

function assertionOf({
  person,
  service,
  group = [],
  tenant = ['default'],
  speaksForMany,
}: option.Values<typeof NEW_KEY>): Assertion {
  if ((person === undefined) === (service === undefined))
    throw option.usage('A key is one of --person or of --service, and not of both.');
  const [iss = '', ...rest] = (person ?? service ?? '').split('|');
  const own = person === undefined ? { kind: 'service', iss: service } : { kind: 'person', iss, sub: rest.join('|') };
  const asserted = { ...own, groups: group, tenants: tenant, ...defined({ speaksForMany }) };
  return parseAs(Assertion, asserted, 'USAGE', 'key');
}

const REVOKE = verb({
  name: 'revoke',
  summary: 'stop trusting a key',
  description:
    'Take a key out of the trusted ones: nothing that it has signed counts any more. Approvals that wait are asked again; runs that it started call nothing',
  args: { kid: KID },
  options: { trust: TRUST },
  examples: ['keys revoke ann-2026'],
  run: async ({ args: { kid }, options: { trust }, terminal }) => {
    await changeTrustFile(terminal, trust, 'error', async (trusted) => {
      const gone = keyIn(trusted, kid, trust);
      return await Promise.resolve({ keys: trusted.filter((key) => key !== gone), told: undefined });
    });
    return {
      json: { revoked: kid, trust },
      text: (paint) => `${paint('red', 'revoked')}  ${paint('bold', kid)}: it counts for nothing any more`,
    };
  },
});

const ROTATE = verb({
  name: 'rotate',
  summary: 'replace a key that signs',
  description:
    'Make a key that may assert the same. From now on the old one signs nothing; what it has signed before still counts, so that runs that wait go on. Revoke a key that somebody else may have: they could date a message back',
  args: { kid: option.one('the key to replace'), new: option.one('id of the new one') },
  options: {
    trust: TRUST,
    private: option.text('<file>', 'the new private key; never overwritten (default: NEW.jwk)'),
  },
  examples: ['keys rotate backend-2026 backend-2027'],
  run: async ({ args, options, terminal }) => {
    const { trust } = options;
    const kid = parseAs(Name, args.new, 'USAGE', 'key id');
    const { private: file = `${kid}.jwk` } = options;
    const { jwk, old, retired } = await changeTrustFile(terminal, trust, 'error', async (trusted) => {
      const replaced = keyIn(trusted, args.kid, trust);
      assertUnused(trusted, kid, trust, '.');
      const { countersign: asserted } = replaced;
      if (asserted.retired !== undefined)
        throw option.usage(`Key ${replaced.kid} was replaced at ${asserted.retired}. Rotate the one that replaced it.`);
      // One holder has one vote, with however many keys.
      const countersign = { ...asserted, holder: asserted.holder ?? replaced.kid };
      const made = await makeKey(terminal, { kid, file, countersign });
      const at = new Date().toISOString();
      const others = trusted.map((key) =>
        key === replaced ? { ...key, countersign: { ...countersign, retired: at } } : key,
      );
      return { keys: [...others, made], told: { jwk: made, old: replaced, retired: at } };
    });
    const next = `  when nothing waits any more that ${old.kid} has signed: countersign keys revoke ${old.kid}`;
    return {
      json: { key: jwk, replaced: old.kid, retired, private: file, trust },
      text: (paint) =>
        `${paint('green', 'replaced')}  ${old.kid} by ${paint('bold', kid)}: private key in ${file}\n${paint('dim', next)}`,
    };
  },
});

const MOST_NAMED = 20;

const ZONE_NEW = verb({
  name: 'new',
  summary: 'make a key',
  description: 'Make a symmetric key, and print it: for the environment of workers, and of nobody else',
  args: { id: option.one() },
  examples: ['keys zone new zone-2026'],
  run: async ({ args, options, terminal }) => {
    const id = parseAs(Name, args.id, 'USAGE', 'key id');
    const key = randomBytes(32).toString('base64');
    const hint = `In countersign.yaml of all workers. Put it last until all of them have it, then first:\n\n  trust:\n    zone:\n      keys:\n        - id: ${id}\n          key: \${COUNTERSIGN_ZONE_KEY}`;
    if (options.json !== true) terminal.err(`\n${hint}\n`);
    return await Promise.resolve({ json: { id, key }, text: () => key });
  },
});

const ZONE_USED = verb({
  name: 'used',
  summary: 'list running workflows that need a key; exit code 2 if any does',
  description: 'Search the histories of all running runs and catalogs for what workers have proven with a key',
  args: { id: option.one() },
  examples: ['keys zone used zone-2025', 'keys zone used zone-2025 --json'],
  run: async ({ args, session }) => {
    const id = parseAs(Name, args.id, 'USAGE', 'key id');
    const { looked, users, unread } = await session(async (opened) => usersOf(id, opened));
    const json = { id, looked, users, unread };
    if (users.length + unread.length === 0)
      return { json, text: () => `None of ${looked} running workflows needs key ${id}.` };
    const reasons = unread.map(({ workflowId, reason }) => `${workflowId}: ${reason}`);
    const told = [
      users.length === 0
        ? `None of ${looked} running workflows that could be read needs key ${id}.`
        : `${users.length} of ${looked} running workflows need key ${id}:${listed(users)}`,
      ...(unread.length === 0 ? [] : [`${unread.length} more could not be read:${listed(reasons)}`]),
    ];
    const message =
      users.length === 0
        ? `Key ${id} may be in use: leave it in trust.zone.keys until all workflows could be read, or have ended.`
        : `Key ${id} is in use: leave it in trust.zone.keys until these have ended.`;
    return {
      json,
      text: () => told.join('\n'),
      fault: new CountersignError('CONFIG_INVALID', message, { path: 'trust.zone.keys' }),
    };
  },
});

function listed(lines: readonly string[]): string {
  const more = lines.length > MOST_NAMED ? [`and ${lines.length - MOST_NAMED} more`] : [];
  return [...lines.slice(0, MOST_NAMED).map(visible), ...more].map((line) => `\n  ${line}`).join('');
}

const ZONE = verb({
  name: 'zone',
  summary: 'keys with which workers prove what they write (trust mode signed)',
  description: 'Make a key for trust.zone.keys, or see which running workflows still need one',
  examples: ['keys zone new zone-2026', 'keys zone used zone-2025'],
  verbs: [ZONE_NEW, ZONE_USED],
});

export const KEYS = verb({
  name: 'keys',
  summary: 'make a key pair for sealing tokens; make, list, rotate and revoke keys that sign',
  description:
    'Make a P-256 key pair: the private key into a file for the workers, the public key on standard output for clients. Keys that sign (trust mode signed) have the commands below',
  options: {
    out: option.preset('countersign.pem', option.text('<file>', 'the private key; never overwritten')),
    kid: option.text('<name>', 'key id (default: from the public key)'),
  },
  examples: ['keys --out zone-a.pem --kid zone-a-2026 --json', 'keys > zone.jwk'],
  verbs: [NEW, LIST, ROTATE, REVOKE, ZONE],
  run: async ({ options, terminal }) => {
    const { out, json } = options;
    const { privateKey, publicKey } = generateKeyPairSync('ec', { namedCurve: SEALING.curve });
    const { kty, crv, x, y } = publicKey.export({ format: 'jwk' });
    const { kid: named = `key-${createHash('sha256').update(`${x}.${y}`).digest('hex').slice(0, 12)}` } = options;
    const kid = parseAs(Name, named, 'USAGE', 'key id');
    const jwk = { kty, crv, x, y, kid, use: 'enc', alg: SEALING.alg };
    const pem = privateKey.export({ format: 'pem', type: 'pkcs8' }).toString();
    await writeOnce(resolve(terminal.directory, out), out, pem);
    // Both forms print the same document: `> zone.jwk` gives what --sealing-key takes.
    if (json !== true)
      terminal.err(
        `\nThe private key is in ${out}. In countersign.yaml of the workers:\n\n  grants:\n    keys:\n      - kid: ${kid}\n        privateKeyFile: ${out}\n\nClients seal with the public key above: countersign start … --sealing-key SERVER=FILE\n`,
      );
    return { json: jwk, text: () => JSON.stringify(jwk, null, 2) };
  },
});

/** @returns as `unread` those of which it is not known, such as those of another deployment in the same namespace */
export async function usersOf(id: string, { client, deadlineMs }: Pick<Session, 'client' | 'deadlineMs'>) {
  const { liveHistories } = await import('../../workers/replay/replay.ts');
  const users: string[] = [];
  const unread: { readonly workflowId: string; readonly reason: string }[] = [];
  let looked = 0;
  const query = `WorkflowType IN ('${RUN_WORKFLOW}', '${CATALOG_WORKFLOW}', '${DIGEST_WORKFLOW}') AND ExecutionStatus = 'Running'`;
  for await (const recorded of liveHistories(client, listExecutions(client, query), deadlineMs)) {
    const { workflowId } = recorded;
    if (recorded.kind === 'unreadable') {
      // It has ended since it was listed, and is forgotten.
      if (isNotFound(recorded.error)) continue;
      throw recorded.error;
    }
    const names = await keysIn(recorded.history, client.options.loadedDataConverter.payloadCodecs);
    if (names === undefined) {
      unread.push({ workflowId, reason: NOT_DECODED });
      continue;
    }
    looked += 1;
    if (names.has(id)) users.push(workflowId);
  }
  return { looked, users, unread };
}

const NOT_DECODED =
  'its history is encrypted, and encryption.keys does not hold its key. Give this command the encryption.keys that the workers have.';

/** Returns the key ids in an execution's input and in the results of its activities; undefined if one is encrypted. */
async function keysIn({ events }: History, codecs: readonly PayloadCodec[]): Promise<ReadonlySet<string> | undefined> {
  const names = new Set<string>();
  for (const event of events ?? []) {
    const failure = event.activityTaskFailedEventAttributes?.failure;
    const sealed: readonly Payload[] = [
      ...(event.workflowExecutionStartedEventAttributes?.input?.payloads ?? []),
      ...(event.activityTaskCompletedEventAttributes?.result?.payloads ?? []),
      ...(failure?.applicationFailureInfo?.details?.payloads ?? []),
    ];
    for (const payload of await decode([...codecs], [...sealed])) {
      const encoding = Buffer.from(payload.metadata?.['encoding'] ?? []).toString('utf8');
      if (encoding === UNDECODABLE_ENCODING) return undefined;
      const name = payload.metadata?.[KEY_FIELD];
      if (name) names.add(Buffer.from(name).toString('utf8'));
    }
  }
  return names;
}
