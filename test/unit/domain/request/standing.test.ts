/** Approvals that are remembered (G-1, G-2, D-4, INV-G1, INV-G4). */
import { describe, expect, test } from '@jest/globals';
import { defined } from '../../../../contracts/defined.ts';
import type { JsonObject } from '../../../../contracts/schemas/json.ts';
import type { Remember } from '../../../../contracts/schemas/request.ts';
import { answers, covers, extentOf, mayRemember, proofOf, shownStanding } from '../../../../domain/request/standing.ts';
import { dispatched } from '../../../../domain/request/transitions.ts';
import { startRun } from '../../../../domain/state/run.ts';
import { currentDetails } from '../../../../domain/views/temporal-ui.ts';
import { jsonObject } from '../../../support/builders/arbitraries.ts';
import { approval, askingOf, edit, rejection } from '../../../support/builders/decision.ts';
import { askVerdict } from '../../../support/builders/judgement.ts';
import { START } from '../../../support/builders/run.ts';
import {
  ARGS,
  codeFor,
  decidedIn,
  nextTurn,
  remembering,
  rememberRule,
  statuses,
} from '../../../support/builders/standing.ts';
import { toolTarget } from '../../../support/builders/tool.ts';
import { forAll } from '../../../support/for-all.ts';

const CALL: Remember = { scope: 'call' };
const PATH: Remember = { scope: 'arguments', names: ['path'] };
const TOOL: Remember = { scope: 'tool' };
const OTHER: JsonObject = { path: 'notes.txt', content: 'bye' };
const FAR: JsonObject = { path: 'else.txt', content: 'hello' };
const LATER = new Date(START + 60_000).toISOString();

const first = nextTurn(startRun(START), [ARGS]);
const after = (remember: Remember, run = first) => decidedIn(run, remembering(run, 't1.c0', remember)).run;

