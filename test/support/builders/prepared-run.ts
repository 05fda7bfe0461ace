import type { PreparedRun } from '../../../contracts/wire/run.ts';
import { specHash } from '../../../domain/request/digest.ts';
import { runSpec } from './run-spec.ts';

export function preparedRun(over: Partial<PreparedRun> = {}): PreparedRun {
  const spec = runSpec();
  return {
    specHash: specHash(spec),
    policyVersion: 'b'.repeat(64),
    limits: spec.limits,
    initiator: spec.initiator,
    servers: [{ name: 'files', url: 'https://files.example/mcp' }],
    opening: [{ role: 'user', text: 'Tidy the notes.' }],
    priority: { fairnessKey: 'tenant', fairnessWeight: 1, priorityKey: 3 },
    ...over,
  };
}
