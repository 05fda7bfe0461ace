/**
 * Limits that no recorded history comes to: when a decision is too late, how long an approval holds, how often a call
 * is sent, when an execution hands over. Each is asked one step before and at its bound; and asked of the code with
 * that limit changed, the same question fails (`test/replay/limit-mutations.ts`).
 */
import { join } from 'node:path';
import { pathToFileURL } from 'node:url';
import { expect, test } from '@jest/globals';
import type * as ClosedRequest from '../../../../domain/request/decision.ts';
import type * as Validity from '../../../../domain/request/deadline.ts';
import type * as Retry from '../../../../domain/request/throttling.ts';
import type * as Rollover from '../../../../domain/run/limits.ts';
import { CHANGED_LIMITS } from '../../../replay/limit-mutations.ts';
import { withMutant } from '../../../replay/mutant.ts';
import { approval, askingOf, shown } from '../../../support/builders/decision.ts';
import { approverRule } from '../../../support/builders/judgement.ts';
import { askingRun, runIds, START } from '../../../support/builders/run.ts';
import { declared, ROOT } from '../../../support/syntax.ts';

/** The modules of limits, by one of the functions that they hold. */
interface Limits {
  readonly refuseUntimely: typeof ClosedRequest;
  readonly mayTryAgain: typeof Retry;
  readonly rollReason: typeof Rollover;
  readonly lapsedSince: typeof Validity;
}

/** What holds at each bound; throws where it does not. */
const HOLDS: { readonly [Limit in keyof Limits]: (module: Limits[Limit]) => void } = {
  refuseUntimely: ({ refuseUntimely }) => {
    const run = askingRun();
    const state = askingOf(run, 't1.c0');
    const { deadline } = state.request;
    const decision = approval(shown(run, 't1.c0'));
    const at = (now: number) => refuseUntimely(state, decision, runIds(), now);
    expect(at(deadline - 1)).toBeUndefined();
    for (const late of [0, 1, 59_999, 60_000]) expect(at(deadline + late)).toMatchObject({ code: 'DECISION_EXPIRED' });
  },
  lapsedSince: ({ lapsedSince }) => {
    const rule = { ...approverRule(), validForSeconds: 60 };
    expect(lapsedSince(START, START + 59_999, rule)).toBeUndefined();
    for (const late of [0, 1, 1e12]) expect(lapsedSince(START, START + 60_000 + late, rule)).toBe(START + 60_000);
  },
  mayTryAgain: ({ mayTryAgain, waitBeforeNext }) => {
    // Sends until it may not be tried again, the first included.
    let sends = 1;
    while (mayTryAgain(sends)) sends += 1;
    expect(sends).toBe(5);
    expect([1, 2, 3, 4].map((sent) => waitBeforeNext(sent))).toEqual([1_000, 2_000, 4_000, 8_000]);
    expect(waitBeforeNext(20)).toBe(60_000);
    expect([500, 90_000].map((wanted) => waitBeforeNext(1, wanted))).toEqual([1_000, 90_000]);
  },
  rollReason: ({ rollReason }) => {
    const calm = { nudged: false, updates: 0, suggested: false };
    expect(rollReason({ ...calm, updates: 1_499 })).toBeUndefined();
    for (const updates of [1_500, 1_501, 1_899, 1_900]) expect(rollReason({ ...calm, updates })).toBe('updates');
    expect(rollReason({ ...calm, turns: { had: 39, most: 40 } })).toBeUndefined();
    expect(rollReason({ ...calm, turns: { had: 40, most: 40 } })).toBe('turns');
    expect(rollReason({ ...calm, suggested: true })).toBe('history');
    expect(rollReason({ nudged: true, updates: 1_500, turns: { had: 40, most: 40 }, suggested: true })).toBe('nudge');
  },
};

async function holdsIn<Limit extends keyof Limits>(root: string, limit: Limit): Promise<void> {
  // Sound: the file is the module that the type names, or a copy of it with one thing changed.
  const module = (await import(pathToFileURL(join(root, declared(limit)[0]?.path ?? '')).href)) as Limits[Limit];
  HOLDS[limit](module);
}

test.each(CHANGED_LIMITS)('$limit: holds to the step', async ({ limit }) => {
  await holdsIn(ROOT, limit);
});

test.each(CHANGED_LIMITS)('control: where $name, that is noticed', async ({ limit, change }) => {
  await withMutant(change, async (copy) => await expect(holdsIn(copy, limit)).rejects.toThrow('expect'));
});
