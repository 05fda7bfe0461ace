/** What a server was told to what it asked on an open connection, in the ledger (docs/adr/0040). */
import { describe, expect, test } from '@jest/globals';
import { LedgerFact } from '../../../../contracts/schemas/ledger.ts';
import type { HeldTold } from '../../../../contracts/wire/legacy-2025.ts';
import { elicitationTold } from '../../../../domain/legacy-2025/open-question.ts';
import { callOf, decisionOn, type InFlight, replaceCall, requestOf, type Run } from '../../../../domain/state/run.ts';
import { proposedCall } from '../../../support/builders/call.ts';
import { flyingRun } from '../../../support/builders/pause.ts';

const CALL = 't1.c0';

describe('what the server was told', () => {
  const outcome = { kind: 'cancelled', reason: 'x' } as const;
  // Sound: its call was sent.
  const flight = callOf(flyingRun(), CALL) as InFlight;

  /** The run has put so many questions before people. */
  const askedIn = (rounds: number): Run =>
    replaceCall(flyingRun(), { ...flight, questions: { rounds, waited: 0, last: { kind: 'cancelled' } } });

  test('is in the ledger, as the dispatch says', () => {
    const held: HeldTold[] = [
      { round: 1, told: 'accept' },
      { round: 2, told: 'cancel', code: 'APPROVER_NOT_ENTITLED' },
    ];
    const { facts } = elicitationTold(askedIn(2), flight, { kind: 'ended', outcome, held });
    expect(facts).toEqual([
      { kind: 'input.told', callId: CALL, attempt: 1, round: 1, told: 'accept' },
      { kind: 'input.told', callId: CALL, attempt: 1, round: 2, told: 'cancel', code: 'APPROVER_NOT_ENTITLED' },
    ]);
    expect(facts.map((fact) => LedgerFact.parse(fact))).toEqual(facts);
  });

  test('is said of what the run has put before people, and of nothing else', () => {
    const held: HeldTold[] = [
      { round: 1, told: 'accept' },
      { round: 2, told: 'cancel' },
    ];
    expect(elicitationTold(askedIn(1), flight, { kind: 'ended', outcome, held }).facts).toMatchObject([{ round: 1 }]);
    expect(elicitationTold(flyingRun(), flight, { kind: 'ended', outcome, held }).facts).toEqual([]);
    const without = { ...flyingRun(), calls: [] };
    expect(elicitationTold(without, flight, { kind: 'ended', outcome, held }).facts).toEqual([]);
  });

  test('is said of no more questions than people can have been asked, and of none where nobody knows', () => {
    const run = askedIn(11);
    const held = Array.from({ length: 11 }, (_, index) => ({ round: index + 1, told: 'cancel' as const }));
    expect(elicitationTold(run, flight, { kind: 'ended', outcome, held }).facts).toHaveLength(10);
    expect(elicitationTold(run, flight, { kind: 'ended', outcome })).toEqual({ run, facts: [] });
    const away = { kind: 'not-sent', code: 'x', message: 'x', held: { by: 'rate', atMostSeconds: 1 } } as const;
    expect(elicitationTold(run, flight, away).facts).toEqual([]);
  });
});

test('proposed: nobody was asked about a call that is only proposed', () => {
  const state = { status: 'proposed', call: proposedCall(), attempts: 0 } as const;
  expect(requestOf(state)).toBeUndefined();
  expect(decisionOn(state)).toBeUndefined();
});
