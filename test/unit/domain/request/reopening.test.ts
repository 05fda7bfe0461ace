/** A consent that no longer holds at dispatch is asked for again (D-5, D-6, H-7). */
import { describe, expect, test } from '@jest/globals';
import { defined } from '../../../../contracts/defined.ts';
import type { DispatchResult } from '../../../../contracts/wire/tools.ts';
import { accept } from '../../../../domain/request/decision.ts';
import { digestOf } from '../../../../domain/request/digest.ts';
import { askedAgain, dispatched, ended } from '../../../../domain/request/transitions.ts';
import { callOf, type Run } from '../../../../domain/state/run.ts';
import { identicalCalls } from '../../../support/builders/call.ts';
import { approval, askingOf, shown } from '../../../support/builders/decision.ts';
import { allowVerdict, approverRule } from '../../../support/builders/judgement.ts';
import { outcomes } from '../../../support/builders/outcome.ts';
import { askingRun, judgedRun, runIds, START } from '../../../support/builders/run.ts';

const FALLBACK = { approverId: 'ann', deadlineSeconds: 3_600 };
const LATER = START + 5_000;
type Reopen = Extract<DispatchResult, { kind: 'reopen' }>;

function reopen(over: Partial<Reopen> = {}): Reopen {
  return { kind: 'reopen', code: 'VERDICT_STRICTER', message: 'Policy now asks.', ...over };
}

/** A call in flight on the consent of `ann`. */
function consented(): Run {
  const run = askingRun();
  const made = approval(shown(run, 't1.c0'));
  return dispatched(accept(run, askingOf(run, 't1.c0'), made, START).run, 't1.c0')?.run ?? run;
}

describe('a reopened request', () => {
  test('is a new generation with a new digest, a new deadline and the reason', () => {
    const first = digestOf(askingOf(askingRun(), 't1.c0'), runIds());
    const { run, facts } = askedAgain(consented(), 't1.c0', reopen({ deadlineSeconds: 60 }), runIds(), FALLBACK, LATER);
    const state = askingOf(run, 't1.c0');
    expect(state.request).toEqual({
      generation: 2,
      approvers: approverRule(),
      openedAt: LATER,
      deadline: LATER + 60_000,
      because: 'VERDICT_STRICTER: Policy now asks.',
    });
    const digest = digestOf(state, runIds());
    expect(digest).not.toBe(first);
    expect(facts).toEqual([
      {
        kind: 'request.opened',
        callId: 't1.c0',
        generation: 2,
        digest,
        approvers: approverRule(),
        deadline: new Date(LATER + 60_000).toISOString(),
        because: 'VERDICT_STRICTER: Policy now asks.',
      },
    ]);
  });

  test('drops the consent that no longer holds', () => {
    const { run } = askedAgain(consented(), 't1.c0', reopen(), runIds(), FALLBACK, LATER);
    expect(callOf(run, 't1.c0')).not.toHaveProperty('made');
    expect(dispatched(run, 't1.c0')).toBeUndefined();
  });

  test('asks whom the stricter policy names, else whom the request named, else the fallback', () => {
    const cleared = judgedRun(identicalCalls(1), () => ({ verdict: allowVerdict() }));
    const flying = dispatched(cleared, 't1.c0')?.run ?? cleared;
    const asked = (run: Run, refusal: Reopen): unknown => {
      const { request } = askingOf(askedAgain(run, 't1.c0', refusal, runIds(), FALLBACK, LATER).run, 't1.c0');
      return [request.generation, request.approvers, request.deadline];
    };
    expect(asked(flying, reopen({ approvers: approverRule(['cy']) }))).toEqual([
      1,
      approverRule(['cy']),
      LATER + 3_600_000,
    ]);
    expect(asked(consented(), reopen())).toEqual([2, approverRule(), LATER + 3_600_000]);
    expect(asked(flying, reopen())).toEqual([
      1,
      { allOf: [{ layer: 'default', ids: ['ann'], groups: [] }] },
      LATER + 3_600_000,
    ]);
  });

  test('INV-G2, H-7: of a tool that is another one than was shown is about the new one, in its text and in its digest', () => {
    const again = (over: Partial<Reopen>) =>
      askingOf(askedAgain(consented(), 't1.c0', reopen(over), runIds(), FALLBACK, LATER).run, 't1.c0');
    const shownAgain = (definition: Reopen['definition']) =>
      again({ code: 'DEFINITION_CHANGED', ...defined({ definition }) });
    const hash = 'c'.repeat(64);
    const full = shownAgain({ hash, description: 'Writes and sends a file.', annotations: { readOnlyHint: false } });
    expect(full.judgement).toMatchObject({
      target: { definitionHash: hash },
      description: 'Writes and sends a file.',
      annotations: { readOnlyHint: false },
    });
    expect(digestOf(full, runIds())).not.toBe(digestOf(shownAgain(undefined), runIds()));
    const bare = shownAgain({ hash }).judgement;
    expect(bare.target.definitionHash).toBe(hash);
    expect(bare).not.toHaveProperty('description');
    expect(bare).not.toHaveProperty('annotations');
  });

  test('only a call in flight is asked again', () => {
    const asking = askingRun();
    expect(askedAgain(asking, 't1.c0', reopen(), runIds(), FALLBACK, LATER)).toEqual({ run: asking, facts: [] });
    const over = ended(asking, 't1.c0', outcomes().cancelled).run;
    expect(askedAgain(over, 't1.c0', reopen(), runIds(), FALLBACK, LATER)).toEqual({ run: over, facts: [] });
    expect(askedAgain(asking, 't8.c0', reopen(), runIds(), FALLBACK, LATER)).toEqual({ run: asking, facts: [] });
  });
});
