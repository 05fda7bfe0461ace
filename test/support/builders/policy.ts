import type { JudgedTool, PolicyLayers } from '../../../domain/policy/judge.ts';

export function judgedTool(over: Partial<JudgedTool> = {}): JudgedTool {
  return { server: 'files', tool: 'write_file', annotations: undefined, serverTrusted: false, ...over };
}

/** Makes policy layers without any rule. */
export function policyLayers(over: Partial<PolicyLayers> = {}): PolicyLayers {
  return { organisation: {}, run: undefined, ...over };
}
