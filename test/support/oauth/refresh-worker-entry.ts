/**
 * This program mints tokens through the refresh token of a vault, and reports the result of each request.
 *
 * Run it with `node --import tsx refresh-worker-entry.ts <vault root> <issuer> <how many at once>`.
 */
import { createVaultDirectory } from '../../../activities/vault/directory.ts';
import { CountersignError } from '../../../contracts/errors.ts';
import { VAULT_KEYS } from '../builders/vault.ts';
import { vaultRequest, workerOf } from './refresh-bench.ts';

const [root = '', issuer = '', count = '1'] = process.argv.slice(2);
const broker = workerOf(createVaultDirectory(root, VAULT_KEYS), issuer);
await Promise.all(
  Array.from({ length: Number(count) }, async () => {
    try {
      const { accessToken } = await broker.mint(vaultRequest());
      process.stdout.write(`minted ${accessToken}\n`);
    } catch (error) {
      process.stdout.write(`${error instanceof CountersignError ? error.code : String(error)}\n`);
    }
  }),
);
