/**
 * Finds the vault entry that a run's grant names, and says whether this run may use it.
 *
 * 1. The owner of an entry is stored beside its secret, not in the run. A run that names an entry of somebody else
 *    learns nothing about it, not even that it exists.
 */
import { defined } from '../../contracts/defined.ts';
import { codedFailureIn } from '../../contracts/failure.ts';
import type { VaultEntry, VaultSecret } from '../../contracts/schemas/stores.ts';
import { canonicalServerUrl } from '../../domain/text/urls.ts';
import type { HeldEntry, Vault } from '../vault/port.ts';
import { unverifiedEvidence } from './asked.ts';
import { type MintedToken, tokenError, type TokenRequest, type TokenStrategy } from './port.ts';

/** Returns the entry under a reference, if this request may use it. @throws what the token port allows */
export function usableEntry(
  held: HeldEntry | undefined,
  request: TokenRequest,
  kind: VaultSecret['kind'],
  now: number,
): HeldEntry {
  const { server } = request;
  if (held === undefined || !isBoundTo(held.entry, request)) {
    const message = `The grant for ${server} names a vault entry that is not there, or not for this run. Name one that is bound to its tenant, its initiator and this server (countersign vault list).`;
    throw tokenError('GRANT_INVALID', message, { server });
  }
  const { secret, expiresAt, refusedAt } = held.entry;
  if (secret.kind !== kind) {
    const wanted = kind === 'token' ? 'given' : 'refresh';
    const message = `The grant for ${server} names a vault entry that holds a ${secret.kind}, and servers with credentials ${wanted} take a ${kind}. Put another one into the vault.`;
    throw tokenError('GRANT_INVALID', message, { server });
  }
  if (refusedAt !== undefined) {
    const message = `No token for ${server}: its issuer refused the refresh token at ${refusedAt}. Put a new one into the vault.`;
    throw tokenError('TOKEN_REFUSED', message, { server });
  }
  if (expiresAt !== undefined && now >= Date.parse(expiresAt)) {
    const message = `The grant for ${server} expired at ${expiresAt}. Put a new one into the vault.`;
    throw tokenError('GRANT_EXPIRED', message, { server, expiredAt: expiresAt });
  }
  return held;
}

function isBoundTo({ bound }: VaultEntry, { initiator, serverUrl }: TokenRequest): boolean {
  return (
    initiator !== undefined &&
    bound.tenant === initiator.tenant &&
    bound.initiators.includes(initiator.id) &&
    canonicalServerUrl(bound.server) === canonicalServerUrl(serverUrl)
  );
}

export function namedRef({ grant, server }: TokenRequest): string {
  if (grant === undefined) {
    const message = `${server} needs an authorization and the run was started without one. Start the run with a grant for ${server} that names a vault entry (ref).`;
    throw tokenError('GRANT_MISSING', message, { server });
  }
  if (!('ref' in grant) || grant.server !== server) {
    const message = `${server} takes the name of a vault entry (ref), and the run gives something else. Start it with grants: [{server: ${server}, ref: …}].`;
    throw tokenError('GRANT_INVALID', message, { server });
  }
  return grant.ref;
}

/** Turns failures of the vault into errors of the token port. */
export async function ofVault<Value>(server: string, use: () => Promise<Value>): Promise<Value> {
  try {
    return await use();
  } catch (error) {
    const coded = codedFailureIn(error);
    if (coded === undefined || !FAILURES.has(coded.code)) throw error;
    const code = coded.code === 'VAULT_UNAVAILABLE' ? 'TOKEN_UNAVAILABLE' : 'TOKEN_REFUSED';
    throw tokenError(code, `No token for ${server}: ${coded.message}`, { server });
  }
}

const FAILURES: ReadonlySet<string> = new Set([
  'VAULT_UNAVAILABLE',
  'VAULT_CORRUPT',
  'VAULT_READ_ONLY',
  'CONFIG_INVALID',
]);

/** `given` with a reference: a long-lived token, used as it is. */
export function vaultedTokenStrategy(vault: Vault, now: () => number): TokenStrategy {
  return {
    async mint(request): Promise<MintedToken> {
      const { server } = request;
      const ref = namedRef(request);
      const held = await ofVault(server, async () => await vault.read(ref));
      const { entry } = usableEntry(held, request, 'token', now());
      const { token } = entry.secret;
      if (token === request.refused) {
        const message = `${server} refused the token of the vault entry that the run names. Put one into the vault that is still good.`;
        throw tokenError('TOKEN_REFUSED', message, { server });
      }
      const { expiresAt } = entry;
      return {
        accessToken: token,
        evidence: unverifiedEvidence('vault', token, [token]),
        secrets: [token],
        ...defined({ grantExpiresAt: expiresAt }),
      };
    },
  };
}
