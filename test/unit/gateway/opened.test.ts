/** Requests that several people open at once: a run is asked seldom, and nothing is told that was read before a change. */
import { afterEach, expect, jest, test } from '@jest/globals';
import type { Countersign } from '../../../client/countersign.ts';
import { CountersignError } from '../../../contracts/errors.ts';
import type { ApprovalRequest } from '../../../contracts/schemas/request.ts';
import { FAILED_IN_LISTS_MS, Opened } from '../../../gateway/projection/opened.ts';
import type { Projection } from '../../../gateway/projection/projection.ts';
import { approvalRequest } from '../../support/builders/approval-request.ts';
import { codeOf } from '../../support/refusal.ts';

interface Question {
  answer(requests: readonly ApprovalRequest[]): void;
  fail(): void;
}

function opened() {
  let version = 1;
  const questions: Question[] = [];
  let states = 0;
  const pages: object[] = [];
  const run = {
    state: async () => ({
      turn: (states += 1),
      ledgerFrom: 2,
      ledgerLength: 500,
      transcriptFrom: 90,
      transcriptLength: 100,
    }),
    ledgerEntries: async (page: object) => {
      pages.push(page);
      return [];
    },
    messages: async (page: object) => {
      pages.push(page);
      return [];
    },
    requests: async () =>
      await new Promise<readonly ApprovalRequest[]>((resolve, reject) => {
        const fail = (): void => reject(new CountersignError('ENGINE_UNAVAILABLE', 'Nobody answers.'));
        questions.push({ answer: resolve, fail });
      }),
  };
  return {
    // Sound: these are what it uses of both.
    held: new Opened(
      { run: () => ({ version }) } as unknown as Pick<Projection, 'run'>,
      { run: () => run } as unknown as Countersign,
    ),
    questions,
    pages,
    change: () => {
      version += 1;
    },
  };
}

const OPEN: readonly ApprovalRequest[] = [approvalRequest()];

test('many who open a run ask it once, until it changes', async () => {
  const { held, questions, change } = opened();
  const both = [held.requests('run-1'), held.requests('run-1')];
  questions[0]?.answer(OPEN);
  expect(await Promise.all(both)).toEqual([OPEN, OPEN]);
  expect(await held.requests('run-1')).toEqual(OPEN);
  expect(questions).toHaveLength(1);
  change();
  const after = held.requests('run-1');
  questions[1]?.answer([]);
  expect(await after).toEqual([]);
});

test('an answer that was under way before a change, or before a decision, is told to nobody who asks after it', async () => {
  for (const happen of ['change', 'forget'] as const) {
    const { held, questions, change } = opened();
    const before = held.requests('run-1');
    if (happen === 'change') change();
    else held.forget('run-1');
    const after = held.requests('run-1');
    expect(questions).toHaveLength(2);
    questions[1]?.answer([]);
    expect(await after).toEqual([]);
    // The earlier answer comes last, and is not kept.
    questions[0]?.answer(OPEN);
    expect(await before).toEqual(OPEN);
    expect(await held.requests('run-1')).toEqual([]);
    expect(questions).toHaveLength(2);
  }
});

test('a run that does not answer is left alone for some time, or until it changes or was answered', async () => {
  const { held, questions, change } = opened();
  const first = held.requests('run-1');
  questions[0]?.fail();
  expect(await codeOf(first)).toBe('ENGINE_UNAVAILABLE');
  expect(await codeOf(held.requests('run-1'))).toBe('ENGINE_UNAVAILABLE');
  expect(questions).toHaveLength(1);
  change();
  const second = held.requests('run-1');
  questions[1]?.fail();
  expect(await codeOf(second)).toBe('ENGINE_UNAVAILABLE');
  held.forget('run-1');
  const third = held.requests('run-1');
  questions[2]?.answer(OPEN);
  expect(await third).toEqual(OPEN);
});

afterEach(() => void jest.useRealTimers());

test('lists leave a run that did not answer alone for longer than somebody who opens it', async () => {
  jest.useFakeTimers({ doNotFake: ['nextTick', 'queueMicrotask'] });
  const { held, questions } = opened();
  const first = held.requests('run-1', FAILED_IN_LISTS_MS);
  questions[0]?.fail();
  expect(await codeOf(first)).toBe('ENGINE_UNAVAILABLE');
  jest.advanceTimersByTime(10_000);
  expect(await codeOf(held.requests('run-1', FAILED_IN_LISTS_MS))).toBe('ENGINE_UNAVAILABLE');
  expect(questions).toHaveLength(1);
  const one = held.requests('run-1');
  questions[1]?.answer(OPEN);
  expect(await one).toEqual(OPEN);
  // Lists have it again, too.
  expect(await held.requests('run-1', FAILED_IN_LISTS_MS)).toEqual(OPEN);
});

test('an answer that was slow serves who asks meanwhile and next, also where several people must agree', async () => {
  jest.useFakeTimers({ doNotFake: ['nextTick', 'queueMicrotask'] });
  const { held, questions } = opened();
  const first = held.requests('run-1');
  jest.advanceTimersByTime(2_500);
  const meanwhile = held.requests('run-1');
  const [request] = OPEN as readonly [ApprovalRequest];
  const { allOf } = request.approvers;
  const several = [{ ...request, approvers: { ...request.approvers, allOf: [...allOf, ...allOf] } }];
  questions[0]?.answer(several);
  expect(await Promise.all([first, meanwhile])).toEqual([several, several]);
  void held.requests('run-1');
  expect(questions).toHaveLength(1);
  jest.advanceTimersByTime(2_500);
  void held.requests('run-1');
  expect(questions).toHaveLength(2);
});

test('the state of a run is read anew after each change, also within a moment', async () => {
  const { held, change } = opened();
  expect([await held.state('run-1'), await held.state('run-1')]).toMatchObject([{ turn: 1 }, { turn: 1 }]);
  change();
  expect(await held.state('run-1')).toMatchObject({ turn: 2 });
});

test('what pages show of a run is read once for all who look, without what is stored, and anew after a change', async () => {
  const { held, pages, change } = opened();
  await Promise.all([held.story('run-1'), held.story('run-1'), held.story('run-1')]);
  const once = [
    { from: 200, most: 300 },
    { from: 90, to: 100 },
  ];
  expect(pages).toEqual(once);
  change();
  await held.story('run-1');
  expect(pages).toEqual([...once, ...once]);
});

test('requests are kept as far as they have room in memory, where empty objects take more than their text', async () => {
  const { held, questions } = opened();
  const list = Array.from({ length: 50_000 }, () => ({}));
  const large = [{ ...approvalRequest(), arguments: { list } }];
  const open = async (run: number): Promise<void> => {
    const reading = held.requests(`run-${run}`);
    questions.splice(0).forEach(({ answer }) => answer(large));
    await reading;
  };
  const asked = async (run: number): Promise<boolean> => {
    const before = held.asked;
    await open(run);
    return held.asked > before;
  };
  // Each takes three megabytes, though its text has 150 KB.
  for (let run = 0; run < 60; run += 1) await open(run);
  expect([await asked(59), await asked(0)]).toEqual([false, true]);
});
