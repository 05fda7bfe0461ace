/** How a message to a request is refused: the same for each update that answers one (INV-G2, S2.3, S2.6, D-7, F-2, S3.9). */
import fc from 'fast-check';
import { describe, expect, test } from '@jest/globals';
import type { Decision } from '../../../../contracts/schemas/request.ts';
import { authorizationPause } from '../../../../domain/request/authorization.ts';
import { admit } from '../../../../domain/request/decision.ts';
import { admitAnswer, type PauseAnswer, pausedFor } from '../../../../domain/request/pause.ts';
import { ended } from '../../../../domain/request/transitions.ts';
import { type Answerable, callOf, isAsking, type Run, type RunIds } from '../../../../domain/state/run.ts';
import { answer, approval, edit, extension, rejection, shown } from '../../../support/builders/decision.ts';
import { askedOf, rule } from '../../../support/builders/edit.ts';
import { heldRun } from '../../../support/builders/held-input.ts';
import { flyingOf, flyingRun, pausedRun, pausing, recorded, retry } from '../../../support/builders/pause.ts';
import { ANN, askedRun } from '../../../support/builders/provision.ts';
import { runIds, START } from '../../../support/builders/run.ts';
import { forMany } from '../../../support/for-all.ts';

const CALL = 't1.c0';
const consent = askedOf({ ...rule(['ann'], { may: ['edit', 'respond'] }), extendableToSeconds: 86_400 });
const said = { decisionId: 'a-1', callId: CALL, digest: '', runId: 'run-1', approver: { id: 'ann', groups: [] } };
const wanted = authorizationPause(flyingOf(flyingRun()), {
  reason: 'TOOL_UNAUTHORIZED',
  message: 'no',
  wants: 'consent',
});
if (wanted === undefined) throw new Error('not asked');

const provision = { kind: 'provide', ...said, responses: { who: ANN } };

type Message = readonly [update: string, run: Run, message: PauseAnswer];

/** Each message that answers a request, with a run in which such a request waits. */
const MESSAGES: readonly Message[] = [
  ['decide: an approval', consent, approval()],
  ['decide: a rejection', consent, rejection()],
  ['decide: an edit', consent, edit({ path: 'other' })],
  ['decide: an extension', consent, extension()],
  ['decide: an answer', consent, answer()],
  ['resolveOutcome: a retry', pausedRun(), retry()],
  ['resolveOutcome: a success', pausedRun(), recorded()],
  ['provideInput', askedRun(), provision],
  ['provideInput on an open connection', heldRun(), provision],
  ['authorize', pausedFor(flyingRun(), CALL, wanted, pausing(), runIds()).run, { kind: 'consent', ...said }],
];

/** The name of the update with which this message comes. */
const nameOf = (message: string): string => /^\w+/.exec(message)?.[0] ?? '';

function admitted(update: string, run: Run, message: PauseAnswer, now: number) {
  const asked = { resolveOutcome: 'outcome', provideInput: 'input', authorize: 'authorization' } as const;
  // Sound: what comes with `decide` is a decision, and each other update has its kind.
  if (nameOf(update) === 'decide') return admit(run, message as Decision, runIds(), now);
  return admitAnswer(run, asked[nameOf(update) as keyof typeof asked], message, runIds(), now);
}

function deadlineOf(run: Run): number {
  const state = callOf(run, CALL);
  if (!isAsking(state)) throw new Error('it does not wait');
  return state.request.deadline;
}

/** What is wrong, in the order in which it is said. */
const FLAWS: readonly (readonly [string, string, Partial<Answerable>])[] = [
  ['to a call that the run never had', 'CALL_UNKNOWN', { callId: 't9.c0' }],
  ['with another digest', 'DIGEST_MISMATCH', { digest: 'f'.repeat(64) }],
  ['at the deadline', 'DECISION_EXPIRED', {}],
  ['of somebody whom the request does not name', 'APPROVER_NOT_ENTITLED', { approver: { id: 'eve', groups: ['ann'] } }],
];

