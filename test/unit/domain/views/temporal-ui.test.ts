/** What people read of a run in Temporal UI, inside the limits that Temporal sets. */
import fc from 'fast-check';
import { describe, expect, test } from '@jest/globals';
import { callIdOf } from '../../../../contracts/names.ts';
import { pausedFor } from '../../../../domain/request/pause.ts';
import { askedAgain } from '../../../../domain/request/transitions.ts';
import { type Run, startRun } from '../../../../domain/state/run.ts';
import { byteLength } from '../../../../domain/text/canonical.ts';
import {
  currentDetails,
  listedWithin,
  pendingAttributes,
  pendingMemo,
  byWhoseWord,
  summaryOf,
} from '../../../../domain/views/temporal-ui.ts';
import { anyText } from '../../../support/builders/arbitraries.ts';
import { identicalCalls, proposedCall } from '../../../support/builders/call.ts';
import { approval, shown } from '../../../support/builders/decision.ts';
import { allowVerdict, approverRule, askVerdict, denyVerdict } from '../../../support/builders/judgement.ts';
import { flyingRun, outcomePause, pausedRun, pausing } from '../../../support/builders/pause.ts';
import { askingRun, judgedRun, proposedRun, runIds, START } from '../../../support/builders/run.ts';
import { toolTarget } from '../../../support/builders/tool.ts';
import { forMany } from '../../../support/for-all.ts';

/** Each of these builds a dozen requests and their digests. */
const FEW = { numRuns: 25 };
const INVISIBLE = /[\p{C}\p{Default_Ignorable_Code_Point}]/u;

/** Open requests for tools with any legal names, at most 128 characters, on servers with the longest names. */
const anyNames = fc
  .array(
    fc.tuple(
      anyText(128).filter((name) => name !== '' && name.length <= 128),
      fc.stringMatching(/^[A-Za-z0-9._-]{64}$/),
    ),
    {
      minLength: 1,
      maxLength: 12,
    },
  )
  .map((names): Run => {
    const calls = names.map((_names, index) => proposedCall({ callId: callIdOf(999_999, 100 + index) }));
    return judgedRun(calls, (_call, index) => {
      const [tool = 'x', server = 'x'] = names[index] ?? [];
      return { target: toolTarget({ tool, server }) };
    });
  });

describe('pending memo', () => {
  test('says how many wait, until when, and names them without their arguments', () => {
    const run = askingRun(2);
    expect(pendingMemo(run, runIds())).toEqual({
      count: 2,
      nextDeadline: '2026-01-01T01:00:00.000Z',
      requests: ['t1.c0', 't1.c1'].map((callId) => ({
        callId,
        server: 'files',
        tool: 'write_file',
        deadline: '2026-01-01T01:00:00.000Z',
        digest: shown(run, callId).digest,
        ...(callId === 't1.c1' && { duplicateOf: 't1.c0' }),
      })),
      truncated: false,
    });
  });

  test('names the first five and says that there are more', () => {
    const five = pendingMemo(askingRun(5), runIds());
    const six = pendingMemo(askingRun(6), runIds());
    expect([five.requests.length, five.truncated]).toEqual([5, false]);
    expect([six.count, six.requests.length, six.truncated]).toEqual([6, 5, true]);
  });

  test('is empty where nothing waits', () => {
    expect(pendingMemo(startRun(START), runIds())).toEqual({ count: 0, requests: [], truncated: false });
  });

  test('is at most 1.5 KiB as JSON, for any names, and then says that it is cut', () => {
    forMany(FEW, anyNames, (run) => {
      const memo = pendingMemo(run, runIds());
      expect(byteLength(JSON.stringify(memo))).toBeLessThanOrEqual(1_536);
      expect(memo.count).toBe(run.calls.length);
      expect(memo.truncated).toBe(memo.requests.length < memo.count);
      expect(memo.requests.length).toBeGreaterThan(0);
      expect(JSON.stringify(memo)).not.toMatch(INVISIBLE);
    });
  });

  test('names as many as fit where names are as long as they may be', () => {
    const target = toolTarget({ server: 's'.repeat(64), tool: 't'.repeat(128) });
    const memo = pendingMemo(
      judgedRun(identicalCalls(5), () => ({ target })),
      runIds(),
    );
    expect(byteLength(JSON.stringify(memo))).toBeLessThanOrEqual(1_536);
    expect([memo.count, memo.requests.length, memo.truncated]).toEqual([5, 4, true]);
    expect(memo.requests[0]?.tool).toBe(`${'t'.repeat(64)}… (64 more characters)`);
  });

  test('five requests fit with the longest names that servers give tools in practice', () => {
    const target = toolTarget({ server: 's'.repeat(24), tool: 't'.repeat(40) });
    const run = judgedRun(identicalCalls(5), () => ({ target }));
    expect(pendingMemo(run, runIds()).requests).toHaveLength(5);
  });
});

