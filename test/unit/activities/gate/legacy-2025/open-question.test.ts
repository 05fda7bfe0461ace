/** Questions on an open connection (docs/adr/0040). */
import { beforeEach, describe, expect, test } from '@jest/globals';
import {
  type Client,
  QueryNotRegisteredError,
  ServiceError,
  WorkflowNotFoundError,
  WorkflowUpdateFailedError,
} from '@temporalio/client';
import {
  HeldAsking,
  createHeldRun,
  type HeldAskingParts,
  type HeldPeople,
  NotHeld,
} from '../../../../../activities/gate/legacy-2025/open-question.ts';
import type { AskPeople } from '../../../../../activities/mcp/port.ts';
import type { InputRequests, InputResponse } from '../../../../../contracts/schemas/input.ts';
import type { HeldQuestions, HeldWord } from '../../../../../contracts/wire/legacy-2025.ts';
import { type FakeRun, fakeRun } from '../../../../support/activities/held-run.ts';

describe('questions on an open connection, one after the other, for so long and no longer (docs/adr/0040)', () => {
  const QUESTION: InputRequests = {
    question: { kind: 'form', message: 'Sure?', fields: {}, required: [], hash: 'a'.repeat(64) },
  };
  const YES: InputResponse = { action: 'accept', content: {} };
  // Sound: whether it proves anything is for the test to say.
  const ANSWERED = { kind: 'answered', provided: {} } as HeldWord;
  const CANCEL = { action: 'cancel' };

  let run: FakeRun;
  let warnings: string[];
  const never = new AbortController().signal;
  beforeEach(() => {
    run = fakeRun();
    warnings = [];
  });

  function asking(more: Partial<HeldAskingParts> = {}): AskPeople {
    return heldPeople(more).ask;
  }

  function heldPeople(more: Partial<HeldAskingParts> = {}): HeldPeople {
    return new HeldAsking({
      run,
      scheduler: { workflowId: 'wf', runId: 'run' },
      call: { callId: 't1.c0', attempt: 2 },
      seconds: 3_600,
      proven: () => Promise.resolve(YES),
      warn: (message, meta) => warnings.push(`${message} ${JSON.stringify(meta)}`),
      times: { lookMs: 1, silentMs: 20, graceMs: 0 },
      ...more,
    });
  }

  /** Waits until the run is asked this, and lets it say so. */
  async function answersTo(round: number, word: HeldWord = ANSWERED): Promise<void> {
    await run.hasAsked(round);
    run.says(word);
  }

  describe('what a server hears', () => {
    test.each<InputResponse>([YES, { action: 'decline' }, { action: 'cancel' }])(
      'what people have answered, once it is proven: %j',
      async (response) => {
        const answer = asking({ proven: () => Promise.resolve(response) })(QUESTION, never);
        expect(await run.hasAsked(1)).toEqual({ callId: 't1.c0', attempt: 2, round: 1, requests: QUESTION });
        run.says(ANSWERED);
        expect(await answer).toEqual(response);
        expect(warnings).toEqual([]);
      },
    );

    test.each<[string, InputResponse | undefined, HeldWord]>([
      ['the answer does not count', undefined, ANSWERED],
      // Sound: what a run says is not believed, so it may be anything.
      [
        'the answer is none that MCP has',
        { action: 'accept', content: { sure: { nested: true } } } as unknown as InputResponse,
        ANSWERED,
      ],
      ['the run has closed the question', YES, { kind: 'closed' }],
    ])('that nobody answers, where %s', async (_, response, word) => {
      const answer = asking({ proven: () => Promise.resolve(response) })(QUESTION, never);
      await answersTo(1, word);
      expect(await answer).toEqual(CANCEL);
    });

    test('that nobody answers, where the run refuses the question; the next one has a number of its own', async () => {
      const people = asking();
      run.takes('refuses');
      expect(await people(QUESTION, never)).toEqual(CANCEL);
      expect(warnings).toHaveLength(1);
      run.takes(undefined);
      const answer = people(QUESTION, never);
      expect((await run.hasAsked(1)).round).toBe(2);
      run.says(ANSWERED);
      expect(await answer).toEqual(YES);
    });
  });

  describe('time', () => {
    test('the operator gave is over: nobody answers, now and later, and the run is asked no more', async () => {
      const people = asking({ seconds: 0.05 });
      expect(await people(QUESTION, never)).toEqual(CANCEL);
      expect(run.asked).toHaveLength(1);
      expect(await people(QUESTION, never)).toEqual(CANCEL);
      expect(run.asked).toHaveLength(1);
    });

    test('of a call is over: nobody waits, and the run is asked no more', async () => {
      const over = new AbortController();
      const people = asking();
      const answers = [people(QUESTION, over.signal), people(QUESTION, over.signal)];
      await run.hasAsked(1);
      over.abort();
      expect(await Promise.all(answers)).toEqual([CANCEL, CANCEL]);
      expect(run.asked).toHaveLength(1);
    });
  });

  describe('a run that says nothing', () => {
    test('for a moment is asked again, also whether the answer counts', async () => {
      let proofs = 0;
      const proven = (): Promise<InputResponse> => {
        proofs += 1;
        return proofs === 1 ? Promise.reject(new Error('no keys just now')) : Promise.resolve(YES);
      };
      run.takes(new Error('no Temporal'));
      const answer = asking({ proven, times: { lookMs: 1, silentMs: 60_000, graceMs: 0 } })(QUESTION, never);
      run.takes(undefined);
      await run.hasAsked(1);
      run.says(new Error('no worker'));
      const before = run.looks();
      while (run.looks() < before + 3) await new Promise(setImmediate);
      run.says(ANSWERED);
      expect(await answer).toEqual(YES);
      expect(proofs).toBe(2);
    });

    test('for long is waited for as long as for people, and its answer counts', async () => {
      const answer = asking()(QUESTION, never);
      await run.hasAsked(1);
      run.says(new Error('what it says of a secret'));
      while (warnings.length === 0) await new Promise(setImmediate);
      run.says(ANSWERED);
      expect(await answer).toEqual(YES);
      // The words of an error may quote what was asked.
      expect(warnings).toEqual([expect.stringContaining('"error":"Error"')]);
      expect(warnings.join()).not.toContain('secret');
    });

    test('until the time is over: nobody answers', async () => {
      run.takes(new Error('no Temporal'));
      expect(await asking({ seconds: 0.1 })(QUESTION, never)).toEqual(CANCEL);
      expect(run.asked).toEqual([]);
    });
  });

  describe('several questions', () => {
    test('are asked one after the other, each with its round', async () => {
      const people = asking();
      const answers = [people(QUESTION, never), people(QUESTION, never)];
      await run.hasAsked(1);
      const before = run.looks();
      while (run.looks() < before + 3) await new Promise(setImmediate);
      expect(run.asked).toHaveLength(1);
      run.says(ANSWERED);
      expect((await run.hasAsked(2)).round).toBe(2);
      run.says({ kind: 'closed' });
      expect(await Promise.all(answers)).toEqual([YES, CANCEL]);
      expect(warnings).toEqual([]);
    });

    test('what the server takes back is waited for no longer, and the next one is put before people', async () => {
      const people = asking();
      const takenBack = new AbortController();
      const answers = [people(QUESTION, takenBack.signal), people(QUESTION, never)];
      await run.hasAsked(1);
      takenBack.abort();
      expect((await run.hasAsked(2)).round).toBe(2);
      run.says(ANSWERED);
      expect(await Promise.all(answers)).toEqual([CANCEL, YES]);
      expect(warnings).toEqual([]);
    });

    test('what is taken back while its answer is looked at is told to nobody, and does not count as told', async () => {
      const takenBack = new AbortController();
      const people = heldPeople({
        proven: () => {
          takenBack.abort();
          return Promise.resolve(YES);
        },
      });
      const answer = people.ask(QUESTION, takenBack.signal);
      await answersTo(1);
      expect(await answer).toEqual(CANCEL);
      expect(people.told).toEqual([]);
    });

    test('whose answers cannot be given to the server: the log says so, once and why', async () => {
      const people = asking();
      const undelivered = Promise.resolve('TOOL_UNAUTHORIZED' as const);
      const answers = [people(QUESTION, never, undelivered), people(QUESTION, never, undelivered)];
      for (const round of [1, 2]) await answersTo(round);
      await Promise.all(answers);
      expect(warnings).toEqual([expect.stringContaining('"code":"TOOL_UNAUTHORIZED"')]);
    });

    test('ten of a call; the others are answered without people', async () => {
      const people = asking();
      const answers = Array.from({ length: 12 }, () => people(QUESTION, never));
      for (let round = 1; round <= 10; round += 1) await answersTo(round);
      expect(await Promise.all(answers)).toEqual([...Array.from({ length: 10 }, () => YES), CANCEL, CANCEL]);
      expect(run.asked.map(({ round }) => round)).toEqual(Array.from({ length: 10 }, (_, index) => index + 1));
      expect(warnings).toHaveLength(1);
    });
  });

  describe('what the server was told', () => {
    test('is said of each question that people were asked: their word, nobody’s, why it did not count, why it was not heard', async () => {
      const answers: (InputResponse | { readonly code: string })[] = [
        YES,
        { action: 'decline' },
        { code: 'SIGNATURE_INVALID' },
        YES,
      ];
      const { ask, told } = heldPeople({ proven: () => Promise.resolve(answers.shift()) });
      const gone = Promise.resolve('TOOL_UNAUTHORIZED' as const);
      const delivered = Promise.resolve(undefined);
      for (let round = 1; round <= 4; round += 1) {
        const answer = ask(QUESTION, never, round === 4 ? gone : delivered);
        await answersTo(round);
        await answer;
      }
      const closed = ask(QUESTION, never);
      await answersTo(5, { kind: 'closed' });
      await closed;
      expect(told).toEqual([
        { round: 1, told: 'accept' },
        { round: 2, told: 'decline' },
        { round: 3, told: 'cancel', code: 'SIGNATURE_INVALID' },
        { round: 4, told: 'accept', code: 'TOOL_UNAUTHORIZED' },
        { round: 5, told: 'cancel' },
      ]);
    });

    test('is not said of what nobody was asked, nor where nobody waited for it any more', async () => {
      const { ask, told } = heldPeople();
      run.takes('refuses');
      await ask(QUESTION, never);
      run.takes(undefined);
      const takenBack = new AbortController();
      const answer = ask(QUESTION, takenBack.signal);
      await run.hasAsked(1);
      takenBack.abort();
      await answer;
      expect(told).toEqual([]);
    });
  });
});

