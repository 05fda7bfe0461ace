/**
 * Limits that no recorded history comes to: when a decision is too late, how long an approval holds, how often a call is sent, when an
 * execution hands over. Each is asked one step before and at its bound; and asked of the code with that limit changed, the same
 * question fails (`test/replay/limit-mutations.ts`).
 */
import { cp, mkdir, mkdtemp, readFile, rm, writeFile } from 'node:fs/promises';
import { join } from 'node:path';
import { pathToFileURL } from 'node:url';
import { afterAll, beforeAll, expect, test } from '@jest/globals';
import type * as ClosedRequest from '../../../../domain/request/closed-request.ts';
import type * as Validity from '../../../../domain/request/deadline.ts';
import type * as Retry from '../../../../domain/request/throttling.ts';
import type * as Rollover from '../../../../domain/run/carry.ts';
import { CHANGED_LIMITS } from '../../../replay/limit-mutations.ts';
import { approval, askingOf, shown } from '../../../support/builders/decision.ts';
import { approverRule } from '../../../support/builders/judgement.ts';
import { askingRun, runIds, START } from '../../../support/builders/run.ts';

interface Limits {
  readonly 'domain/request/closed-request.ts': typeof ClosedRequest;
  readonly 'domain/request/throttling.ts': typeof Retry;
  readonly 'domain/run/carry.ts': typeof Rollover;
  readonly 'domain/request/deadline.ts': typeof Validity;
}

const ROOT = join(import.meta.dirname, '../../../..');

/** What holds at each bound; throws where it does not. */
const HOLDS: { readonly [File in keyof Limits]: (module: Limits[File]) => void } = {
  'domain/request/closed-request.ts': ({ refuseUntimely }) => {
    const run = askingRun();
    const state = askingOf(run, 't1.c0');
    const { deadline } = state.request;
    const decision = approval(shown(run, 't1.c0'));
    const at = (now: number) => refuseUntimely(state, decision, runIds(), now);
    expect(at(deadline - 1)).toBeUndefined();
    for (const late of [0, 1, 59_999, 60_000]) expect(at(deadline + late)).toMatchObject({ code: 'DECISION_EXPIRED' });
  },
  'domain/request/deadline.ts': ({ lapsedSince }) => {
    const rule = { ...approverRule(), validForSeconds: 60 };
    expect(lapsedSince(START, START + 59_999, rule)).toBeUndefined();
    for (const late of [0, 1, 1e12]) expect(lapsedSince(START, START + 60_000 + late, rule)).toBe(START + 60_000);
  },
  'domain/request/throttling.ts': ({ mayTryAgain, waitBeforeNext }) => {
    // Sends until it may not be tried again, the first included.
    let sends = 1;
    while (mayTryAgain(sends)) sends += 1;
    expect(sends).toBe(5);
    expect([1, 2, 3, 4].map((sent) => waitBeforeNext(sent))).toEqual([1_000, 2_000, 4_000, 8_000]);
    expect(waitBeforeNext(20)).toBe(60_000);
    expect([500, 90_000].map((wanted) => waitBeforeNext(1, wanted))).toEqual([1_000, 90_000]);
  },
  'domain/run/carry.ts': ({ rollReason }) => {
    const calm = { nudged: false, updates: 0, suggested: false };
    expect(rollReason({ ...calm, updates: 1_499 })).toBeUndefined();
    for (const updates of [1_500, 1_501, 1_899, 1_900]) expect(rollReason({ ...calm, updates })).toBe('updates');
    expect(rollReason({ ...calm, turns: { had: 39, most: 40 } })).toBeUndefined();
    expect(rollReason({ ...calm, turns: { had: 40, most: 40 } })).toBe('turns');
    expect(rollReason({ ...calm, suggested: true })).toBe('history');
    expect(rollReason({ nudged: true, updates: 1_500, turns: { had: 40, most: 40 }, suggested: true })).toBe('nudge');
  },
};

let folder: string;

beforeAll(async () => {
  await mkdir(join(ROOT, '.build'), { recursive: true });
  folder = await mkdtemp(join(ROOT, '.build', 'limits-'));
});

afterAll(async () => await rm(folder, { recursive: true, force: true }));

async function holdsIn<File extends keyof Limits>(root: string, file: File): Promise<void> {
  // Sound: the file is the module that the type names, or a copy of it with one line changed.
  const module = (await import(pathToFileURL(join(root, file)).href)) as Limits[File];
  HOLDS[file](module);
}

test.each(CHANGED_LIMITS)('$file: holds to the step', async ({ file }) => {
  await holdsIn(ROOT, file);
});

test.each(CHANGED_LIMITS)('control: where $name, that is noticed', async ({ file, find, put }) => {
  const copy = await mkdtemp(join(folder, 'copy-'));
  for (const part of ['contracts', 'domain']) await cp(join(ROOT, part), join(copy, part), { recursive: true });
  const path = join(copy, file);
  await writeFile(path, (await readFile(path, 'utf8')).replace(find, put));
  await expect(holdsIn(copy, file)).rejects.toThrow('expect');
});
