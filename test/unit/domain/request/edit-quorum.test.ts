/** Edits where several must agree: other arguments are another proposal (E-1, INV-G1, INV-G2). */
import fc from 'fast-check';
import { describe, expect, test } from '@jest/globals';
import { checkConsent } from '../../../../activities/gate/statement.ts';
import type { JsonObject } from '../../../../contracts/schemas/json.ts';
import { accept, admit } from '../../../../domain/request/decision.ts';
import { shownToEditor } from '../../../../domain/request/edit.ts';
import { ended } from '../../../../domain/request/transitions.ts';
import { callOf, type Run } from '../../../../domain/state/run.ts';
import { currentDetails } from '../../../../domain/views/temporal-ui.ts';
import { identicalCalls } from '../../../support/builders/call.ts';
import { answer, askingOf, rejection, shown, withdrawal } from '../../../support/builders/decision.ts';
import { dispatchOf } from '../../../support/builders/dispatch.ts';
import {
  acceptedEdit,
  askedOf,
  edited,
  editOf,
  plainOf,
  rule,
  SMALL,
  TWO,
  voted,
} from '../../../support/builders/edit.ts';
import { askVerdict } from '../../../support/builders/judgement.ts';
import { runIds, START } from '../../../support/builders/run.ts';
import { forMany } from '../../../support/for-all.ts';

describe('where two must agree (E-1)', () => {
  test('who agreed to other arguments has not agreed to these; the editor has', () => {
    const one = voted(TWO, 'bob');
    const decision = editOf(one, SMALL, 'ann');
    const { run, ack } = acceptedEdit(one, decision);
    expect(ack.status).toBe('edited');
    expect(askingOf(run, 't1.c0').votes).toMatchObject([{ decision: { approver: { id: 'ann', groups: [] } } }]);
    const done = callOf(voted(run, 'bob'), 't1.c0');
    expect(done).toMatchObject({ status: 'approved', call: { arguments: SMALL } });
    if (done?.status !== 'approved') throw new Error('it is approved');
    expect(shownToEditor(done)).toMatchObject({ generation: 1 });
    expect(currentDetails('waiting', run)).toContain('arguments changed by ann; proposed were');
  });

  test('who has agreed may propose other arguments, and what is edited may be edited again', () => {
    const first = acceptedEdit(voted(TWO, 'ann'), editOf(TWO, SMALL, 'ann')).run;
    const second = acceptedEdit(first, editOf(first, { path: 'b' }, 'bob')).run;
    expect(askingOf(second, 't1.c0')).toMatchObject({
      call: { arguments: { path: 'b' } },
      request: { generation: 3 },
      edit: {
        by: 'bob',
        proposed: { path: 'notes.txt', content: 'hello' },
        shown: { generation: 2, arguments: SMALL },
      },
      votes: [{ decision: { approver: { id: 'bob' } } }],
    });
    // A decision on what was shown before is stale.
    expect(admit(second, plainOf(first, 'zoe'), runIds(), START)).toMatchObject({ code: 'DIGEST_MISMATCH' });
    const no = rejection({ ...shown(second, 't1.c0'), decisionId: 'no', approver: { id: 'zoe', groups: [] } });
    const { run } = accept(second, askingOf(second, 't1.c0'), no, START);
    expect(callOf(run, 't1.c0')).toMatchObject({ status: 'settled', outcome: { kind: 'rejected' } });
  });
});

const people = ['ann', 'bob', 'zoe'];
const proposals: readonly JsonObject[] = [{ path: 'a' }, { path: 'b' }];
const step = fc.record({
  who: fc.constantFrom(...people, 'mallory'),
  what: fc.constantFrom(
    'approve',
    'approve',
    'approve',
    'edit',
    'edit',
    'withdraw',
    'reject',
    'respond',
    'expire',
    'stale',
  ),
  which: fc.constantFrom(0, 1),
});

test('INV-G1, INV-G2: whatever comes in whatever order, what is sent is what two people agreed to, and nothing else', () => {
  const started = askedOf(rule(people, { need: 2, may: ['edit', 'respond'] }));
  const verdict = askVerdict({ approvers: askingOf(started, 't1.c0').request.approvers });
  let approved = 0;
  forMany({ numRuns: 1_000 }, fc.array(step, { maxLength: 9 }), (steps) => {
    let run: Run = started;
    let proposal: JsonObject = identicalCalls(1)[0]?.arguments ?? {};
    let agreed = new Set<string>();
    let end: string | undefined;
    for (const [index, { who, what, which }] of steps.entries()) {
      if (what === 'expire') {
        if (end === undefined) end = 'settled';
        run = ended(run, 't1.c0', { kind: 'expired', deadline: new Date(START).toISOString() }).run;
        if (callOf(run, 't1.c0')?.status === 'settled') end = 'settled';
        continue;
      }
      const now = what === 'stale' || end !== undefined ? started : run;
      const over = { ...shown(now, 't1.c0'), decisionId: `s-${index}`, approver: { id: who, groups: [] } };
      if (what === 'edit') {
        const args = proposals[which] ?? {};
        const made = edited(run, { ...editOf(now, args, who), decisionId: `s-${index}` }, { verdict });
        const fits = end === undefined && who !== 'mallory' && args.path !== proposal['path'];
        expect(made.kind).toBe(fits ? 'accept' : 'refuse');
        if (made.kind === 'refuse') continue;
        ({ run } = made);
        proposal = args;
        agreed = new Set([who]);
        continue;
      }
      const decision =
        what === 'reject'
          ? rejection(over)
          : what === 'withdraw'
            ? withdrawal(over)
            : what === 'respond'
              ? answer(over)
              : { ...plainOf(now, who), decisionId: `s-${index}` };
      const admission = admit(run, decision, runIds(), START);
      if (admission.kind !== 'accept') continue;
      expect(end).toBeUndefined();
      expect(decision.digest).toBe(shown(run, 't1.c0').digest);
      ({ run } = accept(run, admission.state, decision, START));
      if (decision.kind === 'approve') agreed.add(who);
      if (decision.kind === 'withdraw') agreed.delete(who);
      if (decision.kind === 'reject' || decision.kind === 'respond') end = 'settled';
      if (agreed.size === 2) end ??= 'approved';
    }
    const state = callOf(run, 't1.c0');
    expect(state?.call.arguments).toEqual(proposal);
    if (state?.status !== 'approved') return expect(agreed.size < 2 || end === 'settled').toBe(true);
    approved += 1;
    const { made } = state.consent;
    expect(new Set([made, ...(made.further ?? [])].map(({ decision }) => decision.approver.id))).toEqual(agreed);
    const input = dispatchOf(state);
    expect(checkConsent(input, verdict, undefined, START)).toBeUndefined();
    // Nobody agreed to anything else.
    for (const other of [...proposals, SMALL, identicalCalls(1)[0]?.arguments ?? {}]) {
      if (JSON.stringify(other) === JSON.stringify(proposal)) continue;
      expect(checkConsent({ ...input, arguments: other }, verdict, undefined, START)).toMatchObject({
        code: 'DISPATCH_FORBIDDEN',
      });
    }
    return undefined;
  });
  // Not vacuous.
  expect(approved).toBeGreaterThan(50);
});
