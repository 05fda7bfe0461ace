/** Keys with which a worker signs: the file as its configuration names it, the public half as others have it. */
import { type CryptoKey, type JWK, exportJWK, exportPKCS8, generateKeyPair } from 'jose';
import type { SigningKey } from '../../contracts/schemas/credentials.ts';
import type { SigningKeys } from '../../activities/tokens/private-keys.ts';

export interface TestSigningKey {
  /** As it stands in a configuration. */
  readonly config: SigningKey;
  readonly privateKey: CryptoKey;
  readonly publicJwk: JWK;
  /** PKCS #8. */
  readonly pem: string;
}

export async function signingKey(kid: string, alg: SigningKey['alg'] = 'ES256'): Promise<TestSigningKey> {
  const { publicKey, privateKey } = await generateKeyPair(alg, { extractable: true });
  return {
    config: { kid, alg, privateKeyFile: `${kid}.pem` },
    privateKey,
    publicJwk: { ...(await exportJWK(publicKey)), kid, alg, use: 'sig' },
    pem: await exportPKCS8(privateKey),
  };
}

/** As `loadSigningKeys` has them. */
export function signingKeysOf(...keys: readonly TestSigningKey[]): SigningKeys {
  return ({ kid }) => {
    const found = keys.find(({ config }) => config.kid === kid);
    if (found === undefined) throw new Error(`there is no key ${kid}`);
    return found.privateKey;
  };
}
