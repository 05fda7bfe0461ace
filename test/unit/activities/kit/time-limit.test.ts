import { setFlagsFromString } from 'node:v8';
import { runInNewContext } from 'node:vm';
import { expect, test } from '@jest/globals';
import { deadlineIn } from '../../../../activities/kit/time-limit.ts';
import { until } from '../../../support/until.ts';

setFlagsFromString('--expose-gc');
/** Sound: the flag makes it. */
const collect = runInNewContext('gc') as () => void;

test('a deadline comes also where nothing but `AbortSignal.any` refers to it, and garbage is collected', async () => {
  let isOver = false;
  AbortSignal.any([new AbortController().signal, deadlineIn(50)]).addEventListener('abort', () => {
    isOver = true;
  });
  await until(
    () => {
      collect();
      return isOver;
    },
    { what: 'the deadline' },
  );
  expect(isOver).toBe(true);
});