describe("what of Temporal's errors says that a run asks nobody, and what may pass", () => {
  const place = { callId: 't1.c0', attempt: 2, round: 3 };
  const questions: HeldQuestions = { ...place, requests: {} };
  const never = new AbortController().signal;

  function runOf(act: () => Promise<unknown>) {
    const said: unknown[] = [];
    const client = {
      connection: {
        withDeadline: async (at: number, each: () => Promise<unknown>) => {
          said.push(at > Date.now());
          return await each();
        },
        withAbortSignal: async (_: AbortSignal, each: () => Promise<unknown>) => await each(),
      },
      workflow: {
        getHandle: (...ids: string[]) => ({
          executeUpdate: async (...what: unknown[]) => {
            said.push(ids, what);
            return await act();
          },
          query: async (...what: unknown[]) => {
            said.push(ids, what);
            return await act();
          },
        }),
      },
    };
    // Sound: it asks the client for nothing else.
    return { held: createHeldRun(client as unknown as Client), said };
  }

  test('a question goes to one Temporal run, under an id by which it counts once; what became of it is asked of the same run', async () => {
    const { held, said } = runOf(() => Promise.resolve({ kind: 'open' }));
    await held.ask('wf', 'run', questions, never);
    await held.word('wf', 'run', place, never);
    expect(said).toEqual([
      true,
      ['wf', 'run'],
      ['inputAsked', { args: [questions], updateId: 'held/t1.c0/2/3' }],
      true,
      ['wf', 'run'],
      ['heldInput', place],
    ]);
  });

  test.each<[string, Error]>([
    ['refused by the run, or by a build that knows no such update', new WorkflowUpdateFailedError('no', undefined)],
    ['of a run that is not there', new WorkflowNotFoundError('no', 'wf', 'run')],
    ['of a build that knows no such query', new QueryNotRegisteredError('no', 3)],
  ])('%s: nobody is asked, now and later', async (_, error) => {
    const { held } = runOf(() => Promise.reject(error));
    await expect(held.ask('wf', 'run', questions, never)).rejects.toThrow(NotHeld);
    await expect(held.word('wf', 'run', place, never)).rejects.toThrow(NotHeld);
  });

  test('a Temporal that does not answer may answer later', async () => {
    const error = new ServiceError('unavailable');
    const { held } = runOf(() => Promise.reject(error));
    await expect(held.ask('wf', 'run', questions, never)).rejects.toBe(error);
    await expect(held.word('wf', 'run', place, never)).rejects.toBe(error);
  });
});
