/**
 * Supports property tests over whole runs: possible decisions, and a small model of what people have agreed
 * to.
 */
import { defined } from '../../../contracts/defined.ts';
import type { JsonObject } from '../../../contracts/schemas/json.ts';
import type { Decision, Remember } from '../../../contracts/schemas/request.ts';
import { callOf, type Run, type RunIds } from '../../../domain/state/run.ts';
import { hashOf } from '../../../domain/text/canonical.ts';
import { answer, approval, rejection, shown, withdrawal } from '../builders/decision.ts';
import { askVerdict } from '../builders/judgement.ts';
import { runIds } from '../builders/run.ts';
import { rememberRule } from '../builders/standing.ts';

/** Arguments that partly agree with each other. */
export const POOL: readonly JsonObject[] = [
  { path: 'a', content: '1' },
  { path: 'a', content: '2' },
  { path: 'b', content: '1' },
];

/** A verdict under which every kind of decision is possible. */
export const OPEN_VERDICT = askVerdict({ approvers: rememberRule(['ann', 'bob'], { may: ['edit', 'respond'] }) });

const REMEMBERED: readonly Remember[] = [
  { scope: 'call' },
  { scope: 'arguments', names: ['path'] },
  { scope: 'arguments', names: ['content'] },
  { scope: 'tool' },
];

interface Consent {
  readonly id: string;
  readonly covers: (args: JsonObject) => boolean;
}

/** The test's own belief of what people have agreed to; it shares no code with the product. */
export class Believed {
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

  /** Says whether somebody agreed to this call as it is, or a standing decision answers it. */
  agreed(callId: string, args: JsonObject): boolean {
    return this.calls.get(callId) === hashOf(args) || this.standing.some(({ covers }) => covers(args));
  }
}

export interface Saying {
  readonly what: string;
  readonly who: string;
  /** Index in the pool. */
  readonly args: number;
  readonly scope: number;
}

/**
 * Makes the decision of a person who reads the request now; undefined if nothing is asked, or the decision is
 * impossible.
 */
export function decisionOf(
  run: Run,
  { what, who, args, scope }: Saying,
  callId: string,
  decisionId: string,
  ids: RunIds = runIds(),
): Decision | undefined {
  const state = callOf(run, callId);
  if (state?.status !== 'waiting-for-consent') return undefined;
  const over = { ...shown(run, callId, ids), decisionId, approver: { id: who, groups: [] } };
  const remember = REMEMBERED[scope];
  switch (what) {
    case 'approve':
      return approval(over);
    case 'remember':
      return approval({ ...over, ...defined({ remember }) });
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
