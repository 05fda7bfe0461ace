/**
 * This `Vault` is a directory that workers share: a folder for each reference, an encrypted file for each version.
 *
 *     <root>/<sha256 of the reference>/000000000003.json
 *
 * 1. A version gets its name by `link`, which fails if the name exists: of two workers one is second, without a lock. A
 *    replaced version keeps its name for a while, so that late workers fail too, as an empty file: it was a secret.
 * 2. The newest version is never deleted, even if it records a removal: version numbers are not used again.
 * 3. Files are whole or not there, for the owner alone (`activities/kit/durable-file.ts`).
 * 4. An envelope is encrypted (AES-256-GCM, NIST SP 800-38D, random 96-bit nonce) with the first key; every key
 *    decrypts. The tag also covers place and version: an envelope that is copied elsewhere does not open.
 */
import { createCipheriv, createDecipheriv, randomBytes } from 'node:crypto';
import { readdir, readFile, rm, stat } from 'node:fs/promises';
import { join } from 'node:path';
import { z } from 'zod';
import { CountersignError, nodeCodeOf } from '../../contracts/errors.ts';
import { type CodecKey, Identifier } from '../../contracts/schemas/json.ts';
import { VaultEntry } from '../../contracts/schemas/stores.ts';
import { canonicalJson, sha256Hex } from '../../domain/text/canonical.ts';
import { assertRoot, type RootKind } from '../artifacts/root.ts';
import { replace, writeNew } from '../kit/durable-file.ts';
import { parsedJson } from '../kit/json.ts';
import { listedAt, type Vault, type VaultVersion } from './port.ts';

export const VAULT_ROOT: RootKind = {
  marker: '.countersign-vault',
  what: 'vault',
  path: 'vault.directory',
  missing: 'VAULT_UNAVAILABLE',
};

const FOLDER_NAME = /^[0-9a-f]{64}$/;
const MOST_READS = 50;
/** A shared file system may show the names of before for as long (nfs(5), `acdirmax` is a minute). */
const LISTS_ARE_NEWER_MS = 120_000;
/** Replaced versions that keep their names. */
const KEPT_NAMES = 100;

const Content = z.strictObject({ ref: Identifier, entry: VaultEntry });

/** In the place of an envelope. */
const REMOVED = 'removed\n';

interface Newest {
  readonly version: number;
  readonly found: (z.infer<typeof Content> & { readonly keyId: string }) | undefined;
}

export function createVaultDirectory(root: string, keys: readonly CodecKey[]): Vault {
  return {
    read: async (ref) =>
      await available(async () => {
        const found = foundIn(await newestOf(root, folderOf(ref), keys));
        return found && { entry: found.entry, version: found.version };
      }),
    write: async (ref, entry, expected) =>
      await available(async () => await replaced(root, keys, { ref, entry }, expected)),
    remove: async (ref, expected) =>
      await available(async () => (await replaced(root, keys, { ref }, expected)) !== undefined),
    list: async (onUnread) =>
      await available(async () => {
        await assertRoot(root, VAULT_ROOT);
        const folders = (await readdir(root)).filter((name) => FOLDER_NAME.test(name));
        const read = async (folder: string) => foundIn(await newestOf(root, folder, keys));
        return await listedAt(folders, read, onUnread);
      }),
  };
}

export const folderOf = sha256Hex;

export function fileOf(version: number): string {
  return `${String(version).padStart(12, '0')}.json`;
}

function foundIn(newest: Newest | undefined) {
  return newest?.found === undefined ? undefined : { ...newest.found, version: String(newest.version) };
}

async function newestOf(root: string, folder: string, keys: readonly CodecKey[]): Promise<Newest | undefined> {
  const seen = new Set<number>();
  for (let reads = 0; reads < MOST_READS; reads += 1) {
    const version = (await versionsIn(root, folder)).at(-1);
    if (version === undefined) return undefined;
    seen.add(version);
    const text = await readText(join(root, folder, fileOf(version)));
    if (text === undefined) continue;
    if (text === REMOVED) return { version, found: undefined };
    const place: Place = { folder, version };
    const { text: json, keyId } = opened(keys, text, place);
    const content = Content.safeParse(parsedJson(json));
    if (!content.success || folderOf(content.data.ref) !== folder) throw corrupt(place, 'it is of another release');
    return { version, found: { ...content.data, keyId } };
  }
  const [version = 0, ...others] = seen;
  if (others.length === 0 && (await isLeftEmpty(join(root, folder, fileOf(version)))))
    throw corrupt({ folder, version }, 'its file is empty');
  throw unavailable('other workers write to it all the time');
}

/** True of a file that no writer has just emptied: a crash of the file system did, or a copy that broke off. */
async function isLeftEmpty(path: string): Promise<boolean> {
  const found = await stat(path).catch(() => undefined);
  return found?.size === 0 && Date.now() - found.mtimeMs > LISTS_ARE_NEWER_MS;
}

/** Ascending. */
async function versionsIn(root: string, folder: string): Promise<number[]> {
  let names: string[];
  try {
    names = await readdir(join(root, folder));
  } catch (error) {
    if (nodeCodeOf(error) !== 'ENOENT') throw error;
    await assertRoot(root, VAULT_ROOT);
    return [];
  }
  const versions = names.flatMap((name) => (/^\d{12}\.json$/.test(name) ? [Number(name.slice(0, 12))] : []));
  return versions.toSorted((one, other) => one - other);
}

