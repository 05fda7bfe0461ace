/** Kinds that stand in ledgers, histories and stored segments for as long as those are kept. Literals, never imports. */
import { describe, expect, test } from '@jest/globals';
import { InputRequest, InputResponse } from '../../contracts/schemas/input.ts';
import { Decision, DecisionAck, Provision, Remember, RequestStatus } from '../../contracts/schemas/request.ts';
import { Outcome, ResultPart, Verdict } from '../../contracts/schemas/call.ts';
import {
  CATALOG_FACTS,
  CatalogAck,
  CatalogDecision,
  CatalogEntry,
  CatalogRight,
  CatalogRules,
  CatalogStatus,
} from '../../contracts/schemas/catalog.ts';
import { LedgerFact } from '../../contracts/schemas/ledger.ts';
import { Action, ApproverClause, DecisionRight, RememberScope, Strategy } from '../../contracts/schemas/policy.ts';
import { RunResult, RunStatus } from '../../contracts/schemas/run-state.ts';
import { AssistantPart, Message } from '../../contracts/schemas/transcript.ts';
import { CATALOG_CARRY_VERSION } from '../../domain/catalog/carry.ts';
import { CARRY_VERSION } from '../../contracts/wire/carry.ts';

describe('kinds', () => {
  test('ledger facts', () => {
    expect(LedgerFact.options.map(({ shape }) => shape.kind.value)).toEqual([
      'run.started',
      'tools.discovered',
      'turn.proposed',
      'verdict',
      'request.opened',
      'decision.accepted',
      'outcome.resolved',
      'input.provided',
      'input.told',
      'authorization.given',
      'standing.made',
      'standing.used',
      'standing.forgotten',
      'decision.refused',
      'request.reminded',
      'request.escalated',
      'request.closed',
      'dispatched',
      'resumed',
      'task.begun',
      'held',
      'outcome',
      'said',
      'stop.requested',
      'cancel.requested',
      'limit.reached',
      'run.rolled',
      'run.ended',
      'catalog.connected',
      'catalog.disconnected',
      'catalog.refreshed',
      'catalog.refresh-failed',
      'catalog.policy',
      'catalog.change-opened',
      'catalog.change-closed',
      'catalog.rolled',
    ]);
  });

  test('how a change of a catalog that waited was closed', () => {
    const [, , , , , , closed] = CATALOG_FACTS;
    expect(closed.shape.status.options).toEqual(['approved', 'rejected', 'expired', 'outdated']);
  });

  test('states, rights and answers of catalogs', () => {
    expect(CatalogStatus.options).toEqual(['new', 'connected', 'disconnected']);
    expect(CatalogEntry.shape.status.options).toEqual(['available', 'missing']);
    expect(CatalogRight.options).toEqual(['connect', 'loosen', 'tighten']);
    expect(CatalogAck.shape.status.options).toEqual(['applied', 'waiting']);
    expect(CatalogDecision.shape.verdict.options).toEqual(['approve', 'reject']);
    expect(CatalogRules.shape.newTools.options).toEqual(['ask', 'strategy']);
    expect(CatalogRules.shape.loosening.options).toEqual(['allow', 'countersign']);
    expect(CATALOG_CARRY_VERSION).toBe(1);
  });

  test('codes of denials, and layers of those who are asked', () => {
    const [, , deny] = Verdict.options;
    expect(deny.shape.code.options).toEqual([
      'POLICY_DENIED',
      'TOOL_UNKNOWN',
      'ARGUMENTS_INVALID',
      'ARGUMENTS_TOO_LARGE',
      'LIMIT_REACHED',
      'TOOL_DISABLED',
      'TOOL_MISSING',
      'ORGANISATION_HALTED',
      'RESOURCE_NOT_LINKED',
    ]);
    expect(ApproverClause.shape.layer.options).toEqual(['organisation', 'catalog', 'run', 'default']);
  });

  test('outcomes', () => {
    const kinds = ['succeeded', 'failed', 'denied', 'rejected', 'expired', 'cancelled', 'unknown', 'answered'];
    expect(Outcome.options.map(({ shape }) => shape.kind.value)).toEqual(kinds);
  });

  test('verdicts, actions and strategies', () => {
    expect(Verdict.options.map(({ shape }) => shape.kind.value)).toEqual(['allow', 'ask', 'deny']);
    expect(Action.options).toEqual(['allow', 'ask', 'deny']);
    expect(Strategy.options).toEqual(['always', 'never', 'annotations']);
  });

  test('decisions, their answers and requests', () => {
    const kinds = ['approve', 'reject', 'withdraw', 'extend', 'respond'];
    expect(Decision.options.map(({ shape }) => shape.kind.value)).toEqual(kinds);
    const answers = ['approved', 'rejected', 'counted', 'withdrawn', 'extended', 'answered', 'edited'];
    expect(DecisionAck.shape.status.options).toEqual(answers);
    expect(RequestStatus.options).toEqual([
      'open',
      'approved',
      'rejected',
      'expired',
      'cancelled',
      'answered',
      'resolved',
    ]);
    expect(Provision.options.map(({ shape }) => shape.kind.value)).toEqual(['provide', 'decline', 'cancel']);
    expect(InputRequest.options.map(({ shape }) => shape.kind.value)).toEqual(['form', 'url']);
    expect(InputResponse.options.map(({ shape }) => shape.action.value)).toEqual(['accept', 'decline', 'cancel']);
    expect(DecisionRight.options).toEqual(['edit', 'respond']);
    expect(RememberScope.options).toEqual(['call', 'arguments', 'tool']);
    expect(Remember.options.map(({ shape }) => shape.scope.value)).toEqual(['call', 'arguments', 'tool']);
  });

  test('states and results of runs', () => {
    const ended = ['completed', 'stopped', 'limited', 'cancelled', 'failed'];
    expect(RunStatus.options).toEqual(['preparing', 'thinking', 'acting', 'waiting', 'storing', ...ended]);
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
