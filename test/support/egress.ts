/** The way out of tests, whose servers are all on this machine. */
import { createEgress, type EgressOptions } from '../../activities/egress/fetch.ts';

/** As an operator says it for development; all else as in production. */
export const LOOPBACK = { allowLoopback: true } as const;

/** To any server of a test. */
export function loopbackEgress(over: Partial<EgressOptions> = {}) {
  return createEgress({
    rules: { allowLoopback: true, allowInsecure: false, allowPrivate: [] },
    origins: { has: () => true },
    ...over,
  });
}
