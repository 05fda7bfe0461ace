/** Decisions of several people on one run: no message of one changes what that of another says. */
import { expect, test } from '@jest/globals';
import type { Client } from '@temporalio/client';
import { defined } from '../../../contracts/defined.ts';
import { Answering, mayTell } from '../../../gateway/inbox/answering.ts';
import type { Reading } from '../../../gateway/inbox/reading.ts';
import type { Opened } from '../../../gateway/projection/opened.ts';
import { approvalRequest } from '../../support/builders/approval-request.ts';
import { asker, known } from '../../support/scenes/asking.ts';

const request = approvalRequest();

type Body = Parameters<Answering['answer']>[2];

function bodyOf(runId: string | undefined): Body {
  return { digest: request.digest, ...defined({ runId }) };
}

function answering(): Answering {
  const reading = {
    seen: async () => await Promise.resolve({ run: known().row, initiator: 'zoe' }),
    requestOf: async () => await Promise.resolve(request),
  };
  const opened = { requests: async () => await Promise.resolve([request]), forget: () => undefined };
  // Sound: these are what it uses of each; no message is sent.
  return new Answering(
    { client: { options: { namespace: 'default' } } as unknown as Client, taskQueue: 'queue' },
    {
      reading: reading as unknown as Reading,
      opened: opened as unknown as Opened,
      projection: { touch: () => undefined },
    },
  );
}

test('a guessed Idempotency-Key does not send the decision of another person to an execution of its choice', async () => {
  const service = answering();
  const place = { run: 'run-1', callId: request.callId, key: 'key-1' };
  const execution = async (id: string, runId?: string): Promise<string> =>
    await service.answer(
      asker({ id }),
      place,
      bodyOf(runId),
      async (_, message) => await Promise.resolve(message.runId),
    );
  expect(await execution('eve', 'another-execution')).toBe('another-execution');
  expect(await execution('ann')).toBe(request.runId);
  // One's own message sent again names what it named.
  expect(await execution('eve')).toBe('another-execution');
});

test('where policy ignores the case of ids, the initiator may write to the run in any spelling', () => {
  expect(mayTell({ initiator: 'zoe' }, asker({ id: 'Zoe' }))).toBe(false);
  expect(mayTell({ initiator: 'zoe' }, asker({ id: 'Zoe', idCase: 'ignored' }))).toBe(true);
});
