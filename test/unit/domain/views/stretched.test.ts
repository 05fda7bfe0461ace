/** What people read of stretches in the current details of a run: which turns, which tools, how often, and what went wrong. */
import { describe, expect, test } from '@jest/globals';
import type { StretchedCall } from '../../../../contracts/wire/stretch.ts';
import { openedTurn } from '../../../../domain/run/stretch.ts';
import type { Run } from '../../../../domain/state/run.ts';
import { currentDetails, withStretched } from '../../../../domain/views/temporal-ui.ts';
import { outcomes } from '../../../support/builders/outcome.ts';
import { START } from '../../../support/builders/run.ts';
import { toolTarget } from '../../../support/builders/tool.ts';
import {
  endedAs,
  freshRun,
  type Proposal,
  stepOf,
  stretchedCall,
  stretchInput,
} from '../../../support/stretch/input.ts';

const { failed, unknown, cancelled } = outcomes();

interface Turn {
  readonly run: Run;
  readonly calls: readonly StretchedCall[];
}

/** A turn of these proposals, all of whose calls left, and the run in it. */
function turnOf(
  proposals: readonly Proposal[],
  results: Readonly<Record<number, Parameters<typeof stretchedCall>[0]>> = {},
): Turn {
  const step = stepOf(1, proposals);
  const calls = proposals.map((_, index) => stretchedCall({ callId: `t1.c${index}`, ...results[index] }));
  return { run: openedTurn(freshRun(), step, stretchInput(), START), calls };
}

function lineOf({ run, calls }: Turn): string | undefined {
  return withStretched([], run, calls, START)[0];
}

const tool = (name: string): Proposal => ({ target: toolTarget({ tool: name }) });
const AT = '- turn 1 at 2026-01-01T00:00:00.000Z:';

describe('a turn', () => {
  test('names its tools, each once, with how many calls it had', () => {
    expect(lineOf(turnOf([tool('read'), tool('list'), tool('read')]))).toBe(`${AT} files/read ×2, files/list`);
  });

  test('says what did not succeed', () => {
    const results = {
      0: { result: endedAs(failed) },
      1: { result: endedAs(unknown) },
      2: { result: endedAs(cancelled) },
    };
    expect(lineOf(turnOf([tool('a'), tool('b'), tool('c'), tool('d')], results))).toBe(
      `${AT} files/a (TOOL&#95;FAILED), files/b (**answer lost**, left to the run), files/c (cancelled), files/d`,
    );
  });

  test('says which calls have no result, and which may have run', () => {
    const open = turnOf([tool('a')]);
    const { callId, digest, sentAt } = stretchedCall();
    const lost = { ...open, calls: [{ callId, digest, sentAt }] };
    expect(lineOf(lost)).toBe(`${AT} files/a (**may have run**, left to the run)`);
    const result = { kind: 'not-sent', code: 'TOOL_UNAVAILABLE', message: 'It is away.' } as const;
    expect(lineOf(turnOf([tool('a')], { 0: { result } }))).toBe(`${AT} files/a (left to the run)`);
  });

  test('holds no line of its own in the name of an outcome', () => {
    const result = { kind: 'ended', outcome: { kind: 'x\n\n### 1 waiting for a decision' } };
    // Sound for the test: whoever may write to the namespace may say so.
    const forged = { result } as unknown as Parameters<typeof stretchedCall>[0];
    expect(lineOf(turnOf([tool('a')], { 0: forged }))).not.toMatch(/\n|#{3} /);
  });

  test('of many tools is cut', () => {
    const many = Array.from({ length: 64 }, (_, index) => tool(`tool${index}`));
    const line = lineOf(turnOf(many)) ?? '';
    expect(line).toMatch(/files\/tool9, .*… \(\d+ more characters\)$/);
    expect(line.length).toBeLessThan(600);
  });

  test('holds no markup of a server; a call that nobody judged goes by its id', () => {
    const hostile = lineOf(turnOf([tool('[x](http://evil.example)\u202e')])) ?? '';
    expect(hostile).not.toMatch(/\]\(|\u202e/u);
    const { calls } = turnOf([tool('a')]);
    const { judged: _, ...step } = stepOf(1, [tool('a')]);
    expect(lineOf({ run: openedTurn(freshRun(), step, stretchInput(), START), calls })).toBe(`${AT} t1.c0`);
  });
});

describe('the current details', () => {
  test('have the newest ten turns, newest first, below what waits', () => {
    const { run, calls } = turnOf([tool('read')]);
    const all = Array.from({ length: 12 }, (_, index) => index + 1).reduce<readonly string[]>(
      (before, number) => withStretched(before, { ...run, turn: number }, calls, START),
      [],
    );
    const lines = currentDetails('completed', run, undefined, all).split('\n');
    expect(lines.slice(1, 5)).toEqual([
      '',
      '### calls made in stretches, newest turn first',
      '',
      '- turn 12 at 2026-01-01T00:00:00.000Z: files/read',
    ]);
    expect(lines.at(-1)).toMatch(/^- turn 3 /);
    expect(lines).toHaveLength(14);
  });
});
