/**
 * Sets the place of a run's activities in a queue: the run's priority, and its tenant's share.
 *
 * 1. The share is that of the tenant that was admitted, not of one the starter names: nobody queues as somebody else.
 */
import type { Fairness, RunSpec } from '../../contracts/schemas/run-spec.ts';
import { byteLength, hashOf } from '../../domain/text/canonical.ts';
import type { RunPriority } from '../../contracts/wire/identity.ts';

/** Temporal's limit for a fairness key. */
const KEY_BYTES = 64;

export function priorityOf(
  { priority, highest, tenants }: Fairness,
  { priority: asked, initiator: { tenant } }: Pick<RunSpec, 'priority' | 'initiator'>,
): RunPriority {
  const own = Object.hasOwn(tenants, tenant) ? tenants[tenant] : undefined;
  const first = own?.highest ?? highest;
  return {
    // Priority 1 comes first, so the larger number is the more modest one.
    priorityKey: Math.max(asked ?? own?.priority ?? priority, first),
    fairnessKey: byteLength(tenant) <= KEY_BYTES ? tenant : hashOf(tenant),
    fairnessWeight: own?.weight ?? 1,
  };
}
