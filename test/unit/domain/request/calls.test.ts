/** INV-G1 and INV-G2 over everything that people can say of calls, in any order, over several turns. */
import fc from 'fast-check';
import { expect, test } from '@jest/globals';
import { checkConsent } from '../../../../activities/gate/statement.ts';
import type { Decision } from '../../../../contracts/schemas/request.ts';
import { Limits } from '../../../../contracts/schemas/run-spec.ts';
import { accept, admit } from '../../../../domain/request/decision.ts';
import { acceptEdit, refuseEdit } from '../../../../domain/request/edit.ts';
import { forget, remembered } from '../../../../domain/request/standing.ts';
import { dispatched, ended } from '../../../../domain/request/transitions.ts';
import { callOf, isEdit, type Run, startRun } from '../../../../domain/state/run.ts';
import { hashOf } from '../../../../domain/text/canonical.ts';
import { dispatchOf } from '../../../support/builders/dispatch.ts';
import { judgement } from '../../../support/builders/judgement.ts';
import { POLICY_VERSION, runIds, START } from '../../../support/builders/run.ts';
import { nextTurn } from '../../../support/builders/standing.ts';
import { forMany } from '../../../support/for-all.ts';
import { Believed, decisionOf, OPEN_VERDICT, POOL } from '../../../support/stories/consent.ts';

const limits = Limits.parse({});

const which = fc.nat({ max: 2 });
const step = fc.record({
  what: fc.constantFrom(
    'turn',
    'approve',
    'remember',
    'remember',
    'edit',
    'reject',
    'respond',
    'withdraw',
    'forget',
    'expire',
    'send',
    'send',
  ),
  who: fc.constantFrom('ann', 'ann', 'bob', 'mallory'),
  call: fc.nat({ max: 1 }),
  args: which,
  scope: fc.nat({ max: 3 }),
});
/** As the handlers do it. */
function decide(run: Run, decision: Decision, believed: Believed): Run {
  const admission = admit(run, decision, runIds(), START + 1_000);
  if (admission.kind !== 'accept') return run;
  const { state } = admission;
  if (isEdit(decision)) {
    if (refuseEdit(run, state, decision, limits) !== undefined) return run;
    const judged = {
      judgement: judgement({ callId: decision.callId, verdict: OPEN_VERDICT }),
      policyVersion: POLICY_VERSION,
    };
    const made = acceptEdit(run, state, decision, judged, runIds(), START + 1_000);
    if (made.kind === 'refuse') return run;
    believed.said(decision, state.call.arguments);
    return made.run;
  }
  if (decision.kind === 'approve') believed.said(decision, state.call.arguments);
  const { run: next } = accept(run, state, decision, START + 1_000);
  return remembered(next, decision.callId, START + 1_000).run;
}

test('nothing is sent but what somebody agreed to who may, as it is sent, and the dispatch agrees', () => {
  const sent = { own: 0, standing: 0 };
  forMany(
    { numRuns: 1_500 },
    fc.array(step, { maxLength: 25 }),
    fc.array(which, { minLength: 60, maxLength: 60 }),
    (steps, pool) => {
      const believed = new Believed();
      const once = new Set<string>();
      let run = nextTurn(startRun(START), [POOL[0] ?? {}, POOL[1] ?? {}], { verdict: OPEN_VERDICT });
      for (const [index, each] of steps.entries()) {
        const callId = `t${run.turn}.c${each.call}`;
        if (each.what === 'turn') {
          const args = [pool[2 * index], pool[2 * index + 1]].map((at) => POOL[at ?? 0] ?? {});
          run = nextTurn(run, args, { verdict: OPEN_VERDICT });
        } else if (each.what === 'expire') {
          if (callOf(run, callId)?.status === 'waiting-for-consent')
            run = ended(run, callId, { kind: 'expired', deadline: new Date(START).toISOString() }).run;
        } else if (each.what === 'forget') {
          const standing = run.standing?.[each.args];
          if (standing === undefined) continue;
          run = forget(run, standing, { standing: standing.id, by: { id: 'ann', groups: [] } }, runIds(), START).run;
          believed.standing = believed.standing.filter(({ id }) => id !== standing.id);
        } else if (each.what === 'send') {
          const state = callOf(run, callId);
          const flying = dispatched(run, callId);
          expect(flying !== undefined).toBe(state?.status === 'approved');
          if (flying === undefined || state?.status !== 'approved') continue;
          expect(once.has(callId)).toBe(false);
          once.add(callId);
          const { arguments: args } = state.call;
          expect(believed.agreed(callId, args)).toBe(true);
          sent[state.consent.made.standing === undefined ? 'own' : 'standing'] += 1;
          const input = dispatchOf(state, run);
          const check = (over: Partial<typeof input>) => {
            const asked = { ...input, ...over };
            return checkConsent(asked, OPEN_VERDICT, undefined, START + 1_000);
          };
          expect(check({})).toBeUndefined();
          for (const other of POOL) {
            const isAgreed = believed.standing.some(
              ({ id, covers }) => id === state.consent.made.standing && covers(other),
            );
            if (hashOf(other) !== hashOf(args) && !isAgreed)
              expect(check({ arguments: other })).toMatchObject({ code: 'DISPATCH_FORBIDDEN' });
          }
          run = ended(flying.run, callId, { kind: 'succeeded', result: { content: [] } }).run;
        } else {
          const decision = decisionOf(run, each, callId, `d-${index}`);
          if (decision === undefined) continue;
          const before = run;
          run = decide(run, decision, each.who === 'mallory' ? new Believed() : believed);
          // Strangers change nothing (INV-G2).
          if (each.who === 'mallory') expect(run).toBe(before);
        }
      }
    },
  );
  // Not vacuous.
  expect(sent.own).toBeGreaterThan(100);
  expect(sent.standing).toBeGreaterThan(20);
});
