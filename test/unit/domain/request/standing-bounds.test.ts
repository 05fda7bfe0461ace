/** What stands has bounds: in time, in who it speaks for, in bytes (INV-G2, INV-D2). */
import { expect, test } from '@jest/globals';
import type { Remember } from '../../../../contracts/schemas/request.ts';
import { answers } from '../../../../domain/request/standing.ts';
import { startRun } from '../../../../domain/state/run.ts';
import { askingOf } from '../../../support/builders/decision.ts';
import { askVerdict } from '../../../support/builders/judgement.ts';
import { START } from '../../../support/builders/run.ts';
import { ARGS, codeFor, decidedIn, nextTurn, remembering, rememberRule } from '../../../support/builders/standing.ts';

const CALL: Remember = { scope: 'call' };

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
