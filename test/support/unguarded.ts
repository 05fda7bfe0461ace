/**
 * Makes workflow bundles with another guard of queries (docs/adr/0044), so that tests of the guard can be
 * seen to fail.
 */
import type { WorkflowBundle } from '../../workers/bundle.ts';

const KNOWN = "const DIRECT = 'legacy_query';";
const DIRECT_ONLY = "return kind === 'direct' && isDoubtful;";

export function withoutGuard({ code, buildId }: WorkflowBundle): WorkflowBundle {
  const without = code.replace(KNOWN, "const DIRECT = 'no query';");
  if (without === code) throw new Error('the bundle holds no guard that could be taken out');
  return { code: without, buildId: `${buildId}-bare` };
}

/** Makes a bundle whose guard also refuses doubtful workflow tasks, to show what the guard's first rule is worth. */
export function refusingTasks({ code, buildId }: WorkflowBundle): WorkflowBundle {
  const without = code.replace(DIRECT_ONLY, 'return isDoubtful;');
  if (without === code) throw new Error('the bundle holds no guard that spares workflow tasks');
  return { code: without, buildId: `${buildId}-strict` };
}
