/** A refused query is known by its mark, whatever wraps it, and asked again a bounded number of times, never all at once. */
import { expect, test } from '@jest/globals';
import { isRefusedQuery, REFUSED_QUERY, untilAnswered } from '../../../contracts/failure.ts';

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
