/** INV-G1 and INV-G2 over everything that people can say of calls, in any order, over several turns. */
import { expect, test } from '@jest/globals';
import fc from 'fast-check';
import { checkProof } from '../../../activities/tools/dispatch-check.ts';
import { checkStanding } from '../../../activities/tools/standing-check.ts';
import type { Decision, Remember } from '../../../contracts/schemas/decision.ts';
import type { JsonObject } from '../../../contracts/schemas/json.ts';
import { hashOf } from '../../../domain/canonical.ts';
import { accept, admit } from '../../../domain/decision.ts';
import { isEdit } from '../../../domain/decision-rights.ts';
import { acceptEdit, refuseEdit } from '../../../domain/edit.ts';
import { Limits } from '../../../contracts/schemas/run-spec.ts';
import { callOf, dispatched, ended, type Run, startRun } from '../../../domain/run.ts';
import { forget, remembered } from '../../../domain/standing-changes.ts';
import { answer, approval, rejection, shown, withdrawal } from '../../support/builders/decision.ts';
import { dispatchOf } from '../../support/builders/dispatch.ts';
import { askVerdict, judgement } from '../../support/builders/judgement.ts';
import { POLICY_VERSION, runIds, START } from '../../support/builders/run.ts';
import { nextTurn, rememberRule } from '../../support/builders/standing.ts';

const POOL: readonly JsonObject[] = [
  { path: 'a', content: '1' },
  { path: 'a', content: '2' },
  { path: 'b', content: '1' },
];
const verdict = askVerdict({ approvers: rememberRule(['ann', 'bob'], { may: ['edit', 'respond'] }) });
const limits = Limits.parse({});

const REMEMBERED: readonly Remember[] = [
  { scope: 'call' },
  { scope: 'arguments', names: ['path'] },
  { scope: 'arguments', names: ['content'] },
  { scope: 'tool' },
];

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
type Step = typeof step extends fc.Arbitrary<infer T> ? T : never;

/** What the test believes that people have agreed to: a model of few lines, which shares no code with ours. */
interface Consent {
  readonly id: string;
  readonly covers: (args: JsonObject) => boolean;
}

class Believed {
  readonly calls = new Map<string, string>();
  standing: Consent[] = [];

  said(decision: Extract<Decision, { kind: 'approve' }>, args: JsonObject): void {
    this.calls.set(decision.callId, hashOf(decision.arguments ?? args));
    const { remember } = decision;
    if (remember === undefined) return;
    const covers = (other: JsonObject): boolean => {
      if (remember.scope === 'tool') return true;
      const names = remember.scope === 'call' ? ['path', 'content'] : remember.names;
      return names.every((name) => other[name] === args[name]);
    };
    this.standing.push({ id: decision.decisionId, covers });
  }
}

function decisionOf(
  run: Run,
  { what, who, args, scope }: Step,
  callId: string,
  decisionId: string,
): Decision | undefined {
  const state = callOf(run, callId);
  if (state?.status !== 'asking') return undefined;
  const over = { ...shown(run, callId), decisionId, approver: { id: who, groups: [] } };
  const remember = REMEMBERED[scope];
  switch (what) {
    case 'approve':
      return approval(over);
    case 'remember':
      return approval({ ...over, ...(remember === undefined ? {} : { remember }) });
    case 'edit':
      return { ...approval(over), arguments: POOL[args] ?? {} };
    case 'reject':
      return rejection(over);
    case 'respond':
      return answer(over);
    case 'withdraw':
      return withdrawal(over);
    default:
      return undefined;
  }
}

/** As the handlers do it. */
function decide(run: Run, decision: Decision, believed: Believed): Run {
  const admission = admit(run, decision, runIds(), START + 1_000);
  if (admission.kind !== 'accept') return run;
  const { state } = admission;
  if (isEdit(decision)) {
    if (refuseEdit(run, state, decision, limits) !== undefined) return run;
    const judged = { judgement: judgement({ callId: decision.callId, verdict }), policyVersion: POLICY_VERSION };
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
  fc.assert(
    fc.property(fc.array(step, { maxLength: 25 }), fc.array(which, { minLength: 60, maxLength: 60 }), (steps, pool) => {
      const believed = new Believed();
      const once = new Set<string>();
      let run = nextTurn(startRun(START), [POOL[0] ?? {}, POOL[1] ?? {}], { verdict });
      for (const [index, each] of steps.entries()) {
        const callId = `t${run.turn}.c${each.call}`;
        if (each.what === 'turn') {
          const args = [pool[2 * index], pool[2 * index + 1]].map((at) => POOL[at ?? 0] ?? {});
          run = nextTurn(run, args, { verdict });
        } else if (each.what === 'expire') {
          if (callOf(run, callId)?.status === 'asking')
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
          const isOwn = believed.calls.get(callId) === hashOf(args);
          const isStanding = believed.standing.some(({ covers }) => covers(args));
          expect(isOwn || isStanding).toBe(true);
          sent[state.made.standing === undefined ? 'own' : 'standing'] += 1;
          const input = dispatchOf(state, run);
          const check = (over: Partial<typeof input>) => {
            const asked = { ...input, ...over };
            return asked.proof.kind === 'standing'
              ? checkStanding(asked, asked.proof, verdict, undefined, START + 1_000)
              : checkProof(asked, verdict, START + 1_000);
          };
          expect(check({})).toBeUndefined();
          for (const other of POOL) {
            const isAgreed = believed.standing.some(({ id, covers }) => id === state.made.standing && covers(other));
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
    }),
    { numRuns: 1_500 },
  );
  // Not vacuous.
  expect(sent.own).toBeGreaterThan(100);
  expect(sent.standing).toBeGreaterThan(20);
});
