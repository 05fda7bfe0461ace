/**
 * A refused query is known by its mark, whatever wraps it, and asked again a bounded number of times, never all at
 * once. A query without an answer is asked again while the first one waits (docs/adr/0063).
 */
import { expect, test } from '@jest/globals';
import {
  askedAgain,
  askedAt,
  isRefusedQuery,
  REFUSED_QUERY,
  untilAnswered,
  whenAsked,
} from '../../../contracts/failure.ts';
import { until } from '../../support/until.ts';

const refused = (): Error => new Error('wrapped', { cause: new Error(`Query failed: ${REFUSED_QUERY}`) });

async function rejecting(error: Error): Promise<never> {
  throw error;
}

test('it is known in a chain of causes, and nothing else is taken for it', () => {
  expect(isRefusedQuery(refused())).toBe(true);
  for (const other of [new Error('ask again'), 'ASK_AGAIN: ', undefined, null, { message: REFUSED_QUERY }])
    expect(isRefusedQuery(other)).toBe(false);
});

test('an error that is its own cause is looked at for a while only', () => {
  const own = new Error('round');
  own.cause = own;
  expect(isRefusedQuery(own)).toBe(false);
});

test('what is refused is asked again, longer apart each time', async () => {
  const pauses: number[] = [];
  let asked = 0;
  const answer = await untilAnswered(
    async () => {
      asked += 1;
      if (asked < 4) throw refused();
      return 'answer';
    },
    async (ms) => pauses.push(ms),
  );
  expect([answer, asked]).toEqual(['answer', 4]);
  for (const [index, pause] of pauses.entries()) {
    expect(pause).toBeGreaterThanOrEqual(25 * 2 ** index);
    expect(pause).toBeLessThan(75 * 2 ** index);
  }
});

test('not for ever, not for another reason, and not where there is no time left', async () => {
  let asked = 0;
  const never = async (): Promise<never> => {
    asked += 1;
    throw refused();
  };
  await expect(untilAnswered(never, async () => undefined)).rejects.toThrow('wrapped');
  expect(asked).toBe(6);

  const other = (): Promise<never> => rejecting(new Error('away'));
  await expect(untilAnswered(other, async () => undefined)).rejects.toThrow('away');

  const late = (): Promise<never> => rejecting(new Error('no time'));
  await expect(untilAnswered(never, late)).rejects.toThrow('no time');
});

/** Attempts and pauses, each of which ends when the test says so. */
function asking() {
  const attempts: { readonly answer: (text: string) => void; readonly fail: (error: Error) => void }[] = [];
  const pauses: { readonly ms: number; readonly end: () => void }[] = [];
  const ask = async (): Promise<string> =>
    await new Promise<string>((answer, fail) => {
      attempts.push({ answer, fail });
    });
  const pause = async (ms: number): Promise<void> => {
    await new Promise<void>((end) => {
      pauses.push({ ms, end });
    });
  };
  return { attempts, pauses, answer: askedAgain(ask, pause) };
}

test('a query that is answered is not asked again', async () => {
  const { attempts, pauses, answer } = asking();
  attempts[0]?.answer('at once');
  expect(await answer).toBe('at once');
  expect(pauses.map(({ ms }) => ms)).toEqual([2_000]);
  pauses[0]?.end();
  await new Promise((ran) => setImmediate(ran));
  expect(attempts.length).toBe(1);
});

test.each([0, 1, 2])('three are asked at most; that of number %s answers for all', async (index) => {
  const { attempts, pauses, answer } = asking();
  for (const count of [2, 3]) {
    pauses.at(-1)?.end();
    await until(() => attempts.length === count, { what: 'another attempt' });
  }
  expect(pauses.length).toBe(2);
  attempts[index]?.answer(`of ${index}`);
  expect(await answer).toBe(`of ${index}`);
});

test('a refusal is told at once, whichever attempt has it', async () => {
  const { attempts, pauses, answer } = asking();
  pauses[0]?.end();
  await until(() => attempts.length === 2, { what: 'another attempt' });
  attempts[1]?.fail(refused());
  await expect(answer).rejects.toThrow('wrapped');
});

test('the first attempt may still be answered after a later one has failed', async () => {
  const { attempts, pauses, answer } = asking();
  pauses[0]?.end();
  await until(() => attempts.length === 2, { what: 'another attempt' });
  attempts[1]?.fail(new Error('the buffer is full'));
  await new Promise((ran) => setImmediate(ran));
  attempts[0]?.answer('late');
  expect(await answer).toBe('late');
});

test('a failure of the first attempt is told at once', async () => {
  const { attempts, answer } = asking();
  attempts[0]?.fail(new Error('away'));
  await expect(answer).rejects.toThrow('away');
});

test('a query says when it was asked behind its own arguments, and what is no time says nothing (docs/adr/0091)', () => {
  expect(askedAt([], 5)).toEqual([null, null, { askedAt: 5 }]);
  expect(askedAt([0, 9], 5)).toEqual([0, 9, { askedAt: 5 }]);
  expect(whenAsked(askedAt(['known'], 5))).toBe(5);
  expect(whenAsked(askedAt(askedAt([0, 9], 5), 6))).toBe(6);
  for (const none of [[], [0, 9], [0, 9, 5], [0, 9, null], [0, 9, { askedAt: '5' }], [0, 9, { askedAt: 0.5 }]])
    expect(whenAsked(none)).toBeUndefined();
});
