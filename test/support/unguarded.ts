/** The workflow bundle with another guard of queries (docs/adr/0044): shows that tests of the guard can fail. */
import type { WorkflowBundle } from '../../workers/bundle.ts';

const KNOWN = "const DIRECT = 'legacy_query';";
const DIRECT_ONLY = "return kind === 'direct' && isDoubtful;";

export function withoutGuard({ code, buildId }: WorkflowBundle): WorkflowBundle {
  const without = code.replace(KNOWN, "const DIRECT = 'no query';");
  if (without === code) throw new Error('the bundle holds no guard that could be taken out');
  return { code: without, buildId: `${buildId}-bare` };
}

/** The bundle with a guard that refuses whatever it doubts, be it a workflow task: shows what the first rule of the guard is worth. */
export function refusingTasks({ code, buildId }: WorkflowBundle): WorkflowBundle {
  const without = code.replace(DIRECT_ONLY, 'return isDoubtful;');
  if (without === code) throw new Error('the bundle holds no guard that spares workflow tasks');
  return { code: without, buildId: `${buildId}-strict` };
}
