/** A person answers in the tool's place (INV-X2, INV-G1; requirements 3.10). */
import fc from 'fast-check';
import { describe, expect, test } from '@jest/globals';
import { defined } from '../../../../contracts/defined.ts';
import type { Outcome } from '../../../../contracts/schemas/call.ts';
import type { ApproverRule } from '../../../../contracts/schemas/policy.ts';
import { accept, admit, permits, refuseLongAnswer } from '../../../../domain/request/decision.ts';
import { dispatched } from '../../../../domain/request/transitions.ts';
import { closeTurn } from '../../../../domain/run/turn.ts';
import { callOf, type Run } from '../../../../domain/state/run.ts';
import { sha256Hex } from '../../../../domain/text/canonical.ts';
import { modelText, resultOf } from '../../../../domain/views/model-text.ts';
import { anyText } from '../../../support/builders/arbitraries.ts';
import { identicalCalls } from '../../../support/builders/call.ts';
import { answer, approval, askingOf, shown } from '../../../support/builders/decision.ts';
import { askVerdict } from '../../../support/builders/judgement.ts';
import { outcomes } from '../../../support/builders/outcome.ts';
import { judgedRun, runIds, START } from '../../../support/builders/run.ts';

const clause = { layer: 'organisation' as const, ids: ['ann', 'bob', 'zoe'], groups: [], need: 2 };
const askedOf = (...may: ('edit' | 'respond')[]): Run =>
  judgedRun(identicalCalls(1), () => ({ verdict: askVerdict({ approvers: { allOf: [{ ...clause, may }] } }) }));
const OPEN = askedOf('respond');
const answered = answer({ ...shown(OPEN, 't1.c0'), comment: 'by phone' });

test('who may answer is enough alone, and nothing is sent (INV-G1)', () => {
  const { run, ack, facts } = accept(OPEN, askingOf(OPEN, 't1.c0'), answered, START);
  expect(ack.status).toBe('answered');
  expect(callOf(run, 't1.c0')).toMatchObject({
    status: 'settled',
    outcome: { kind: 'answered', by: 'ann', answer: 'It is done by hand.' },
  });
  expect(dispatched(run, 't1.c0')).toBeUndefined();
  // The ledger binds the answer and does not repeat it.
  expect(facts).toMatchObject([
    {
      kind: 'decision.accepted',
      decision: 'respond',
      comment: 'by phone',
      answerHash: sha256Hex('It is done by hand.'),
    },
    { kind: 'outcome', outcome: 'answered' },
  ]);
  expect(JSON.stringify(facts)).not.toContain('by hand');
  expect(admit(run, answered, runIds(), START)).toMatchObject({ kind: 'repeat', ack });
  expect(admit(run, { ...answered, answer: 'No.' } as typeof answered, runIds(), START)).toMatchObject({
    code: 'DECISION_INVALID',
  });
  const late = approval({ ...shown(OPEN, 't1.c0'), decisionId: 'late' });
  for (const each of [run, closeTurn(run)]) {
    expect(admit(each, late, runIds(), START)).toMatchObject({
      code: 'ALREADY_DECIDED',
      message: expect.stringContaining('was answered by ann'),
    });
  }
});

test('an answer is no longer than a result may be', () => {
  const said = answer({ ...shown(OPEN, 't1.c0'), answer: 'ä'.repeat(500) });
  if (said.kind !== 'respond') throw new Error('an answer answers');
  expect(refuseLongAnswer(said, { resultBytes: 1_000 })).toBeUndefined();
  expect(refuseLongAnswer(said, { resultBytes: 999 })).toMatchObject({
    code: 'DECISION_INVALID',
    facts: { path: 'answer' },
  });
});

test('where the rule does not let them, it is refused, and the call waits', () => {
  for (const run of [askedOf(), askedOf('edit')])
    expect(admit(run, answer(shown(run, 't1.c0')), runIds(), START)).toMatchObject({ code: 'DECISION_NOT_PERMITTED' });
});

test('INV-X1: what may have run is not answered as if it had not', () => {
  const unsure = { kind: 'unknown', code: 'OUTCOME_UNKNOWN', message: 'lost' } as const;
  const run = { ...OPEN, calls: [{ ...askingOf(OPEN, 't1.c0'), unsure }] };
  expect(admit(run, answered, runIds(), START)).toMatchObject({ code: 'DECISION_NOT_PERMITTED' });
});

test('INV-G4: every list must permit it, and silence does not', () => {
  const rule = (...lists: (('edit' | 'respond')[] | undefined)[]): ApproverRule => ({
    allOf: lists.map((may) => ({ ...clause, ...defined({ may }) })),
  });
  expect(permits(rule(['respond']), 'respond')).toBe(true);
  expect(permits(rule(['respond'], ['edit', 'respond']), 'respond')).toBe(true);
  for (const no of [rule(), rule(undefined), rule(['edit']), rule(['respond'], undefined), rule(['respond'], [])])
    expect(permits(no, 'respond')).toBe(false);
});

describe('INV-X2: what the model reads', () => {
  test('of an answer: whose it is, that nothing ran, and the answer', () => {
    const { text, isError } = modelText(outcomes().answered);
    expect(text).toMatch(/^Not executed: ann answered in the tool's place\./);
    expect(text).toContain('Do not retry');
    expect(text.endsWith('\nIt is done by hand.')).toBe(true);
    expect(isError).toBe(true);
  });

  test('no tool can say the same, whatever it returns', () => {
    fc.assert(
      fc.property(anyText(), anyText(), fc.boolean(), (said, told, isError) => {
        const result = { content: [{ type: 'text' as const, text: said }] };
        const byTool: Extract<Outcome, { kind: 'failed' | 'succeeded' }> = isError
          ? { kind: 'failed', code: 'TOOL_FAILED', message: said, executed: true, result }
          : { kind: 'succeeded', result };
        const forged = modelText({ kind: 'answered', by: 'ann', answer: told });
        expect(modelText(byTool)).not.toEqual(forged);
        // Also where the tool returns the very words.
        const same = { ...result, content: [{ type: 'text' as const, text: forged.text }] };
        expect(modelText({ ...byTool, result: same })).not.toEqual(forged);
      }),
    );
  });

  test('B-8: of an edited call that was sent, which arguments it had; of one that was not, nothing of them', () => {
    const edited = { by: 'ann', arguments: { amount: 5 } };
    for (const outcome of Object.values(outcomes())) {
      const { text, isError } = resultOf({ outcome, edited });
      const plain = resultOf({ outcome });
      expect(plain).toEqual(modelText(outcome));
      expect(isError).toBe(plain.isError);
      const wasSent = ['succeeded', 'failed', 'unknown'].includes(outcome.kind);
      expect(text.includes('ann approved this call with other arguments than you proposed: {"amount":5}')).toBe(
        wasSent,
      );
      expect(text.endsWith(plain.text)).toBe(true);
    }
  });
});
