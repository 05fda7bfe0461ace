import type { JsonObject } from '../../../contracts/schemas/json.ts';
import type { ApprovalRequest } from '../../../contracts/schemas/request.ts';
import { requestDigest } from '../../../domain/request/digest.ts';
import { approverRule } from './judgement.ts';
import { toolTarget } from './tool.ts';

/** Makes a request as the `requests` query shows it, with the digest of its fields. */
export function approvalRequest(args: JsonObject = { path: 'notes.txt' }): ApprovalRequest {
  const { server, serverUrl, tool, definitionHash } = toolTarget();
  const about = { namespace: 'default', tenant: 'default', workflowId: 'run/1', runId: 'run-1', callId: 't1.c0' };
  const approvers = approverRule();
  return {
    ...about,
    generation: 1,
    status: 'open',
    digest: requestDigest({ ...about, generation: 1, target: toolTarget(), arguments: args, approvers }),
    server,
    serverUrl,
    tool,
    definitionHash,
    arguments: args,
    rules: ['organisation/default'],
    approvers,
    openedAt: '2026-01-01T00:00:00.000Z',
    deadline: '2026-01-01T01:00:00.000Z',
  };
}
