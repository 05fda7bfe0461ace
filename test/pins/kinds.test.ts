/** Kinds that stand in ledgers, histories and stored segments for as long as those are kept. Literals, never imports. */
import { describe, expect, test } from '@jest/globals';
import { Outcome, ResultPart, Verdict } from '../../contracts/schemas/call.ts';
import { Decision, DecisionAck } from '../../contracts/schemas/decision.ts';
import { LedgerFact } from '../../contracts/schemas/ledger.ts';
import { Action, Strategy } from '../../contracts/schemas/policy.ts';
import { RequestStatus } from '../../contracts/schemas/request.ts';
import { RunResult, RunStatus } from '../../contracts/schemas/run-state.ts';
import { AssistantPart, Message } from '../../contracts/schemas/transcript.ts';
import { CARRY_VERSION } from '../../domain/carry.ts';

describe('kinds', () => {
  test('ledger facts', () => {
    expect(LedgerFact.options.map(({ shape }) => shape.kind.value)).toEqual([
      'run.started',
      'tools.discovered',
      'turn.proposed',
      'verdict',
      'request.opened',
      'decision.accepted',
      'decision.refused',
      'request.closed',
      'dispatched',
      'outcome',
      'said',
      'stop.requested',
      'cancel.requested',
      'limit.reached',
      'run.rolled',
      'run.ended',
    ]);
  });

  test('outcomes', () => {
    const kinds = ['succeeded', 'failed', 'denied', 'rejected', 'expired', 'cancelled', 'unknown'];
    expect(Outcome.options.map(({ shape }) => shape.kind.value)).toEqual(kinds);
  });

  test('verdicts, actions and strategies', () => {
    expect(Verdict.options.map(({ shape }) => shape.kind.value)).toEqual(['allow', 'ask', 'deny']);
    expect(Action.options).toEqual(['allow', 'ask', 'deny']);
    expect(Strategy.options).toEqual(['always', 'never', 'annotations']);
  });

  test('decisions, their answers and requests', () => {
    expect(Decision.options.map(({ shape }) => shape.kind.value)).toEqual(['approve', 'reject']);
    expect(DecisionAck.shape.status.options).toEqual(['approved', 'rejected']);
    expect(RequestStatus.options).toEqual(['open', 'approved', 'rejected', 'expired', 'cancelled']);
  });

  test('states and results of runs', () => {
    const ended = ['completed', 'stopped', 'limited', 'cancelled', 'failed'];
    expect(RunStatus.options).toEqual(['preparing', 'thinking', 'acting', 'waiting', ...ended]);
    expect(RunResult.shape.status.options).toEqual(['completed', 'stopped', 'limited']);
  });

  test('messages and their parts', () => {
    expect(Message.options.map(({ shape }) => shape.role.value)).toEqual(['system', 'user', 'assistant', 'tool']);
    expect(AssistantPart.options.map(({ shape }) => shape.type.value)).toEqual(['text', 'reasoning', 'call']);
    const parts = ['text', 'image', 'audio', 'resource_link', 'resource'];
    expect(ResultPart.options.map(({ shape }) => shape.type.value)).toEqual(parts);
  });

  test('version of what a run carries to its next execution', () => {
    expect(CARRY_VERSION).toBe(1);
  });
});
