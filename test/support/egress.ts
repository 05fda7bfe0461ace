/** Makes the egress of tests, whose servers are all on this machine. */
import { createEgress, type EgressOptions } from '../../activities/egress/fetch.ts';

/** The operator's setting for development; everything else is as in production. */
export const LOOPBACK = { allowLoopback: true } as const;

/** Makes an egress to any server of a test. */
export function loopbackEgress(over: Partial<EgressOptions> = {}) {
  return createEgress({
    rules: { allowLoopback: true, allowInsecure: false, allowPrivate: [] },
    origins: { has: () => true },
    ...over,
  });
}
