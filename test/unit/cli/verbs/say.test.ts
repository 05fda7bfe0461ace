/** `countersign say`: a message whose answer got lost can be sent again under its id (INV-G2). */
import { expect, test } from '@jest/globals';
import { sayTo } from '../../../../cli/verbs/run.ts';
import { CountersignError, type ErrorCode } from '../../../../contracts/errors.ts';

const message = { messageId: 'm-1', from: 'ann', text: 'hello' };
const failing = (code: ErrorCode) => ({
  say: async () => {
    throw new CountersignError(code, 'Send it again.', { runId: 'run-1' });
  },
});

test('who does not know whether it was taken is told the id; of anything else what it was', async () => {
  await expect(sayTo(failing('RESULT_UNCERTAIN'), message)).rejects.toMatchObject({
    code: 'RESULT_UNCERTAIN',
    message: 'Send it again. Here: add --message-id m-1',
    facts: { runId: 'run-1', messageId: 'm-1' },
  });
  await expect(sayTo(failing('RUN_CLOSED'), message)).rejects.toMatchObject({ message: 'Send it again.' });
});
