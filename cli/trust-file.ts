/** The file of trusted keys (`trust.jwks`), as the command line changes it: whole, and in one step, so that no worker reads half of it. */
import { generateKeyPairSync, randomUUID } from 'node:crypto';
import { readFile, rename, writeFile } from 'node:fs/promises';
import { resolve } from 'node:path';
import { CountersignError } from '../contracts/errors.ts';
import { parseAs } from '../contracts/schemas/parse.ts';
import { type Assertion, type TrustedJwk, TrustedJwks } from '../contracts/schemas/trust.ts';
import { writeOnce } from './private-file.ts';
import type { Terminal } from './terminal.ts';

export const TRUST_FILE = 'trust.jwks';

/** @param shown the path as it was given. @throws CountersignError `USAGE`, `CONFIG_INVALID` */
export async function readTrustFile(
  { directory }: Pick<Terminal, 'directory'>,
  shown: string,
  whereMissing: 'new' | 'error' = 'error',
): Promise<readonly TrustedJwk[]> {
  const text = await readFile(resolve(directory, shown), 'utf8').catch((error: NodeJS.ErrnoException) => {
    if (whereMissing === 'new' && error.code === 'ENOENT') return '{"keys":[]}';
    throw new CountersignError(
      'USAGE',
      `The trusted keys ${shown} cannot be read (${error.code ?? 'error'}). Name the file with --trust.`,
    );
  });
  let value: unknown;
  try {
    value = JSON.parse(text);
  } catch {
    throw new CountersignError(
      'CONFIG_INVALID',
      `The trusted keys ${shown} are no JSON. Correct the file and try again.`,
    );
  }
  return parseAs(TrustedJwks, value, 'CONFIG_INVALID', `file of trusted keys ${shown}`).keys;
}

export async function writeTrustFile(
  { directory }: Pick<Terminal, 'directory'>,
  shown: string,
  keys: readonly TrustedJwk[],
): Promise<void> {
  const path = resolve(directory, shown);
  const draft = `${path}.${randomUUID()}.tmp`;
  await writeFile(draft, `${JSON.stringify({ keys }, null, 2)}\n`, { flush: true });
  await rename(draft, path);
}

/** @throws CountersignError `USAGE` */
export function keyIn(keys: readonly TrustedJwk[], kid: string, shown: string): TrustedJwk {
  const found = keys.find((key) => key.kid === kid);
  if (found !== undefined) return found;
  throw new CountersignError(
    'USAGE',
    `There is no key ${kid} in ${shown}. See: countersign keys list --trust ${shown}`,
  );
}

/** Makes a key pair: the private half into a file of its own, the public half is returned. */
export async function makeKey(
  { directory }: Pick<Terminal, 'directory'>,
  { kid, file, countersign }: { readonly kid: string; readonly file: string; readonly countersign: Assertion },
): Promise<TrustedJwk> {
  const { privateKey } = generateKeyPairSync('ed25519');
  const { x = '', d } = privateKey.export({ format: 'jwk' });
  const jwk = { kty: 'OKP', crv: 'Ed25519', x, kid, alg: 'EdDSA', use: 'sig', countersign } as const;
  await writeOnce(resolve(directory, file), file, `${JSON.stringify({ ...jwk, d }, null, 2)}\n`);
  return jwk;
}
