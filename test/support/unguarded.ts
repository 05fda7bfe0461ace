/** The workflow bundle with a guard that knows no direct query (docs/adr/0044): shows that a test of the guard can fail. */
import type { WorkflowBundle } from '../../workers/bundle.ts';

const KNOWN = "const DIRECT = 'legacy_query';";

export function withoutGuard({ code, buildId }: WorkflowBundle): WorkflowBundle {
  const without = code.replace(KNOWN, "const DIRECT = 'no query';");
  if (without === code) throw new Error('the bundle holds no guard that could be taken out');
  return { code: without, buildId: `${buildId}-bare` };
}