describe.each(MESSAGES)('%s', (update, run, message) => {
  const deadline = deadlineOf(run);
  const made = (over: Partial<Answerable> = {}, ids: RunIds = runIds()) => ({
    ...message,
    ...shown(run, CALL, ids),
    ...over,
  });
  const refusal = (over: Partial<Answerable>, now = START) => admitted(update, run, made(over), now);

  test('F-2: counts to the last millisecond, and at the deadline it is too late', () => {
    expect(admitted(update, run, made(), deadline - 1)).toEqual({ kind: 'accept', state: callOf(run, CALL) });
    const until = expect.stringContaining(new Date(deadline).toISOString());
    expect(refusal({}, deadline)).toMatchObject({ code: 'DECISION_EXPIRED', message: until });
  });

  test.each(FLAWS)(
    '%s is refused, whatever else is wrong that is said later; the run is as it was',
    (_what, code, flaw) => {
      const before = JSON.stringify(run);
      const now = code === 'DECISION_EXPIRED' ? deadline : START;
      expect(refusal(flaw, now)).toMatchObject({ kind: 'refuse', code, facts: { callId: flaw.callId ?? CALL } });
      const later = FLAWS.slice(FLAWS.findIndex((each) => each[1] === code)).map(([, , over]) => over);
      const worst = later.reduce((all, over) => ({ ...all, ...over }), { decisionId: 'd-9' });
      expect(refusal(worst, later.length > 1 ? deadline : START)).toMatchObject({ code });
      expect(JSON.stringify(run)).toBe(before);
    },
  );

  test.each(['t1.c7', 't2.c0', 't99.c0', 'nonsense'])(
    'S2.3: a call that the run never had, %s, is unknown',
    (callId) => {
      expect(refusal({ callId })).toMatchObject({
        code: 'CALL_UNKNOWN',
        message: `This run has no call ${callId}. Read its requests: they name the calls that wait.`,
      });
    },
  );

  test.each(['namespace', 'workflowId', 'tenant'] as const)('a digest made for another %s is refused', (field) => {
    const elsewhere = shown(run, CALL, runIds({ [field]: 'other' }));
    expect(refusal(elsewhere)).toMatchObject({ code: 'DIGEST_MISMATCH' });
  });

  test('a digest is that of the Temporal run that is named; naming another does not help', () => {
    const elsewhere = shown(run, CALL, runIds({ runId: 'run-0' }));
    expect(refusal(elsewhere).kind).toBe('accept');
    expect(refusal({ ...elsewhere, runId: 'run-1' })).toMatchObject({ code: 'DIGEST_MISMATCH' });
  });

  test('any other digest than the one that is shown is refused', () => {
    forMany({ numRuns: 20 }, fc.stringMatching(/^[0-9a-f]{64}$/), (digest) => {
      expect(refusal({ digest })).toMatchObject({ code: 'DIGEST_MISMATCH' });
    });
  });

  test.each(MESSAGES.filter(([other]) => nameOf(other) !== nameOf(update)))(
    'is no answer to %s, which is named',
    (other, of) => {
      const named = expect.stringContaining(nameOf(other));
      const answered = admitted(update, of, { ...message, ...shown(of, CALL) }, START);
      expect(answered).toMatchObject({ code: 'DECISION_NOT_PERMITTED', message: named });
    },
  );

  test('F-1: of a request that has expired is too late, of one that was withdrawn comes to nothing', () => {
    const expired = ended(run, CALL, { kind: 'expired', deadline: '2026-01-01T01:00:00.000Z' }).run;
    expect(admitted(update, expired, made(), START)).toMatchObject({ code: 'DECISION_EXPIRED' });
    const cancelled = ended(run, CALL, { kind: 'cancelled', reason: 'stopped' }).run;
    expect(admitted(update, cancelled, made(), START)).toMatchObject({ code: 'REQUEST_NOT_OPEN' });
  });
});
