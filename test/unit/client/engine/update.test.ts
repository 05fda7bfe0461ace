/** An update that is answered by a trouble which may have passed is asked once more, under another id (INV-D3). */
import { describe, expect, test } from '@jest/globals';
import { WorkflowUpdateFailedError } from '@temporalio/client';
import type { Engine } from '../../../../client/engine/engine.ts';
import { sendUpdate } from '../../../../client/engine/update.ts';
import { CountersignError, type ErrorCode } from '../../../../contracts/errors.ts';

async function sent(...codes: readonly (ErrorCode | CountersignError)[]) {
  const left = [...codes];
  const ids: (string | undefined)[] = [];
  // Sound: nothing else of it is used.
  const engine = { update: async (_about: unknown, act: () => Promise<unknown>) => await act() } as unknown as Engine;
  const answer = await sendUpdate(engine, 'some-run', 'own', async ({ updateId }) => {
    ids.push(updateId);
    const code = left.shift();
    if (code instanceof CountersignError) throw code;
    if (code !== undefined) throw new CountersignError(code, `It was ${code}.`);
    return 'answer';
  }).catch((error: unknown) => error);
  return { answer, ids };
}

test.each<ErrorCode>(['CATALOG_UNAVAILABLE', 'JUDGE_UNAVAILABLE', 'TRUST_UNAVAILABLE'])(
  'Temporal would go on answering %s under the first id',
  async (code) => {
    expect(await sent(code)).toEqual({ answer: 'answer', ids: ['own', undefined] });
  },
);

test('that Temporal was away is recorded where the workflow says so, and not where the client does', async () => {
  const cause = new WorkflowUpdateFailedError('Workflow Update failed', undefined);
  expect((await sent(new CountersignError('ENGINE_UNAVAILABLE', 'away', {}, { cause }))).ids).toEqual([
    'own',
    undefined,
  ]);
  expect((await sent('ENGINE_UNAVAILABLE')).ids).toEqual(['own']);
});

test('once, and then it is told', async () => {
  const { answer, ids } = await sent('CATALOG_UNAVAILABLE', 'CATALOG_UNAVAILABLE');
  expect(answer).toMatchObject({ code: 'CATALOG_UNAVAILABLE' });
  expect(ids).toHaveLength(2);
});

test('a refusal is an answer', async () => {
  const { answer, ids } = await sent('CATALOG_FORBIDDEN');
  expect(answer).toMatchObject({ code: 'CATALOG_FORBIDDEN' });
  expect(ids).toEqual(['own']);
});

describe('an answer that is of another message', () => {
  const SAID = { decisionId: 'd', callId: 't1.c0', comment: 'checked' };
  const ADVANCE = { runId: 'r', cursor: 1, status: 'waiting' };

  /** Temporal answers the first sendings with these, the next with the run's own. */
  async function answered(first: unknown, message?: object, updateId: string | undefined = 'own', ...more: unknown[]) {
    const told = [first, ...more];
    const ids: (string | undefined)[] = [];
    // Sound: nothing else of it is used.
    const engine = { update: async (_about: unknown, act: () => Promise<unknown>) => await act() } as unknown as Engine;
    const send = async (id: { readonly updateId?: string }): Promise<unknown> => {
      ids.push(id.updateId);
      if (told.length === 0) return 'own';
      const next = told.shift();
      if (next instanceof Error) throw next;
      return next;
    };
    return { answer: await sendUpdate(engine, 'some-run', updateId, send, message), ids };
  }

  test.each<[string, unknown]>([
    ['of another update', ADVANCE],
    ['of another decision', { decisionId: 'e', callId: 't1.c0', status: 'approved' }],
    ['of another call', { decisionId: 'd', callId: 't1.c1', status: 'approved' }],
    ['nothing', undefined],
    ['no object', 'yes'],
  ])('is not taken for an answer: %s', async (_, first) => {
    expect(await answered(first, SAID)).toEqual({ answer: 'own', ids: ['own', undefined] });
  });

  test('is not taken for one either where Temporal has lost the first sending (docs/adr/0048)', async () => {
    const lost = Object.assign(new Error('the workflow has ended'), { type: 'AcceptedUpdateCompletedWorkflow' });
    expect(await answered(lost, SAID, 'own', ADVANCE)).toEqual({ answer: 'own', ids: ['own', 'own', undefined] });
    const own = { decisionId: 'd', callId: 't1.c0', status: 'approved' };
    expect(await answered(lost, SAID, 'own', own)).toEqual({ answer: own, ids: ['own', 'own'] });
  });

  test('its own is taken, and that of a message whose answer repeats nothing', async () => {
    const own = { decisionId: 'd', callId: 't1.c0', status: 'approved' };
    expect(await answered(own, SAID)).toEqual({ answer: own, ids: ['own'] });
    expect(await answered(ADVANCE, { messageId: 'm', text: 'Wait.' })).toEqual({ answer: ADVANCE, ids: ['own'] });
    expect(await answered(ADVANCE)).toEqual({ answer: ADVANCE, ids: ['own'] });
  });
});
