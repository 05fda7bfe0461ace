/** The workflow bundle without the guard (docs/adr/0044): shows that a test of the guard can fail. */
import type { WorkflowBundle } from '../../workers/bundle.ts';

const REGISTERED = /__webpack_require__\([^)]*"\.\/workflows\/query-guard\.ts"\),?/;

export function withoutGuard({ code, buildId }: WorkflowBundle): WorkflowBundle {
  const without = code.replace(
    new RegExp(`(function importInterceptors\\(\\) \\{\\s*return \\[\\s*)${REGISTERED.source}`),
    '$1',
  );
  if (without === code) throw new Error('the bundle holds no guard that could be taken out');
  return { code: without, buildId: `${buildId}-bare` };
}