describe('summary', () => {
  test('names call, tool and what it is about', () => {
    const [state] = askingRun().calls;
    expect(state && summaryOf(state, 'countersigned by ann')).toBe('t1.c0 files/write_file countersigned by ann');
    expect(state && summaryOf(state, '')).toBe('t1.c0 files/write_file');
  });

  test('of a call that leaves says by whose word: of all who agreed, who changed it, who sends it again', () => {
    const approver = (id: string) => ({ id, groups: [] });
    const made = { decision: approval({ approver: approver('ben') }), decidedAt: START };
    const further = [{ decision: approval({ approver: approver('ann') }), decidedAt: START }];
    // Sound: the text reads nothing else of the call.
    const said = (over: object): string => byWhoseWord(over as Parameters<typeof byWhoseWord>[0]);
    expect(said({})).toBe('allowed by policy');
    expect(said({ consent: { made } })).toBe('countersigned by ben');
    expect(said({ consent: { made: { ...made, further } }, edit: { by: 'ann' } })).toBe(
      'countersigned by ann and ben, arguments changed by ann',
    );
    expect(said({ consent: { made: { ...made, standing: 's-1' } } })).toBe(
      'countersigned by ben, by an approval that stands',
    );
    expect(said({ retry: { resolution: { approver: approver('eve') } } })).toBe('allowed by policy, sent again by eve');
  });

  test('of a call that was not resolved, it gives the name the model used', () => {
    const [state] = proposedRun([proposedCall({ name: 'no_such_tool' })]).calls;
    expect(state && summaryOf(state, '')).toBe('t1.c0 no_such_tool');
    const denied = judgedRun(identicalCalls(1), () => ({ verdict: denyVerdict() })).calls[0];
    expect(denied && summaryOf(denied, '')).toBe('t1.c0 files/write_file');
  });

  test('counts bytes, not characters: wide names are cut earlier, and whole', () => {
    const [state] = judgedRun(identicalCalls(1), () => ({ target: toolTarget({ tool: '𠀀'.repeat(64) }) })).calls;
    const summary = state === undefined ? '' : summaryOf(state, '寸'.repeat(60));
    expect(byteLength(summary)).toBeLessThanOrEqual(200);
    expect(byteLength(summary)).toBeGreaterThan(196);
    expect(summary).toMatch(/^t1\.c0 files\/𠀀+…$/u);
  });

  test('is at most half of the 400 bytes that Temporal takes, on one line, for any names', () => {
    forMany(FEW, anyNames, anyText(300), (run, about) => {
      for (const state of run.calls) {
        const summary = summaryOf(state, about);
        expect(byteLength(summary)).toBeLessThanOrEqual(200);
        expect(summary).not.toMatch(INVISIBLE);
      }
    });
  });
});

