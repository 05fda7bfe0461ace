/** The trusted keys of a document as those who verify hold them. */
import type { TrustedJwk, TrustedKey } from '../../contracts/schemas/trust.ts';

/** What a tenant's messages are verified with; keys of other tenants are left out. */
export function trustedKeysFor(jwks: readonly TrustedJwk[], tenant: string): TrustedKey[] {
  return jwks.filter(({ countersign }) => countersign.tenants.includes(tenant)).map(compact);
}

/** The path of what stands there a second time: one key is one voice, under one name. */
export function doubledIn(jwks: readonly TrustedJwk[]): string | undefined {
  for (const field of ['kid', 'x'] as const) {
    const seen = new Set<string>();
    for (const [index, key] of jwks.entries()) {
      if (seen.has(key[field])) return `keys[${index}].${field}`;
      seen.add(key[field]);
    }
  }
  return undefined;
}

function compact({ kid, x, countersign }: TrustedJwk): TrustedKey {
  const { iss, groups, holder, retired } = countersign;
  return {
    kid,
    x,
    iss,
    groups,
    ...(countersign.kind === 'person' ? { sub: countersign.sub } : {}),
    ...(countersign.kind === 'service' && countersign.speaksForMany === true ? { speaksForMany: true } : {}),
    ...(holder === undefined ? {} : { holder }),
    ...(retired === undefined ? {} : { retired: Math.floor(Date.parse(retired) / 1_000) }),
  };
}
