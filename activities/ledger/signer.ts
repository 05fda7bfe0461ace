/**
 * Signs the head of a ledger's chain with a worker's own Ed25519 key, which those who write to Temporal do
 * not have.
 */
import { readFile } from 'node:fs/promises';
import { resolve } from 'node:path';
import { CompactSign, importPKCS8 } from 'jose';
import { CountersignError } from '../../contracts/errors.ts';
import { HEAD_ALG, HEAD_TYPE } from '../../contracts/crypto.ts';
import type { LedgerHead } from '../../contracts/schemas/ledger.ts';
import type { LedgerKey } from '../../contracts/schemas/config.ts';
import { canonicalJson } from '../../domain/text/canonical.ts';

/** Returns a compact JWS. The same head gives the same text: Ed25519 is deterministic, and the text holds no time. */
export type SignHead = (head: LedgerHead) => Promise<string>;

const PATH = 'ledger.sign.privateKeyFile';

/** @param baseDirectory of the configuration file; the key file is relative to it */
export async function createHeadSigner({ kid, privateKeyFile }: LedgerKey, baseDirectory: string): Promise<SignHead> {
  const pem = await readFile(resolve(baseDirectory, privateKeyFile), 'utf8').catch((error: NodeJS.ErrnoException) => {
    throw invalid(`names the file ${privateKeyFile}, which cannot be read (${error.code ?? 'error'})`);
  });
  const key = await importPKCS8(pem.trim(), HEAD_ALG).catch(() => {
    // The cause is left out: it may quote the file.
    throw invalid(
      `names the file ${privateKeyFile}, which is no Ed25519 private key in PEM. Make one: openssl genpkey -algorithm ed25519 -out ${privateKeyFile}`,
    );
  });
  return async (head) =>
    await new CompactSign(new TextEncoder().encode(canonicalJson(head)))
      .setProtectedHeader({ alg: HEAD_ALG, kid, typ: HEAD_TYPE })
      .sign(key);
}

function invalid(reason: string): CountersignError {
  return new CountersignError('CONFIG_INVALID', `The configuration is not valid: ${PATH} ${reason}.`, { path: PATH });
}
