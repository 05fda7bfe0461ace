/**
 * An interceptor for the bundles of workers that tests kill: Temporal notices within 15 seconds that such a worker is
 * lost, and not within 30 or 60. Workers send a heartbeat every 5 seconds, or more often where the timeout is short.
 *
 * Only the timeout differs from the product's own bundle: the same activities have one, and what follows is the same.
 */
import type { WorkflowInterceptors } from '@temporalio/workflow';

const TIMEOUT = '15s';

export function interceptors(): WorkflowInterceptors {
  return {
    outbound: [
      {
        scheduleActivity: (input, next) =>
          next(
            input.options.heartbeatTimeout === undefined
              ? input
              : { ...input, options: { ...input.options, heartbeatTimeout: TIMEOUT } },
          ),
      },
    ],
  };
}