/** Returns undefined if a newer version has taken its place. */
async function readText(path: string): Promise<string | undefined> {
  try {
    const text = await readFile(path, 'utf8');
    return text === '' ? undefined : text;
  } catch (error) {
    if (nodeCodeOf(error) === 'ENOENT') return undefined;
    throw error;
  }
}

async function replaced(
  root: string,
  keys: readonly CodecKey[],
  { ref, entry }: { readonly ref: string; readonly entry?: VaultEntry },
  expected: VaultVersion | undefined,
): Promise<VaultVersion | undefined> {
  await assertRoot(root, VAULT_ROOT);
  const folder = folderOf(ref);
  const newest = await newestOf(root, folder, keys);
  if (foundIn(newest)?.version !== expected) return undefined;
  const version = (newest?.version ?? 0) + 1;
  const text = entry === undefined ? REMOVED : sealed(keys, JSON.stringify({ ref, entry }), { folder, version });
  if (!(await writeNew(root, join(root, folder, fileOf(version)), text))) return undefined;
  const versions = await versionsIn(root, folder);
  const isLate = (versions.at(-1) ?? version) > version + KEPT_NAMES;
  const outdated = versions.filter((other) => other < version - KEPT_NAMES || (isLate && other === version));
  const emptied = versions.filter((other) => other < version && other >= version - 2);
  // The next write removes what this cleanup leaves behind.
  await Promise.allSettled([
    ...outdated.map(async (old) => await rm(join(root, folder, fileOf(old)), { force: true })),
    ...emptied.map(async (old) => await replace(root, join(root, folder, fileOf(old)), '')),
  ]);
  return isLate ? undefined : String(version);
}

async function available<Value>(use: () => Promise<Value>): Promise<Value> {
  try {
    return await use();
  } catch (error) {
    if (error instanceof CountersignError) throw error;
    const code = nodeCodeOf(error) ?? 'error';
    throw unavailable(
      `its directory cannot be used (${code}). See that there is space, and that the user of this process may read and write it`,
    );
  }
}

function unavailable(reason: string): CountersignError {
  return new CountersignError('VAULT_UNAVAILABLE', `The vault is not available: ${reason}. It may pass: try again.`);
}

const NONCE_BYTES = 12;
const TAG_BYTES = 16;

const Envelope = z.strictObject({
  format: z.literal('countersign-vault-1'),
  keyId: z.string(),
  /** Nonce, tag and ciphertext, base64. */
  data: z.base64(),
});

interface Place {
  readonly folder: string;
  readonly version: number;
}

function sealed(keys: readonly CodecKey[], text: string, place: Place): string {
  const [first] = keys;
  if (first === undefined) throw noKey('the first one');
  const nonce = randomBytes(NONCE_BYTES);
  const cipher = createCipheriv('aes-256-gcm', Buffer.from(first.key, 'base64'), nonce);
  cipher.setAAD(placeBytes(place, first.id));
  const body = Buffer.concat([cipher.update(text, 'utf8'), cipher.final()]);
  const data = Buffer.concat([nonce, cipher.getAuthTag(), body]).toString('base64');
  return JSON.stringify({ format: 'countersign-vault-1', keyId: first.id, data });
}

/** @throws CountersignError `VAULT_CORRUPT`, or `CONFIG_INVALID` if its key is missing */
function opened(
  keys: readonly CodecKey[],
  envelope: string,
  place: Place,
): { readonly text: string; readonly keyId: string } {
  const parsed = Envelope.safeParse(parsedJson(envelope));
  if (!parsed.success) throw corrupt(place, 'it is no envelope');
  const { keyId, data } = parsed.data;
  const key = keys.find(({ id }) => id === keyId)?.key;
  if (key === undefined) throw noKey(keyId);
  const bytes = Buffer.from(data, 'base64');
  try {
    const nonce = bytes.subarray(0, NONCE_BYTES);
    const decipher = createDecipheriv('aes-256-gcm', Buffer.from(key, 'base64'), nonce, { authTagLength: TAG_BYTES });
    decipher.setAAD(placeBytes(place, keyId));
    decipher.setAuthTag(bytes.subarray(NONCE_BYTES, NONCE_BYTES + TAG_BYTES));
    const text = Buffer.concat([decipher.update(bytes.subarray(NONCE_BYTES + TAG_BYTES)), decipher.final()]);
    return { text: text.toString('utf8'), keyId };
  } catch {
    const first = `Compare key ${keyId} of vault.keys with that of the other workers first: with the right one nothing is lost. Else: `;
    throw corrupt(place, 'it was changed, moved, or encrypted with another key of the same id', first);
  }
}

/** @param first what may help without a loss */
function corrupt({ folder, version }: Place, reason: string, first = ''): CountersignError {
  const message = `Version ${version} of the vault entry in ${folder} does not open: ${reason}. ${first}Remove that folder from vault.directory, then put the secret anew (countersign vault put). No older file: its token may be used up.`;
  return new CountersignError('VAULT_CORRUPT', message);
}

function placeBytes({ folder, version }: Place, keyId: string): Uint8Array {
  return new TextEncoder().encode(canonicalJson({ folder, version, keyId }));
}

function noKey(id: string): CountersignError {
  const message = `A vault entry is encrypted with key ${id}, which vault.keys does not hold; add the key.`;
  return new CountersignError('CONFIG_INVALID', message, { path: 'vault.keys' });
}
