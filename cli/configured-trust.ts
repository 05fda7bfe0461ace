/** The keys that `countersign.yaml` trusts, for whoever checks what was signed. */
import { Config } from '../contracts/schemas/config.ts';
import { parseAs } from '../contracts/schemas/parse.ts';
import { isTrustUrl, type TrustedJwk } from '../contracts/schemas/trust.ts';
import { substitute } from '../workers/config-environment.ts';
import { readConfigFile } from '../workers/config-file.ts';
import { readTrustedKeys } from '../workers/trust.ts';
import type { Terminal } from './terminal.ts';

/**
 * Undefined where the configuration is in trust mode `temporal`, or where there is none.
 * @param mayAsk keys at a URL are fetched @throws CountersignError `CONFIG_INVALID`, `TRUST_UNAVAILABLE`
 */
export async function configuredKeys(
  path: string | undefined,
  { env, directory }: Pick<Terminal, 'env' | 'directory'>,
  mayAsk: boolean,
): Promise<readonly TrustedJwk[] | undefined> {
  const file = await readConfigFile(path, env, directory);
  if (file === undefined || !isTrusting(file.value)) return undefined;
  const { trust: wanted, egress } = file.value;
  const picked = { trust: wanted, ...(egress === undefined ? {} : { egress }) };
  const config = parseAs(Config, substitute(picked, env, file.what), 'CONFIG_INVALID', file.what);
  const { trust } = config;
  if (trust.mode === 'temporal' || (isTrustUrl(trust.jwks) && !mayAsk)) return undefined;
  return await readTrustedKeys(trust.jwks, { config, baseDirectory: file.baseDirectory });
}

function isTrusting(value: unknown): value is { readonly trust: unknown; readonly egress?: unknown } {
  return typeof value === 'object' && value !== null && 'trust' in value;
}
