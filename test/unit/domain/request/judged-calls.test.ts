/** Verdicts on the calls of a turn, as they are recorded (INV-G3, INV-G4, S4.6). */
import { describe, expect, test } from '@jest/globals';
import { judgedAll } from '../../../../domain/run/turn.ts';
import { hashOf } from '../../../../domain/text/canonical.ts';
import { identicalCalls, proposedCall } from '../../../support/builders/call.ts';
import { shown } from '../../../support/builders/decision.ts';
import { allowVerdict, denyVerdict, judgement } from '../../../support/builders/judgement.ts';
import { POLICY_VERSION, proposedRun, runIds, START } from '../../../support/builders/run.ts';
import { toolTarget } from '../../../support/builders/tool.ts';

describe('verdicts', () => {
  const calls = identicalCalls(3);
  const verdicts = [allowVerdict(), judgement().verdict, denyVerdict()];
  const judgements = calls.map(({ callId }, index) => judgement({ callId, verdict: verdicts[index] ?? denyVerdict() }));
  const { run, facts } = judgedAll(proposedRun(calls), judgements, POLICY_VERSION, runIds(), START);

  test('S4.6: each is recorded with its rules, its tool and a hash of the arguments, never the arguments', () => {
    expect(facts[0]).toEqual({
      kind: 'verdict',
      callId: 't1.c0',
      verdict: 'allow',
      rules: ['organisation/strategy/never'],
      server: 'files',
      tool: 'write_file',
      definitionHash: toolTarget().definitionHash,
      argumentsHash: hashOf(proposedCall().arguments),
      policyVersion: POLICY_VERSION,
    });
    expect(JSON.stringify(facts)).not.toContain('notes.txt');
  });

  test('J: one that was allowed by breaking glass says so, with rule, reason and end', () => {
    const breakGlass = {
      rule: 'organisation/rules/pager',
      reason: 'The pager is down.',
      until: '2026-01-01T02:00:00.000Z',
    };
    const broken = judgements.map((each, index) =>
      index === 0 ? { ...each, verdict: allowVerdict({ breakGlass }) } : each,
    );
    const { facts: told } = judgedAll(proposedRun(calls), broken, POLICY_VERSION, runIds(), START);
    expect(told[0]).toMatchObject({ kind: 'verdict', verdict: 'allow', breakGlass });
    expect(facts[0]).not.toHaveProperty('breakGlass');
  });

  test('S2.2: an asked call has its request recorded, a denied one its outcome, at once and in order', () => {
    expect(facts.map(({ kind }) => kind)).toEqual(['verdict', 'verdict', 'request.opened', 'verdict', 'outcome']);
    expect(facts[2]).toEqual({
      kind: 'request.opened',
      callId: 't1.c1',
      generation: 1,
      digest: shown(run, 't1.c1').digest,
      approvers: { allOf: [{ layer: 'organisation', ids: ['ann'], groups: [] }] },
      deadline: '2026-01-01T01:00:00.000Z',
    });
    expect(run.calls.map(({ status }) => status)).toEqual(['cleared', 'waiting-for-consent', 'settled']);
  });

  test('are matched by call, not by place', () => {
    expect(judgedAll(proposedRun(calls), judgements.toReversed(), POLICY_VERSION, runIds(), START).run).toEqual(run);
  });

  test('INV-G4: a call that the judge passed over is denied', () => {
    const silent = judgedAll(proposedRun(calls), judgements.slice(1), POLICY_VERSION, runIds(), START);
    expect(silent.run.calls[0]).toMatchObject({
      status: 'settled',
      outcome: { kind: 'denied', code: 'POLICY_DENIED' },
    });
    expect(silent.facts[0]).toMatchObject({ verdict: 'deny', rules: ['default/passed-over'] });
    expect(silent.facts[0]).not.toHaveProperty('server');
    expect(silent.run.calls.slice(1)).toEqual(run.calls.slice(1));
  });

  test('a tool that is not known is recorded under the name the model used, cut to a bounded length', () => {
    const odd = [proposedCall({ name: 'x'.repeat(5_000) })];
    const { target: _target, ...unknown } = judgement({ verdict: denyVerdict({ code: 'TOOL_UNKNOWN' }) });
    const [fact] = judgedAll(proposedRun(odd), [unknown], POLICY_VERSION, runIds(), START).facts;
    expect(fact).toMatchObject({ kind: 'verdict', tool: 'x'.repeat(200) });
  });

  test('a call is judged once: another round leaves it as it is', () => {
    const again = judgedAll(
      run,
      calls.map(({ callId }) => judgement({ callId, verdict: allowVerdict() })),
      POLICY_VERSION,
      runIds(),
      START,
    );
    expect(again).toEqual({ run, facts: [] });
  });
});
