/** Makes keys with which a worker signs: the file named in the configuration, and the public half. */
import { type CryptoKey, type JWK, exportJWK, exportPKCS8, generateKeyPair } from 'jose';
import type { SigningKey } from '../../contracts/schemas/credentials.ts';
import type { SigningKeys } from '../../activities/tokens/sealed.ts';

export interface TestSigningKey {
  /** The key's entry in a configuration. */
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

/** Returns keys in the form of `loadSigningKeys`. */
export function signingKeysOf(...keys: readonly TestSigningKey[]): SigningKeys {
  return ({ kid }) => {
    const found = keys.find(({ config }) => config.kid === kid);
    if (found === undefined) throw new Error(`there is no key ${kid}`);
    return found.privateKey;
  };
}
