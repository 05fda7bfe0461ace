/** Who decides a request reads who would make the call (docs/adr/0080). */
import { expect, test } from '@jest/globals';
import { plain } from '../../../../cli/session/terminal.ts';
import { requestText } from '../../../../cli/views/request.ts';
import { approvalRequest } from '../../../support/builders/approval-request.ts';

test('a request says that the provider of a model makes the call, and only then', () => {
  const shown = (request: ReturnType<typeof approvalRequest>): string =>
    requestText(request, { full: true, now: 0 }, plain);
  expect(shown({ ...approvalRequest(), hosted: 'gpt' })).toMatch(/^ *called by +the provider of model gpt$/m);
  expect(shown({ ...approvalRequest(), hosted: 'g\u202Ept' })).not.toContain('\u202E');
  expect(shown(approvalRequest())).not.toContain('called by');
});
