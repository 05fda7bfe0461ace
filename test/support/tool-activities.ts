/** The tool activities of a run, in a mock of their environment: what Temporal would say of them, without Temporal. */
import { MockActivityEnvironment } from '@temporalio/testing';
import { DefaultLogger } from '@temporalio/worker';
import type { DispatchInput, RunIdentity } from '../../contracts/activities.ts';
import type { JsonObject } from '../../contracts/schemas/json.ts';
import type { ServerBinding } from '../../contracts/schemas/tool.ts';
import type { OfferedTool } from '../../domain/toolset.ts';

export const RUN: RunIdentity = {
  namespace: 'default',
  workflowId: 'conformance',
  initiator: { id: 'ann', groups: [], tenant: 'default' },
  specHash: 'a'.repeat(64),
};
const RUN_ID = 'run-1';

/** Runs an activity as Temporal would for the one run that there is. */
export async function inActivity<Input, Output>(
  activity: (input: Input) => Promise<Output>,
  input: Input,
): Promise<Output> {
  const environment = new MockActivityEnvironment(
    {
      workflowType: 'agentRun',
      namespace: RUN.namespace,
      workflowNamespace: RUN.namespace,
      workflowExecution: { workflowId: RUN.workflowId, runId: RUN_ID },
    },
    { logger: new DefaultLogger('ERROR') },
  );
  return await environment.run(activity, input);
}

/** What the run sends for a call that policy allows. */
export function allowedDispatch(
  tool: OfferedTool,
  args: JsonObject,
  toolset: DispatchInput['toolset'],
  { at = 0, callTimeoutSeconds = 20, server }: { at?: number; callTimeoutSeconds?: number; server: ServerBinding },
): DispatchInput {
  const callId = `t1.c${at}`;
  const { serverUrl, definition, hash, modelName } = tool;
  return {
    run: RUN,
    runId: RUN_ID,
    decidedIn: [RUN_ID],
    callId,
    name: modelName,
    target: { server: tool.server, serverUrl, tool: definition.name, definitionHash: hash },
    arguments: args,
    proof: { kind: 'policy', rules: ['organisation/strategy/never'] },
    toolset,
    server,
    limits: { resultBytes: 65_536, callTimeoutSeconds },
    attempt: 1,
    idempotencyKey: `${RUN.workflowId}/${callId}`,
  };
}
