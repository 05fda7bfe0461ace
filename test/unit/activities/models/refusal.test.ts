/** Words of a provider's error must not become anything but a status of the table. */
import { expect, test } from '@jest/globals';
import { refusalOf } from '../../../../activities/models/refusal.ts';

test.each(['constructor', 'toString', '__proto__'])('an error that is called %s has no status', (word) => {
  for (const error of [{ type: word }, { error: { code: word } }]) {
    const { code, message, facts } = refusalOf(error, { name: 'main', provider: 'openai' });
    expect([code, facts['status']]).toEqual(['MODEL_UNAVAILABLE', undefined]);
    expect(message).not.toMatch(/HTTP|function|object/i);
  }
});
