/** Makes sealed grants of one run and one server: sealed as a client does, opened as a worker does. */
import type { MintedToken, TokenRequest } from '../../../activities/tokens/port.ts';
import { type PrivateKeys, sealedStrategy } from '../../../activities/tokens/sealed.ts';
import { sealAuthorization, type SealingRequest } from '../../../client/signing/sealing.ts';
import type { SealedGrant } from '../../../contracts/schemas/run-spec.ts';
import { privateKeysOf, type ZoneKey } from './keys.ts';

export const TOKEN = 'gho_16C7e42F292c6912E7710c838347Ae178B4a';
/** Milliseconds since the epoch. */
export const NOW = Date.parse('2026-03-01T12:00:00.000Z');
export const BINDING = { namespace: 'default', workflowId: 'refund-1', specHash: 'a'.repeat(64) };
export const SERVER_URL = 'https://mcp.example.com/mcp';

export function runOf(change: Partial<typeof BINDING> = {}): TokenRequest['run'] {
  return { ...BINDING, ...change };
}

export async function seal(zone: ZoneKey, change: Partial<SealingRequest> = {}): Promise<SealedGrant> {
  const base = { authorization: TOKEN, serverUrl: SERVER_URL, binding: BINDING, key: zone.publicJwk };
  return sealAuthorization({ ...base, expiresInSeconds: 3_600, now: () => NOW, ...change });
}

export interface Opening {
  readonly keys?: PrivateKeys;
  readonly givenTokens?: 'allow' | 'deny';
  readonly now?: number;
  readonly request?: Partial<TokenRequest>;
}

export async function open(zone: ZoneKey, jwe: SealedGrant, opening: Opening = {}): Promise<MintedToken> {
  const { keys = privateKeysOf(zone), givenTokens = 'allow', now = NOW, request } = opening;
  return sealedStrategy({ keys, givenTokens, now: () => now }).mint({
    run: runOf(),
    server: 'notes',
    serverUrl: SERVER_URL,
    grant: { server: 'notes', jwe },
    ...request,
  });
}