describe('what is remembered', () => {
  test.each<[Remember['scope'], Remember, string[]]>([
    ['call', CALL, ['approved', 'waiting-for-consent', 'waiting-for-consent']],
    ['arguments', PATH, ['approved', 'approved', 'waiting-for-consent']],
    ['tool', TOOL, ['approved', 'approved', 'approved']],
  ])('D-4: %s: answers later calls that it covers, and no others', (_, remember, expected) => {
    const { run, facts } = decidedIn(first, remembering(first, 't1.c0', remember));
    expect(facts.at(-1)).toMatchObject({ kind: 'standing.made', scope: remember.scope, by: ['ann'], callId: 't1.c0' });
    const next = nextTurn(run, [ARGS, OTHER, FAR]);
    expect(statuses(next)).toEqual(expected);
    expect(dispatched(next, 't2.c0')?.run.calls[0]).toMatchObject({
      status: 'in-flight',
      consent: { made: { standing: run.standing?.[0]?.id } },
    });
  });

  test('nothing, where nobody says so', () => {
    const { run } = decidedIn(first, remembering(first, 't1.c0', undefined));
    expect(run).not.toHaveProperty('standing');
    expect(statuses(nextTurn(run, [ARGS]))).toEqual(['waiting-for-consent']);
  });

  test('G-2: what waits already and is covered is released at once; INV-G3: the rest waits on', () => {
    const run = nextTurn(startRun(START), [ARGS, ARGS, OTHER]);
    const { run: released, facts } = decidedIn(run, remembering(run, 't1.c0', CALL));
    expect(statuses(released)).toEqual(['approved', 'approved', 'waiting-for-consent']);
    expect(facts.filter(({ kind }) => kind === 'standing.used')).toEqual([
      { kind: 'standing.used', standing: released.standing?.[0]?.id, callId: 't1.c1' },
    ]);
  });

  test('INV-G1: a dispatch is given what it was, and how the tool was reached where that is known', () => {
    const reached = nextTurn(startRun(START), [ARGS], { connection: 'c', redact: ['content'] });
    const [standing] = decidedIn(reached, remembering(reached, 't1.c0', CALL), START, 'g').run.standing ?? [];
    const [bare] = after(CALL).standing ?? [];
    if (standing === undefined || bare === undefined) throw new Error('they stand');
    expect(proofOf(standing)).toMatchObject({
      kind: 'standing',
      callId: 't1.c0',
      shown: { generation: 1, arguments: ARGS },
      decidedAt: new Date(START).toISOString(),
      connection: 'c',
      grant: 'g',
    });
    for (const field of ['connection', 'grant']) expect(proofOf(bare)).not.toHaveProperty(field);
  });

  test('G-6: nobody sees of what stands what policy keeps back; it covers as much', () => {
    const kept = nextTurn(startRun(START), [ARGS], { redact: ['content'] });
    for (const remember of [CALL, { ...PATH, names: ['content'] }]) {
      const run = after(remember, kept);
      const [standing] = run.standing ?? [];
      if (standing === undefined) throw new Error('it stands');
      expect(shownStanding(standing).arguments).toMatchObject({ content: '[redacted]' });
      expect(currentDetails('waiting', run)).not.toContain('hello');
      expect(statuses(nextTurn(run, [ARGS, OTHER]))).toEqual(['approved', 'waiting-for-consent']);
    }
    expect(after(CALL).standing?.[0]).not.toHaveProperty('redact');
  });

  test('what stands comes after the last word on what waits', () => {
    const many = nextTurn(
      after(CALL),
      Array.from({ length: 23 }, (_, index) => ({ path: `${index}.txt` })),
    );
    expect(currentDetails('waiting', many)).toMatch(/… and 3 more[^\n]*\n\n### approvals that stand\n/);
  });

  test('people see what stands', () => {
    const run = after({ ...PATH, until: LATER });
    const [standing] = run.standing ?? [];
    if (standing === undefined) throw new Error('it stands');
    expect(shownStanding(standing)).toMatchObject({
      scope: 'arguments',
      arguments: { path: 'notes.txt' },
      until: LATER,
    });
    expect(currentDetails('waiting', run)).toContain('{"path":"notes.txt"} ` by ann until');
    expect(currentDetails('waiting', after(TOOL))).toContain('file: tool by ann');
    const [whole] = after(CALL).standing ?? [];
    expect(whole && shownStanding(whole).arguments).toEqual(ARGS);
    expect(shownStanding({ ...standing, decisions: [] })).toMatchObject({ scope: 'call' });
    expect(JSON.stringify(run.standing)).not.toContain('seen');
  });
});

describe('where several agree', () => {
  const rule = rememberRule(['ann', 'bob', 'zoe'], { need: 2 });
  const asked = nextTurn(startRun(START), [ARGS], { verdict: askVerdict({ approvers: rule }) });
  const both = (one: Remember | undefined, other: Remember | undefined) => {
    const half = decidedIn(asked, remembering(asked, 't1.c0', one)).run;
    return decidedIn(half, remembering(half, 't1.c0', other, 'bob')).run.standing?.[0];
  };

  test('it is remembered only if each of them says so, and only so far as all do', () => {
    expect(both(TOOL, undefined)).toBeUndefined();
    expect(both(undefined, TOOL)).toBeUndefined();
    expect(extentOf(both(TOOL, CALL)?.decisions ?? [])).toEqual({ scope: 'call' });
    expect(extentOf(both(CALL, TOOL)?.decisions ?? [])).toEqual({ scope: 'call' });
    expect(extentOf(both(PATH, { scope: 'arguments', names: ['content'] })?.decisions ?? [])).toEqual({
      scope: 'arguments',
      names: ['content', 'path'],
    });
    expect(extentOf(both({ ...TOOL, until: LATER }, PATH)?.decisions ?? [])).toEqual({
      scope: 'arguments',
      names: ['path'],
      until: START + 60_000,
    });
  });

  test('it answers what the same people would have to agree to, and nothing that others must', () => {
    const half = decidedIn(asked, remembering(asked, 't1.c0', TOOL)).run;
    const { run } = decidedIn(half, remembering(half, 't1.c0', TOOL, 'bob'));
    const [used] = nextTurn(run, [FAR]).calls;
    expect(used).toMatchObject({
      status: 'approved',
      consent: {
        made: { decision: { approver: { id: 'bob' } }, further: [{ decision: { approver: { id: 'ann' } } }] },
      },
    });
    const others = askVerdict({ approvers: rememberRule(['zoe']) });
    expect(statuses(nextTurn(run, [FAR], { verdict: others }))).toEqual(['waiting-for-consent']);
  });
});

describe('INV-G4: what is refused', () => {
  const rule = (scopes: ('call' | 'arguments' | 'tool')[] | undefined) =>
    nextTurn(startRun(START), [ARGS], {
      verdict: askVerdict({
        approvers: {
          allOf: [{ layer: 'run', ids: ['ann'], groups: [], ...defined({ remember: scopes }) }],
        },
      }),
    });

  test('a scope that the rule does not name, however narrow; silence names none', () => {
    for (const run of [rule(undefined), rule([]), rule(['tool', 'arguments'])])
      expect(codeFor(run, remembering(run, 't1.c0', CALL))).toBe('DECISION_NOT_PERMITTED');
    const run = rule(['call']);
    expect(codeFor(run, remembering(run, 't1.c0', CALL))).toBe('accept');
    const two = [...rememberRule(['ann']).allOf, { layer: 'run' as const, ids: ['ann'], groups: [] }];
    expect(mayRemember({ allOf: two, together: true }, 'call')).toBe(false);
  });

  test('those to whom it came later have nothing remembered: later calls come to them later, too', () => {
    const remember = ['tool' as const];
    const [ann, bob, zoe] = ['ann', 'bob', 'zoe'].map((id) => ({
      layer: 'run' as const,
      ids: [id],
      groups: [],
      remember,
    }));
    if (ann === undefined || bob === undefined || zoe === undefined) throw new Error('three lists');
    const later = { ...ann, escalate: { afterSeconds: 1, add: { ids: ['bob', 'zoe'], groups: [] } } };
    const one = nextTurn(startRun(START), [ARGS], { verdict: askVerdict({ approvers: { allOf: [later] } }) }, START);
    expect(codeFor(one, remembering(one, 't1.c0', TOOL, 'zoe'), START + 2_000)).toBe('DECISION_NOT_PERMITTED');
    expect(codeFor(one, remembering(one, 't1.c0', TOOL), START + 2_000)).toBe('accept');
    const both = { allOf: [later, bob], together: true as const };
    const two = nextTurn(startRun(START), [ARGS], { verdict: askVerdict({ approvers: both }) }, START);
    const { run } = decidedIn(two, remembering(two, 't1.c0', TOOL, 'bob'), START + 2_000);
    expect(statuses(run)).toEqual(['approved']);
    expect(run).not.toHaveProperty('standing');
  });

  test('an end that has passed, a name that the call does not have, other arguments, too much, too many', () => {
    const until = new Date(START + 1_000).toISOString();
    expect(codeFor(first, remembering(first, 't1.c0', { ...CALL, until }))).toBe('DECISION_INVALID');
    const names = ['path', 'constructor'];
    expect(codeFor(first, remembering(first, 't1.c0', { scope: 'arguments', names }))).toBe('DECISION_INVALID');
    const editable = nextTurn(startRun(START), [ARGS], {
      verdict: askVerdict({ approvers: rememberRule(['ann'], { may: ['edit'] }) }),
    });
    const both = { ...remembering(editable, 't1.c0', CALL), arguments: OTHER };
    expect(codeFor(editable, both)).toBe('DECISION_INVALID');
    const large = nextTurn(startRun(START), [{ content: 'x'.repeat(4_096) }]);
    expect(codeFor(large, remembering(large, 't1.c0', CALL))).toBe('ARGUMENTS_TOO_LARGE');
    let run = first;
    for (let turn = 1; turn <= 20; turn += 1) {
      run = decidedIn(run, remembering(run, `t${turn}.c0`, CALL)).run;
      run = nextTurn(run, [{ turn }]);
    }
    expect(run.standing).toHaveLength(20);
    expect(codeFor(run, remembering(run, 't21.c0', CALL))).toBe('LIMIT_REACHED');
    expect(codeFor(run, remembering(run, 't21.c0', undefined))).toBe('accept');
  });
});

describe('what it does not answer', () => {
  const run = after(TOOL);
  const [standing] = run.standing ?? [];
  if (standing === undefined) throw new Error('it stands');

  test.each([
    ['another tool', { target: { ...toolTarget(), tool: 'read_file' } }],
    ['another server', { target: { ...toolTarget(), server: 'other' } }],
    ['a server that has moved', { target: { ...toolTarget(), serverUrl: 'https://else.example/' } }],
    ['a tool that has changed', { target: { ...toolTarget(), definitionHash: 'e'.repeat(64) } }],
    ['a server reached otherwise', { connection: 'c'.repeat(64) }],
    ['a rule that asks others', { verdict: askVerdict({ approvers: rememberRule(['zoe']) }) }],
    ['a rule that lets nothing be remembered', { verdict: askVerdict() }],
    [
      'a rule whose approvals hold for a moment only',
      { verdict: askVerdict({ approvers: { ...rememberRule(), validForSeconds: 1 } }) },
    ],
  ])('%s', (_, over) => {
    expect(statuses(nextTurn(run, [ARGS], over, START + 5_000))).toEqual(['waiting-for-consent']);
  });

  test('what was asked again, or may have run', () => {
    const asking = askingOf(nextTurn(startRun(START), [ARGS]), 't1.c0');
    expect(answers(standing, asking, START)).toBe(true);
    expect(answers(standing, { ...asking, request: { ...asking.request, generation: 2 } }, START)).toBe(false);
    const unsure = { kind: 'unknown', code: 'OUTCOME_UNKNOWN', message: 'lost' } as const;
    expect(answers(standing, { ...asking, unsure }, START)).toBe(false);
    expect(answers({ ...standing, decisions: [] }, asking, START)).toBe(false);
  });

  test('decisions of which one says no, nothing, or something else', () => {
    const one = approval({ remember: TOOL });
    expect(extentOf([one])).toEqual({ scope: 'tool' });
    for (const other of [approval(), rejection(), { ...edit(OTHER), remember: TOOL }])
      expect(extentOf([one, other])).toBeUndefined();
    expect(extentOf([])).toBeUndefined();
  });

  test('of arguments by name: those that the one call has and the other has not', () => {
    const extent = { scope: 'arguments', names: ['path'] } as const;
    expect(covers(extent, ARGS, OTHER)).toBe(true);
    expect(covers(extent, ARGS, {})).toBe(false);
    expect(covers(extent, {}, ARGS)).toBe(false);
    expect(covers({ scope: 'arguments' }, ARGS, ARGS)).toBe(false);
    expect(covers({ scope: 'arguments', names: ['toString'] }, {}, {})).toBe(false);
  });

  test('INV-G1: of a call: any other arguments, whatever they are', () => {
    forAll(jsonObject, jsonObject, (one, other) => {
      expect(covers({ scope: 'call' }, one, one)).toBe(true);
      expect(covers({ scope: 'call' }, one, { ...other, extra: one })).toBe(false);
    });
  });
});

/** What stands has bounds: in time, in who it speaks for, in bytes (INV-G2, INV-D2). */
describe('bounds', () => {
  test('a request that is over, or was given to others since, is not answered', () => {
    const escalate = { afterSeconds: 60, replace: { ids: ['zoe'], groups: [] } };
    const run = nextTurn(startRun(START), [ARGS, ARGS], {
      verdict: askVerdict({ approvers: rememberRule(['ann'], { escalate }), deadlineSeconds: 3_600 }),
    });
    const waiting = askingOf(run, 't1.c1');
    const standing = decidedIn(run, remembering(run, 't1.c0', CALL)).run.standing?.[0];
    if (standing === undefined) throw new Error('it stands');
    const { openedAt, deadline } = waiting.request;
    expect(answers(standing, waiting, openedAt + 59_999)).toBe(true);
    expect(answers(standing, waiting, openedAt + 60_000)).toBe(false);
    const staying = { ...waiting, request: { ...waiting.request, approvers: rememberRule(['ann']) } };
    expect(answers(standing, staying, deadline - 1)).toBe(true);
    expect(answers(standing, staying, deadline)).toBe(false);
  });

  test('INV-D2: what is kept of one, and of all, has a bound', () => {
    const groups = Array.from({ length: 70 }, (_, at) => `${at}-${'g'.repeat(190)}`);
    const heavy = { verdict: askVerdict({ approvers: rememberRule(['ann'], { groups }) }) };
    const run = nextTurn(startRun(START), [ARGS], heavy);
    expect(codeFor(run, remembering(run, 't1.c0', CALL))).toBe('LIMIT_REACHED');
    let many = startRun(START);
    const wide = { verdict: askVerdict({ approvers: rememberRule(['ann'], { groups: groups.slice(0, 55) }) }) };
    const codes = Array.from({ length: 12 }, (_, index) => {
      many = nextTurn(many, [{ path: `${index}` }], wide);
      const decision = remembering(many, `t${many.turn}.c0`, CALL);
      const code = codeFor(many, decision);
      if (code === 'accept') ({ run: many } = decidedIn(many, decision));
      return code;
    });
    expect(codes[0]).toBe('accept');
    expect(codes.at(-1)).toBe('LIMIT_REACHED');
    expect(JSON.stringify(many.standing).length).toBeLessThan(150_000);
  });
});
