/** Who decides a request on a page reads who would make the call (docs/adr/0080). */
import { expect, test } from '@jest/globals';
import { requestView } from '../../../../gateway/page/request.ts';
import type { RunRead } from '../../../../gateway/page/kit/port.ts';
import type { ApprovalRequest } from '../../../../contracts/schemas/request.ts';
import { approvalRequest } from '../../../support/builders/approval-request.ts';

function shown(request: ApprovalRequest): string {
  const facts = { runId: 'run-1', initiator: 'ann', startedAt: request.openedAt, status: 'running' };
  // Sound: of the run, the view reads these alone.
  const read = { facts, requests: [request], ledger: [], messages: [], mayTell: false } as unknown as RunRead;
  const viewer = { id: 'ben', groups: [], tenant: 'default', csrf: 'x' } as never;
  const { text } = requestView({ read, request, viewer, now: 0, tool: {} });
  return text.replaceAll(/<[^>]*>/g, ' ').replaceAll(/\s+/g, ' ');
}

test('a request says that the provider of a model makes the call, and only then', () => {
  expect(shown({ ...approvalRequest(), hosted: 'gpt' })).toMatch(/Called by the provider of model gpt /);
  expect(shown({ ...approvalRequest(), hosted: 'g\u202Ept' })).not.toContain('\u202E');
  expect(shown(approvalRequest())).not.toContain('Called by');
});
