/** A build that does otherwise: it sets a timer where a decision is taken. Bundled into the workflows of a worker of its own. */
import { sleep, type WorkflowInterceptors } from '@temporalio/workflow';
import { UPDATES } from '../../contracts/names.ts';

export function interceptors(): WorkflowInterceptors {
  return {
    inbound: [
      {
        handleUpdate: async (input, next) => {
          if (input.name === UPDATES.decide) void sleep('1 day').catch(() => undefined);
          return await next(input);
        },
      },
    ],
  };
}
