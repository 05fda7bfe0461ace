/** Plays a run that accepts the questions of a dispatch as a test tells it to, and remembers them. */
import { type HeldRun, NotHeld } from '../../../activities/gate/legacy-2025/open-question.ts';
import type { HeldAck, HeldPlace, HeldQuestions, HeldWord } from '../../../contracts/wire/legacy-2025.ts';

export interface FakeRun extends HeldRun {
  readonly asked: readonly HeldQuestions[];
  /** Number of times that it was asked what became of a question. */
  looks(): number;
  /** Resolves once this many questions are or were open. */
  hasAsked(count: number): Promise<HeldQuestions>;
  /** Sets its answer about the newest question from now on; an error is thrown. */
  says(word: HeldWord | Error): void;
  /** Sets its reaction to the next question; undefined puts the question before people. */
  takes(how: 'refuses' | Error | undefined): void;
}

export function fakeRun(): FakeRun {
  const asked: HeldQuestions[] = [];
  const waiting = new Set<() => void>();
  let looks = 0;
  let word: HeldWord | Error = { kind: 'open' };
  let how: 'refuses' | Error | undefined;
  return {
    asked,
    looks: () => looks,
    async hasAsked(count) {
      while (asked.length < count) await new Promise<void>((resolve) => waiting.add(resolve));
      // Sound: there are that many questions.
      return asked[count - 1] as HeldQuestions;
    },
    says: (next) => (word = next),
    takes: (next) => (how = next),
    ask: async (_workflowId, _runId, questions): Promise<HeldAck> => {
      if (how === 'refuses') throw new NotHeld('refused');
      if (how !== undefined) throw how;
      word = { kind: 'open' };
      asked.push(questions);
      for (const each of waiting) each();
      waiting.clear();
      return { deadline: '2026-01-01T01:00:00.000Z' };
    },
    word: async (_workflowId, _runId, _place: HeldPlace): Promise<HeldWord> => {
      looks += 1;
      if (word instanceof Error) throw word;
      return word;
    },
  };
}
