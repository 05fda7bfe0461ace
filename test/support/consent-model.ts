/** For properties over whole runs: what people may say of calls, and a model of a few lines of what they have agreed to. */
import type { Decision, Remember } from '../../contracts/schemas/answer.ts';
import type { JsonObject } from '../../contracts/schemas/json.ts';
import { hashOf } from '../../domain/text/canonical.ts';
import { callOf, type Run, type RunIds } from '../../domain/state/run.ts';
import { answer, approval, rejection, shown, withdrawal } from './builders/decision.ts';
import { askVerdict } from './builders/judgement.ts';
import { runIds } from './builders/run.ts';
import { rememberRule } from './builders/standing.ts';

/** Arguments of which some are alike in part. */
export const POOL: readonly JsonObject[] = [
  { path: 'a', content: '1' },
  { path: 'a', content: '2' },
  { path: 'b', content: '1' },
];

/** Everything may be said of a call that is judged like this. */
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

/** What the test believes that people have agreed to: it shares no code with ours. */
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

  /** Did somebody agree to this call as it is, or does something stand that answers it? */
  agreed(callId: string, args: JsonObject): boolean {
    return this.calls.get(callId) === hashOf(args) || this.standing.some(({ covers }) => covers(args));
  }
}

export interface Saying {
  readonly what: string;
  readonly who: string;
  /** Of the pool. */
  readonly args: number;
  readonly scope: number;
}

/** As somebody would say it who reads the request now; undefined where nothing asks, or that is nothing to say. */
export function decisionOf(
  run: Run,
  { what, who, args, scope }: Saying,
  callId: string,
  decisionId: string,
  ids: RunIds = runIds(),
): Decision | undefined {
  const state = callOf(run, callId);
  if (state?.status !== 'asking') return undefined;
  const over = { ...shown(run, callId, ids), decisionId, approver: { id: who, groups: [] } };
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
