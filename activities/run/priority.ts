/**
 * Where the activities of a run stand in a queue: its priority, and its tenant's share.
 *
 * 1. The share is the tenant's as the run was admitted, and no word of the starter: nobody queues as somebody else.
 */
import type { Fairness, RunSpec } from '../../contracts/schemas/run-spec.ts';
import { byteLength, hashOf } from '../../domain/text/canonical.ts';
import type { RunPriority } from '../../contracts/wire/identity.ts';

/** What Temporal takes for a key. */
const KEY_BYTES = 64;

export function priorityOf(
  { priority, highest, tenants }: Fairness,
  { priority: asked, initiator: { tenant } }: Pick<RunSpec, 'priority' | 'initiator'>,
): RunPriority {
  const own = Object.hasOwn(tenants, tenant) ? tenants[tenant] : undefined;
  const first = own?.highest ?? highest;
  return {
    // 1 comes first: the larger number is the more modest one.
    priorityKey: Math.max(asked ?? own?.priority ?? priority, first),
    fairnessKey: byteLength(tenant) <= KEY_BYTES ? tenant : hashOf(tenant),
    fairnessWeight: own?.weight ?? 1,
  };
}