describe('current details', () => {
  test('say where the run is, and of each request the call, the tool, who, until when, and the arguments', () => {
    expect(currentDetails('waiting', askingRun())).toBe(
      [
        '**waiting** · turn 1 · 1 call',
        '',
        '### 1 waiting for a decision',
        '',
        '- **t1.c0** files/write&#95;file until 2026-01-01T01:00:00.000Z',
        '  - who: ann',
        '  - arguments: ` {"content":"hello","path":"notes.txt"} `',
      ].join('\n'),
    );
  });

  test('point to where Temporal says what is tried again, while something is under way', () => {
    for (const status of ['preparing', 'thinking', 'acting', 'storing'] as const)
      expect(currentDetails(status, startRun(START))).toBe(
        `**${status}** · turn 0 · 0 calls\n\nWhat goes on now, and what is tried again, with attempt and reason: *Pending Activities*`,
      );
  });

  test('are one line where nothing waits', () => {
    expect(currentDetails('completed', startRun(START))).toBe('**completed** · turn 0 · 0 calls');
    expect(currentDetails('limited', startRun(START), 'spend')).toBe('**limited** (spend) · turn 0 · 0 calls');
    expect(currentDetails('stopped', startRun(START), '**x**')).toContain('(&#42;&#42;x&#42;&#42;)');
  });

  test('say loudly which call of the turn was allowed by breaking glass', () => {
    const breakGlass = {
      rule: 'organisation/rules/pager',
      reason: 'The *pager* is down.',
      until: '2026-01-01T02:00:00.000Z',
    };
    const run = judgedRun(identicalCalls(2), (_call, index) => ({
      verdict: index === 0 ? allowVerdict({ breakGlass }) : allowVerdict(),
    }));
    expect(currentDetails('acting', run).split('\n')[1]).toBe(
      '**BREAK GLASS** t1.c0: allowed without being asked until 2026&#45;01&#45;01T02&#58;00&#58;00&#46;000Z: The &#42;pager&#42; is down&#46; (organisation/rules/pager)',
    );
    expect(currentDetails('completed', run).split('\n')).toHaveLength(2);
  });

  const explain = [{ rule: 'organisation/rules/pay', text: 'Money *leaves*.' }];
  const explained = judgedRun(identicalCalls(1), () => ({ verdict: askVerdict({ explain }) }));
  const reopen = { kind: 'reopen', code: 'DEFINITION_CHANGED', message: 'It *changed*.' } as const;
  const fallback = { approvers: approverRule(), deadlineSeconds: 60 };
  const again = askedAgain(flyingRun(), 't1.c0', reopen, runIds(), fallback, START).run;
  const unsure = (over: Parameters<typeof outcomePause>[0]): Run =>
    pausedFor(flyingRun(), 't1.c0', outcomePause(over), pausing(), runIds()).run;
  const hostile = unsure({ message: 'lost <b>[x](http://evil)', bytes: 12, lastProgress: 0.5 });
  const timeless = unsure({ sentAt: undefined, handedAt: '2026-01-01T00:00:00.000Z' });
  const known = ['**it may have run**', '12 bytes of an answer came, progress 0.5', 'countersign resolve'];
  const told = '  - asked again: DEFINITION&#95;CHANGED&#58; It &#42;changed&#42;&#46;';

  test.each<[string, Run, readonly string[], readonly string[]]>([
    ['nothing of glass where no verdict was reached yet', proposedRun(identicalCalls(1)), [], ['GLASS']],
    ['what rules say', explained, ['  - because: Money &#42;leaves&#42;&#46; (organisation/rules/pay)'], []],
    ['why a call is asked again', again, [told], []],
    ['how many more than twenty there are', askingRun(23), ['… and 3 more: ask the `requests` query.'], []],
    ['nothing more where there are twenty', askingRun(20), [], ['more:']],
    ['what is known of a call that may have run; text of servers is escaped', hostile, known, ['<b>', '[x](']],
    [
      'no time that is markup, whoever told it',
      unsure({ sentAt: '[now](http://evil)\u001b[2J' }),
      [],
      ['[now](', '\u001b'],
    ],
    ['no time of a call that nobody said has left', timeless, ['none has said that it left, attempt 1'], ['sent at']],
    ['nothing that nobody knows', pausedRun(), ['attempt 1\n'], ['progress']],
  ])('say %s', (_what, run, words, others) => {
    const details = currentDetails('waiting', run);
    for (const text of words) expect(details).toContain(text);
    for (const text of others) expect(details).not.toContain(text);
  });

  test('hold twenty requests', () => {
    expect(currentDetails('waiting', askingRun(23)).match(/^- \*\*t1/gm)).toHaveLength(20);
  });

  test('no text of a model or tool is markup in them, or invisible', () => {
    forMany(FEW, anyNames, fc.dictionary(anyText(), anyText(), { noNullPrototype: true }), (named, args) => {
      const run = {
        ...named,
        calls: named.calls.map((state) => ({ ...state, call: { ...state.call, arguments: args } })),
      };
      const ours =
        /^(\*\*waiting\*\* · turn 1 · \d+ calls?|### \d+ waiting for a decision|- \*\*t\d+\.c\d+\*\* \S.*|  - (who|arguments): .*|)$/;
      for (const isolated of currentDetails('waiting', run).split('\n')) {
        // Ours are the only isolates, and each of them ends.
        const line = isolated.replaceAll(/\u2068([^\u2068\u2069]*)\u2069/g, '$1');
        expect(line).toMatch(ours);
        expect(line).not.toMatch(INVISIBLE);
        const span = /^  - arguments: (`+) (.*) \1$/.exec(line);
        // A code span is ended only by a run of backticks as long as the one that began it.
        if (span !== null) expect(span[2]?.match(/`+/g) ?? []).not.toContain(span[1]);
        if (span !== null) continue;
        const theirs = line
          .replace(/^(\*\*waiting\*\*|###|- \*\*t\d+\.c\d+\*\*|  - )/, '')
          .replace(/ until [\dTZ:.-]+$/, '');
        expect(theirs.replaceAll(/&#\d+;/g, '')).not.toMatch(/[\\`*_{}[\]()#+!|<>&~$@]/);
      }
    });
  });
});

describe('search attributes', () => {
  test('count what waits and name tools and groups once each', () => {
    const rules = [approverRule([], ['ops']), approverRule(['ann'], ['ops', 'sec'])];
    const run = judgedRun(identicalCalls(2), (_call, index) => ({
      verdict: askVerdict({ approvers: rules[index] ?? approverRule() }),
    }));
    expect(pendingAttributes(run)).toEqual({
      pending: 2,
      nextDeadline: new Date(START + 3_600_000),
      waitingSince: new Date(START),
      approvers: ['group:ops', 'id:ann', 'group:sec'],
      tools: ['files/write_file'],
    });
  });

  test('are empty where nothing waits', () => {
    expect(pendingAttributes(startRun(START))).toEqual({
      pending: 0,
      nextDeadline: undefined,
      waitingSince: undefined,
      approvers: [],
      tools: [],
    });
  });

  test('name at most ten tools, and all approvers that fit', () => {
    const groups = Array.from({ length: 12 }, (_, index) => `g${index}`);
    const run = judgedRun(identicalCalls(12), (_call, index) => ({
      target: toolTarget({ tool: `tool-${index}` }),
      verdict: askVerdict({ approvers: approverRule([], groups) }),
    }));
    const { tools, approvers } = pendingAttributes(run);
    expect([tools.length, approvers.length]).toEqual([10, 12]);
  });

  test('say that there are more approvers than fit, so that nobody misses what waits for them', () => {
    const ids = Array.from({ length: 100 }, (_, index) => `${index}`.padEnd(200, 'x'));
    const run = judgedRun(identicalCalls(1), () => ({ verdict: askVerdict({ approvers: approverRule(ids) }) }));
    const { approvers } = pendingAttributes(run);
    expect(approvers).toEqual([...ids.slice(0, approvers.length - 1).map((id) => `id:${id}`), 'more']);
    expect(approvers.length).toBeGreaterThan(5);
    expect(JSON.stringify(approvers).length).toBeLessThanOrEqual(2_000);
  });

  test('hold nothing invisible, which some stores of visibility refuse', () => {
    forMany(FEW, anyNames, (run) => expect(pendingAttributes(run).tools.join('')).not.toMatch(INVISIBLE));
  });
});

/** What people read of a call whose outcome is not known: in Temporal UI, in lists, in the memo. */
test('lists count a call whose outcome is not known among what waits, and name its kind', () => {
  expect(pendingMemo(pausedRun(), runIds())).toMatchObject({ count: 1, requests: [{ about: 'outcome' }] });
  expect(pendingAttributes(pausedRun())).toMatchObject({ pending: 1 });
});

/** Lists for one search attribute: one that is too long would stop the run at its first upsert. */
describe('lists', () => {
  test('a short list is kept, each value once and in order', () => {
    expect(listedWithin(['b', 'a', 'b'])).toEqual(['b', 'a']);
  });

  test('a long one is cut to what Temporal takes for one value, whole values only', () => {
    const names = Array.from({ length: 32 }, (_, index) => `${'é'.repeat(31)}${index}`);
    const kept = listedWithin(names);
    expect(kept).toEqual(names.slice(0, kept.length));
    expect(byteLength(JSON.stringify(kept))).toBeLessThanOrEqual(2_048);
    expect(byteLength(JSON.stringify([...kept, names[kept.length]]))).toBeGreaterThan(2_000);
  });
});
