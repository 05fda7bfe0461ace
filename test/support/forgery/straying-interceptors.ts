/**
 * A build that behaves differently: it sets a timer when a decision is accepted, or when a catalog's tools
 * are set. It is bundled into the workflows of a worker of its own.
 */
import { sleep, type WorkflowInterceptors } from '@temporalio/workflow';
import { CATALOG_UPDATES, UPDATES } from '../../../contracts/names.ts';

const STRAYS: readonly string[] = [UPDATES.decide, CATALOG_UPDATES.setToolPolicies];

export function interceptors(): WorkflowInterceptors {
  return {
    inbound: [
      {
        handleUpdate: async (input, next) => {
          if (STRAYS.includes(input.name)) void sleep('1 day').catch(() => undefined);
          return await next(input);
        },
      },
    ],
  };
}
