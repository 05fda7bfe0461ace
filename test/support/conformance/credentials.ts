/**
 * Authorizes the conformance suite's client, as the operator of the scenario's server would have configured
 * it.
 */
import { writeFile } from 'node:fs/promises';
import { join } from 'node:path';
import { exportJWK, exportPKCS8, generateKeyPair } from 'jose';
import { sealAuthorization } from '../../../client/signing/sealing.ts';
import { SEALING } from '../../../contracts/crypto.ts';
import type { ConfigInput } from '../../../contracts/schemas/config.ts';
import type { Grant } from '../../../contracts/schemas/run-spec.ts';
import { RUN } from '../activities/tool-activities.ts';

/** Authorization context of a scenario, as the suite gives it. */
export interface ConformanceContext {
  readonly client_id?: string;
  readonly client_secret?: string;
  readonly private_key_pem?: string;
  readonly signing_algorithm?: 'ES256' | 'RS256';
  readonly idp_client_id?: string;
  readonly idp_id_token?: string;
  readonly idp_issuer?: string;
}

interface Authorizing {
  readonly credentials: NonNullable<ConfigInput['servers']>[string]['credentials'];
  readonly grants?: NonNullable<ConfigInput['grants']>;
  /** Grant of the run, if callers bring an assertion. */
  readonly grant?: Grant;
}

/** @param directory of the configuration, for key files */
export async function authorizing(
  server: { readonly name: string; readonly url: string },
  context: ConformanceContext,
  directory: string,
): Promise<Authorizing> {
  const issuer = await issuerOf(server.url);
  const { client_id: clientId = 'conformance', client_secret: clientSecret = 'conformance' } = context;
  const { private_key_pem: pem, idp_id_token: token, idp_issuer: provider, idp_client_id: providedTo } = context;
  if (pem !== undefined) {
    const clientKey = {
      kid: 'client',
      privateKeyFile: 'client.pem',
      alg: context.signing_algorithm ?? 'ES256',
    } as const;
    await writeFile(join(directory, clientKey.privateKeyFile), pem);
    return { credentials: { kind: 'client-credentials', issuer, clientId, clientKey } };
  }
  if (token === undefined || provider === undefined || providedTo === undefined)
    return { credentials: { kind: 'client-credentials', issuer, clientId, clientSecret } };
  const { grants, key } = await sealing(directory);
  const jwe = await sealAuthorization({
    authorization: token,
    serverUrl: server.url,
    binding: RUN,
    key,
    expiresInSeconds: 600,
  });
  // The scenario's identity provider accepts any client.
  const identityProvider = { issuer: provider, clientId: providedTo, clientSecret: 'conformance' };
  return {
    credentials: { kind: 'enterprise-managed', issuer, clientId, clientSecret, identityProvider },
    grants,
    grant: { server: server.name, jwe },
  };
}

/** Makes a zone key, with which workers also seal the states of servers. */
export async function sealing(directory: string) {
  const { publicKey, privateKey } = await generateKeyPair(SEALING.alg, { crv: SEALING.curve, extractable: true });
  await writeFile(join(directory, 'zone.pem'), await exportPKCS8(privateKey));
  const grants = { keys: [{ kid: 'zone', privateKeyFile: 'zone.pem' }] };
  return { grants, key: { ...(await exportJWK(publicKey)), kid: 'zone' } };
}

/** Finds the issuer that the operator of the server would have been told. */
async function issuerOf(server: string): Promise<string> {
  const challenge = (await fetch(server, { method: 'POST' })).headers.get('www-authenticate') ?? '';
  const metadata = /resource_metadata="([^"]+)"/.exec(challenge)?.[1] ?? '';
  // Sound: RFC 9728 §2; a server of the suite that sends something else fails the scenario.
  const { authorization_servers: issuers } = (await (await fetch(metadata)).json()) as {
    readonly authorization_servers: readonly string[];
  };
  return issuers[0] ?? '';
}
