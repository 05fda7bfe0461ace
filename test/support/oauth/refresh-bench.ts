/** Makes brokers of workers that share a vault, over an issuer of refresh tokens. */
import { mkdtemp, rm } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { setUpRoot } from '../../../activities/artifacts/root.ts';
import { createTokenBroker, type TokenBrokerOptions } from '../../../activities/tokens/broker.ts';
import type { TokenBroker, TokenRequest } from '../../../activities/tokens/port.ts';
import { createVaultDirectory, VAULT_ROOT } from '../../../activities/vault/directory.ts';
import type { Vault } from '../../../activities/vault/port.ts';
import { Config, type ConfigInput } from '../../../contracts/schemas/config.ts';
import { loopbackEgress } from '../egress.ts';
import { entryOf, VAULT_KEYS } from '../builders/vault.ts';
import { CLIENT, requestFor, runOf, URL_OF } from './broker.ts';

export const REF = 'ann-notes';
export const SCOPES = 'notes:read notes:write';
const INITIATOR = { id: 'ann', tenant: 'default' };

export function refreshConfig(issuer: string, over: object = {}): ConfigInput {
  const credentials = {
    kind: 'refresh' as const,
    issuer,
    clientId: CLIENT.id,
    clientSecret: CLIENT.secret,
    scopes: { discovery: ['notes:read'], default: ['notes:write'], tools: { admin: ['notes:admin'] } },
    ...over,
  };
  return { servers: { notes: { url: URL_OF.notes, credentials }, files: { url: URL_OF.files, credentials } } };
}

export function workerOf(
  vault: Vault,
  issuer: string,
  over: object = {},
  options: Partial<TokenBrokerOptions> = {},
): TokenBroker {
  return createTokenBroker({
    config: Config.parse(refreshConfig(issuer, over)),
    keys: new Map(),
    vault,
    egress: loopbackEgress(),
    ...options,
  });
}

/** Makes a token request of ann's run, whose grant names the vault entry. */
export function vaultRequest(over: Partial<TokenRequest> = {}, run = 1): TokenRequest {
  return {
    ...requestFor('notes', 'write'),
    run: runOf(run),
    initiator: INITIATOR,
    grant: { server: 'notes', ref: REF },
    ...over,
  };
}

export async function putToken(vault: Vault, token: string, issuer: string): Promise<void> {
  await putTokenFor(vault, token, issuer, REF, URL_OF.notes);
}

export async function putTokenFor(
  vault: Vault,
  token: string,
  issuer: string,
  ref: string,
  server: string,
): Promise<void> {
  const before = await vault.read(ref);
  const secret = { kind: 'refresh-token' as const, token, issuer };
  await vault.write(ref, entryOf({ secret, bound: { initiators: ['ann'], server } }), before?.version);
}

/** Makes a vault on disk that processes share. */
export async function vaultFolder(): Promise<{ root: string; open: () => Vault; remove: () => Promise<void> }> {
  const parent = await mkdtemp(join(tmpdir(), 'countersign-grants-'));
  const root = join(parent, 'vault');
  setUpRoot(root, true, VAULT_ROOT);
  return {
    root,
    open: () => createVaultDirectory(root, VAULT_KEYS),
    remove: async () => rm(parent, { recursive: true, force: true }),
  };
}
