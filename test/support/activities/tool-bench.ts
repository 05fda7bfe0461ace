/**
 * Assembles the activities that send a call, ask for its answer and look after its task, as a worker has them, at one
 * server with pinned tools and without Temporal.
 */
import { createMemoryStore } from '../../../activities/artifacts/memory.ts';
import { createToolsetLoader } from '../../../activities/catalog/reader.ts';
import { createCallTool } from '../../../activities/gate/call-tool.ts';
import { pinnedTools, stored } from '../../../activities/gate/discover-tools.ts';
import { createPollTask, type PollTaskParts } from '../../../activities/gate/legacy-2025/poll-task.ts';
import { createResumeCall, type ResumeCallParts } from '../../../activities/gate/legacy-2025/resume-call.ts';
import type { CallToolParts } from '../../../activities/gate/send.ts';
import { ServerLimits } from '../../../activities/limits/server-limits.ts';
import { createMcpAnswerSource } from '../../../activities/mcp/legacy-2025/answer-stream.ts';
import { LEGACY_CALLS } from '../../../activities/mcp/legacy-2025/legacy-calls.ts';
import { createMcpTaskServer } from '../../../activities/mcp/legacy-2025/tasks.ts';
import { createMcpToolServer } from '../../../activities/mcp/mcp-server.ts';
import { Conditions } from '../../../activities/policy/condition.ts';
import { Config, type ConfigInput } from '../../../contracts/schemas/config.ts';
import type { JsonObject } from '../../../contracts/schemas/json.ts';
import type { ToolDefinition } from '../../../contracts/schemas/tool.ts';
import type { DispatchInput } from '../../../contracts/wire/tools.ts';
import { loopbackEgress } from '../egress.ts';
import { UNASKED_RUN } from './dispatch.ts';
import { aDefinition } from './tool-call.ts';
import { allowedDispatch } from './tool-activities.ts';

export interface ToolBenchOptions extends Partial<CallToolParts & ResumeCallParts & PollTaskParts> {
  /** Pinned tools; default: the one of `aDefinition`. */
  readonly definitions?: readonly ToolDefinition[];
  readonly binding?: DispatchInput['server'];
  readonly servers?: ConfigInput['servers'];
  readonly policy?: ConfigInput['policy'];
}

/** A worker of its own: benches share nothing but what they are given. */
export async function toolBench(url: string, options: ToolBenchOptions = {}) {
  const { definitions = [aDefinition()], binding = { name: 'files', url }, ...parts } = options;
  const { servers = { files: { url } }, policy = { strategy: 'never' }, ...given } = parts;
  const artifacts = createMemoryStore();
  const reach = { artifacts, egress: loopbackEgress() };
  const toolset = [{ server: binding.name, tools: await stored(artifacts, pinnedTools(binding, definitions)) }];
  const loadToolset = createToolsetLoader(artifacts);
  const offered = await loadToolset(toolset);
  const all: CallToolParts & ResumeCallParts & PollTaskParts = {
    config: Config.parse({ servers, policy }),
    conditions: new Conditions(),
    loadToolset,
    readCatalog: async () => undefined,
    broker: { mint: async () => ({ evidence: { strategy: 'none' }, secrets: [] }) },
    server: createMcpToolServer({ legacy: LEGACY_CALLS, ...reach }),
    limits: new ServerLimits({ configured: new Map(), tell: () => {} }),
    liveTools: { current: async (_, tool) => ({ tool, secrets: [] }) },
    ...UNASKED_RUN,
    answers: createMcpAnswerSource(reach),
    tasks: createMcpTaskServer(reach),
    ...given,
  };
  return {
    callTool: createCallTool(all),
    resumeCall: createResumeCall(all),
    pollTask: createPollTask(all),
    /** Makes the dispatch of a call that policy allows. */
    input: (args: JsonObject = {}, over: Partial<DispatchInput> = {}, name?: string): DispatchInput => {
      const tool = offered.find(({ definition }) => name === undefined || definition.name === name);
      if (tool === undefined) throw new Error(`no tool ${name}`);
      return { ...allowedDispatch(tool, args, toolset, { server: binding }), ...over };
    },
  };
}

export type ToolBench = Awaited<ReturnType<typeof toolBench>>;
