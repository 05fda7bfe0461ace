/** Trusted keys of a configuration document are turned here into the form that verifiers hold. */
import type { TrustedJwk, TrustedKey } from '../../contracts/schemas/trust.ts';

/** Returns the keys that may sign for a tenant. */
export function trustedKeysFor(jwks: readonly TrustedJwk[], tenant: string): TrustedKey[] {
  return jwks.filter(({ countersign }) => countersign.tenants.includes(tenant)).map(compact);
}

/** Returns the path of a repeated key: one key must count once, under one name. */
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
