/** A server words its questions, and may put another one in the place of the one that was read: an answer names the one that it is to. */
import { describe, expect, test } from '@jest/globals';
import { type AnswerOptions, answerPause } from '../../../../cli/verbs/answer.ts';
import type { RunHandle } from '../../../../client/index.ts';
import type { ApprovalRequest, PauseAck, PauseKind } from '../../../../contracts/schemas/request.ts';
import { approvalRequest } from '../../../support/builders/approval-request.ts';
import { ledgerOf } from '../../../support/builders/ledger.ts';
import { outcomePause } from '../../../support/builders/pause.ts';

const NEWEST = 'b'.repeat(64);
const QUESTION = { kind: 'input', round: 2, requests: {} } as const;

/** A run that asks this of its call now. */
function scene(about: NonNullable<ApprovalRequest['about']>) {
  const said: unknown[] = [];
  const shown: ApprovalRequest[] = [];
  const request: ApprovalRequest = { ...approvalRequest(), digest: NEWEST, about };
  const fact = { kind: 'input.provided', callId: 't1.c0', decisionId: 'mine', answer: 'provide' } as const;
  const taken = { ...fact, generation: 1, digest: 'a'.repeat(64), runId: 'r', approver: { id: 'ann', groups: [] } };
  // Sound: nothing else is asked of a run here.
  const run = {
    runId: 'nightly',
    requests: async () => await Promise.resolve([request]),
    ledger: async () => await Promise.resolve(ledgerOf([taken])),
  } as unknown as RunHandle;
  const ack: PauseAck = { callId: 't1.c0', decisionId: 'd', answer: 'provide', decidedBy: 'ann', decidedAt: 'now' };
  const answer = async <Kind extends PauseKind>(kind: Kind, options: Partial<AnswerOptions> = {}, now = 'provide') =>
    await answerPause(
      run,
      't1.c0',
      { as: 'ann', ...options },
      {
        kind,
        asksNot: 'asks nothing',
        ...(kind === 'input' ? { unread: (unread) => void shown.push(unread) } : {}),
        say: (_, base) => base,
        send: async (base) => {
          said.push(base);
          return await Promise.resolve(ack);
        },
        told: (given) => [[given.answer, now]],
      },
    );
  return { said, shown, request, answer };
}

describe('an answer to a question', () => {
  test('that names none is not sent: whoever gives it is shown the question as it is now', async () => {
    const { said, shown, request, answer } = scene({ ...QUESTION, held: true });
    await expect(answer('input')).rejects.toMatchObject({
      code: 'USAGE',
      message: expect.stringMatching(/--digest.*nothing was sent/),
    });
    expect(said).toEqual([]);
    expect(shown).toEqual([request]);
  });

  test('is as little taken where no connection is held: the next question comes as the first is answered', async () => {
    const { said, answer } = scene(QUESTION);
    await expect(answer('input', { decisionId: 'new' })).rejects.toMatchObject({ code: 'USAGE' });
    expect(said).toEqual([]);
  });

  test('to one that is not open any more is not sent either', async () => {
    const { said, shown, answer } = scene({ ...QUESTION, held: true });
    await expect(answer('input', { digest: 'c'.repeat(64) })).rejects.toMatchObject({ code: 'DIGEST_MISMATCH' });
    expect([said, shown]).toEqual([[], []]);
  });

  test('to the one that was read is sent, with its digest', async () => {
    const { said, shown, answer } = scene(QUESTION);
    await answer('input', { digest: NEWEST });
    expect(said).toMatchObject([{ digest: NEWEST, callId: 't1.c0' }]);
    expect(shown).toEqual([]);
  });

  test('whose receipt got lost needs its id alone (INV-D3)', async () => {
    const { said, answer } = scene(QUESTION);
    expect((await answer('input', { decisionId: 'mine' })).ack).toMatchObject({ decisionId: 'mine' });
    expect(said).toEqual([]);
  });

  test.each<[string, Partial<AnswerOptions>, string]>([
    ['somebody else', { as: 'bob' }, 'provide'],
    ['another question', { digest: 'c'.repeat(64) }, 'provide'],
    ['another answer', {}, 'decline'],
  ])('under the id of one that was taken gets no receipt, where it is of %s', async (_, options, now) => {
    const { said, answer } = scene(QUESTION);
    await expect(answer('input', { decisionId: 'mine', ...options }, now)).rejects.toMatchObject({
      code: 'DECISION_INVALID',
      facts: { path: 'decisionId' },
    });
    expect(said).toEqual([]);
  });
});

test('what became of a call is the same question whenever it is asked, and may be answered without', async () => {
  const { said, answer } = scene(outcomePause());
  await answer('outcome');
  expect(said).toMatchObject([{ digest: NEWEST }]);
});
