/** Stands in a test's bundle for an interceptor that older builds did not have. */
import type { WorkflowInterceptors } from '@temporalio/workflow';

export function interceptors(): WorkflowInterceptors {
  return {};
}
